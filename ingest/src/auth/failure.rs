//! Why authentication failed. Callers get `Invalid Connect credentials`; operators see the reason in metrics, and the
//! key's owner in the refused requests (D35).

use super::Verified;
use crate::refusal::Refusal;
use common::caller::Caller;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{AUTH_FAILURES, Handles};
use common::model::KeyPrefix;
use common::signature::{Signature, SignatureError};
use metrics::Counter;
use std::sync::Arc;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// A check that failed, in the order of D1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum AuthFailure {
    /// A header is missing.
    MissingHeader,
    /// A header is repeated.
    RepeatedHeader,
    /// A header is malformed.
    MalformedHeader,
    /// No key has that prefix.
    UnknownKey,
    /// The key was revoked.
    RevokedKey,
    /// The key has expired.
    ExpiredKey,
    /// The signature uses the scheme of the other routes.
    WrongScheme,
    /// The timestamp is more than 300 s away from the clock.
    Stale,
    /// The MAC does not match.
    Mismatch,
    /// The tenant named is not the key's.
    Tenant,
    /// The key lacks the route's scope.
    Scope,
    /// The signature was used before.
    Replayed,
}

/// A request that failed a check, with what the owner of its key may learn (D35).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCheck {
    pub(crate) failure: AuthFailure,
    /// The prefix of the key that the request names.
    pub(crate) key: Option<KeyPrefix>,
    /// Whose key it is, if there is such a key, which no caller may be able to observe.
    pub(crate) owner: Option<Arc<Caller>>,
    /// The header that is missing, repeated or malformed.
    pub(crate) header: Option<&'static str>,
    /// The signature, if all headers are well formed.
    pub(crate) signature: Option<Signature>,
}

/// Why a request is not verified.
#[derive(Debug)]
pub(crate) enum AuthError {
    Failed(Box<FailedCheck>),
    /// The keys could not be checked. With the request as that of the key that it was signed with, by what was last known.
    Unavailable(Refusal, Option<Box<Verified>>),
}

static COUNTERS: Handles<Counter, { AuthFailure::COUNT }> = Handles::new();

/// Limits the log lines of refusals, by reason.
static REFUSED: LogLimit<{ AuthFailure::COUNT }> = LogLimit::new();

impl AuthFailure {
    /// All failures, in the order of D1.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of the metric's label `reason`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Counts the failure and returns the refusal for the caller. `owner` is that of a key that exists. It is logged at
    /// most once a second for each reason, so that callers cannot flood the log.
    pub(crate) fn refuse(self, owner: Option<&Caller>) -> Refusal {
        let counter = || metrics::counter!(AUTH_FAILURES, "reason" => self.as_str());
        COUNTERS.get(self as usize, counter).increment(1);
        let (refusal, code) = if self.is_forbidden() {
            (Refusal::Forbidden, "forbidden")
        } else {
            (Refusal::Unauthorized, "unauthorized")
        };
        let reason = self.as_str();
        let (tenant, key) = (owner.map(|owner| owner.tenant.as_str()), owner.map(|owner| owner.key.as_str()));
        limited!(REFUSED[self as usize], info, reason, code, tenant, key, "authentication refused");
        refusal
    }

    /// Whether the response is 403: steps 5 and 6 of D1. All others get 401.
    pub(crate) const fn is_forbidden(self) -> bool {
        matches!(self, Self::Tenant | Self::Scope)
    }
}

impl FailedCheck {
    /// Counts the failure and returns the refusal for the caller. An unknown prefix is not logged: it may be a secret
    /// in the wrong header.
    pub(crate) fn refuse(&self) -> Refusal {
        self.failure.refuse(self.owner.as_deref())
    }
}

impl From<Box<FailedCheck>> for AuthError {
    fn from(failed: Box<FailedCheck>) -> Self {
        Self::Failed(failed)
    }
}

impl From<SignatureError> for AuthFailure {
    fn from(refused: SignatureError) -> Self {
        match refused {
            SignatureError::Malformed => Self::MalformedHeader,
            SignatureError::WrongScheme => Self::WrongScheme,
            SignatureError::Stale => Self::Stale,
            SignatureError::Mismatch => Self::Mismatch,
        }
    }
}
