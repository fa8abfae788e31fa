//! Why authentication failed. Callers get `Invalid Connect credentials`; operators see the reason in metrics, and the key's owner in
//! the refused requests (D35).

use crate::refusal::Refusal;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{AUTH_FAILURES, Handles};
use common::model::KeyPrefix;
use common::signature;
use metrics::Counter;
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

    /// Counts the failure and returns the refusal for the caller (D1: steps 5 and 6 are 403, all others 401). `key` is the
    /// prefix that the request names, if any. It is logged at most once a second for each reason, so that callers cannot
    /// flood the log. An unknown prefix is not logged: it may be a secret in the wrong header.
    pub(crate) fn refuse(self, key: Option<&KeyPrefix>) -> Refusal {
        let counter = || metrics::counter!(AUTH_FAILURES, "reason" => self.as_str());
        COUNTERS.get(self as usize, counter).increment(1);
        let (reason, key) = (self.as_str(), key.filter(|_| self != Self::UnknownKey).map(KeyPrefix::as_str));
        limited!(REFUSED[self as usize], info, reason, key, "authentication refused");
        match self {
            Self::Tenant | Self::Scope => Refusal::Forbidden,
            Self::MissingHeader
            | Self::RepeatedHeader
            | Self::MalformedHeader
            | Self::UnknownKey
            | Self::RevokedKey
            | Self::ExpiredKey
            | Self::WrongScheme
            | Self::Stale
            | Self::Mismatch
            | Self::Replayed => Refusal::Unauthorized,
        }
    }
}

impl From<signature::SignatureError> for AuthFailure {
    fn from(refused: signature::SignatureError) -> Self {
        match refused {
            signature::SignatureError::Malformed => Self::MalformedHeader,
            signature::SignatureError::WrongScheme => Self::WrongScheme,
            signature::SignatureError::Stale => Self::Stale,
            signature::SignatureError::Mismatch => Self::Mismatch,
        }
    }
}
