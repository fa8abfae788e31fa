//! Why authentication refused, for the operator only: callers are told `Invalid Connect credentials`.

use crate::error::Refusal;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{AUTH_FAILURES, Handles};
use common::model::KeyPrefix;
use common::signature;
use metrics::Counter;

/// A check that failed, in the order of D1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A header isn't there.
    Missing,
    /// A header is there twice.
    Repeated,
    /// A header doesn't have its form.
    Malformed,
    /// No key has that prefix.
    UnknownKey,
    /// The key was revoked.
    RevokedKey,
    /// The key has expired.
    ExpiredKey,
    /// A signature of the other routes' scheme.
    WrongScheme,
    /// Outside ±300 s.
    Stale,
    /// The MAC is another.
    Mismatch,
    /// The agency named isn't the key's.
    Tenant,
    /// The key lacks the route's scope.
    Scope,
    /// The signature was used before.
    Replayed,
}

/// The counters of refusals.
static COUNTERS: Handles<Counter, { Failure::ALL.len() }> = Handles::new();

/// Which refusals are logged.
static REFUSED: LogLimit<{ Failure::ALL.len() }> = LogLimit::new();

impl Failure {
    /// All of them, in their order.
    pub const ALL: [Self; 12] = [
        Self::Missing,
        Self::Repeated,
        Self::Malformed,
        Self::UnknownKey,
        Self::RevokedKey,
        Self::ExpiredKey,
        Self::WrongScheme,
        Self::Stale,
        Self::Mismatch,
        Self::Tenant,
        Self::Scope,
        Self::Replayed,
    ];

    /// The metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing_header",
            Self::Repeated => "repeated_header",
            Self::Malformed => "malformed_header",
            Self::UnknownKey => "unknown_key",
            Self::RevokedKey => "revoked_key",
            Self::ExpiredKey => "expired_key",
            Self::WrongScheme => "wrong_scheme",
            Self::Stale => "stale",
            Self::Mismatch => "mismatch",
            Self::Tenant => "tenant",
            Self::Scope => "scope",
            Self::Replayed => "replayed",
        }
    }

    /// Counts it and gives what the caller is told (D1: steps 5 and 6 are 403, all others 401). `key` is the prefix that
    /// the request names, where it names one: whose requests are refused is told to the operator, once a second for each
    /// reason, so that nobody can fill the log. A prefix that nobody has isn't: it may be a secret in the wrong header.
    pub fn refuse(self, key: Option<&KeyPrefix>) -> Refusal {
        let counter = || metrics::counter!(AUTH_FAILURES, "reason" => self.as_str());
        COUNTERS.get(self as usize, counter).increment(1);
        let (reason, key) = (self.as_str(), key.filter(|_| self != Self::UnknownKey).map(KeyPrefix::as_str));
        limited!(REFUSED[self as usize], info, reason, key, "authentication refused");
        match self {
            Self::Tenant | Self::Scope => Refusal::Forbidden,
            Self::Missing
            | Self::Repeated
            | Self::Malformed
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

impl From<signature::Refused> for Failure {
    fn from(refused: signature::Refused) -> Self {
        match refused {
            signature::Refused::Malformed => Self::Malformed,
            signature::Refused::WrongScheme => Self::WrongScheme,
            signature::Refused::Stale => Self::Stale,
            signature::Refused::Mismatch => Self::Mismatch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_listed_at_its_place() {
        for (place, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, place);
        }
    }
}
