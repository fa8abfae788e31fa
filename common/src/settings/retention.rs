//! How long settled rows are kept.

use super::{Environment, Section, SettingError, SettingValue, Variable, error};
use crate::variables;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// The shortest time for which an `Idempotency-Key` is remembered (D31).
const IDEMPOTENCY_MIN: Duration = DAY;
/// The shortest time for which audit records are kept. The function of the schema that removes them refuses a shorter one.
const AUDIT_MIN: Duration = DAY;
/// The shortest time for which refused requests are kept: the settings area shows the requests of a day.
const REFUSALS_MIN: Duration = DAY;
/// The shortest time for which an applied event is known as a duplicate, if not forever (D31).
const LEDGER_MIN: Duration = Duration::from_secs(90 * 86_400);

/// How long something is kept; `off` keeps it forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPeriod(Option<Duration>);

impl RetentionPeriod {
    /// Keeps everything.
    pub const OFF: Self = Self(None);

    /// Keeps for this long.
    pub const fn of(period: Duration) -> Self {
        Self(Some(period))
    }

    /// What is older than this time is removed; `None` if everything is kept.
    pub fn cutoff(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        now.checked_sub_signed(TimeDelta::from_std(self.0?).ok()?)
    }

    /// How long; `None` if everything is kept.
    pub const fn length(self) -> Option<Duration> {
        self.0
    }

    fn is_shorter_than(self, least: Duration) -> bool {
        self.0.is_some_and(|period| period < least)
    }
}

/// As in a setting: `30d`, or `off`.
impl fmt::Display for RetentionPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(period) = self.0 else { return f.write_str("off") };
        let millis = period.as_millis();
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
        let (length, unit) = units.into_iter().find(|unit| millis.is_multiple_of(unit.0)).unwrap_or((1, "ms"));
        write!(f, "{}{unit}", millis / length)
    }
}

impl SettingValue for RetentionPeriod {
    fn parse_setting(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::OFF);
        }
        let period = Duration::parse_setting(text);
        period.map(Self::of).map_err(|_| "must be off, or a duration above zero such as 24h or 30d".to_owned())
    }
}

/// How long settled rows are kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionSettings {
    /// Delivered and dropped deliveries, their attempts, and events of the outbox that are fanned out.
    pub deliveries: RetentionPeriod,
    /// Responses that are repeated to a retry with the same `Idempotency-Key`.
    pub idempotency: RetentionPeriod,
    /// What members were told.
    pub notifications: RetentionPeriod,
    /// What operators did.
    pub audit: RetentionPeriod,
    /// Why requests were refused, and how many requests each key has made.
    pub refusals: RetentionPeriod,
    /// Applied events, by which duplicates are recognized.
    pub ledger: RetentionPeriod,
}

impl RetentionSettings {
    /// Keeps everything.
    pub const OFF: Self = Self {
        deliveries: RetentionPeriod::OFF,
        idempotency: RetentionPeriod::OFF,
        notifications: RetentionPeriod::OFF,
        audit: RetentionPeriod::OFF,
        refusals: RetentionPeriod::OFF,
        ledger: RetentionPeriod::OFF,
    };
}

impl Section for RetentionSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_RETENTION_DELIVERIES" => "30d", "how long delivered and dropped webhooks, their attempts and their events are kept after the event or the last attempt, whichever is later; off keeps them";
        "CONNECT_RETENTION_IDEMPOTENCY" => "7d", "how long the response to a records write is kept and returned to a retry with the same Idempotency-Key, at least 24h; off keeps it forever";
        "CONNECT_RETENTION_NOTIFICATIONS" => "90d", "how long notifications of members are kept; off keeps them";
        "CONNECT_RETENTION_AUDIT" => "365d", "how long the records of operators' actions are kept, at least 24h; off keeps them";
        "CONNECT_RETENTION_REFUSALS" => "7d", "how long the newest 200 refused requests of each key, and the numbers of requests, are kept, at least 24h; off keeps all";
        "CONNECT_RETENTION_LEDGER" => "off", "how long an applied event is recognized as a duplicate, at least 90d; off recognizes it forever";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let at_least = |name: &str, least: Duration| {
            let period = env.get::<Self, RetentionPeriod>(name)?;
            if period.is_shorter_than(least) {
                return Err(error(name, &format!("must be off or at least {}", RetentionPeriod::of(least))));
            }
            Ok(period)
        };
        Ok(Self {
            deliveries: env.get::<Self, _>("CONNECT_RETENTION_DELIVERIES")?,
            idempotency: at_least("CONNECT_RETENTION_IDEMPOTENCY", IDEMPOTENCY_MIN)?,
            notifications: env.get::<Self, _>("CONNECT_RETENTION_NOTIFICATIONS")?,
            audit: at_least("CONNECT_RETENTION_AUDIT", AUDIT_MIN)?,
            refusals: at_least("CONNECT_RETENTION_REFUSALS", REFUSALS_MIN)?,
            ledger: at_least("CONNECT_RETENTION_LEDGER", LEDGER_MIN)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(name: &str, value: &str) -> Result<RetentionSettings, String> {
        RetentionSettings::from_env(&Environment::from_pairs(&[(name, value)])).map_err(|error| error.to_string())
    }

    #[test]
    fn periods_are_durations_or_off() {
        for (text, shown) in [("30d", "30d"), ("48h", "2d"), ("90m", "90m"), ("1500ms", "1500ms"), ("off", "off")] {
            let expected = Ok(shown.to_owned());
            assert_eq!(RetentionPeriod::parse_setting(text).map(|period| period.to_string()), expected);
        }
        for wrong in ["0d", "never", "30", ""] {
            assert!(RetentionPeriod::parse_setting(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_ledger_is_kept_by_default() {
        let settings = RetentionSettings::from_env(&Environment::from_pairs(&[])).expect("defaults");
        let RetentionSettings { deliveries, idempotency, notifications, audit, refusals, ledger } = settings;
        let periods = [deliveries, idempotency, notifications, audit, refusals, ledger];
        assert_eq!(periods.map(|period| period.to_string()), ["30d", "7d", "90d", "365d", "7d", "off"]);
    }

    #[test]
    fn duplicates_idempotency_keys_and_audit_records_have_a_shortest_period() {
        let refused = settings("CONNECT_RETENTION_LEDGER", "89d").expect_err("too short");
        assert_eq!(refused, "setting CONNECT_RETENTION_LEDGER: must be off or at least 90d");
        assert!(settings("CONNECT_RETENTION_LEDGER", "2159h").is_err());
        assert!(settings("CONNECT_RETENTION_LEDGER", "90d").is_ok());
        let refused = settings("CONNECT_RETENTION_IDEMPOTENCY", "23h").expect_err("too short");
        assert_eq!(refused, "setting CONNECT_RETENTION_IDEMPOTENCY: must be off or at least 1d");
        assert!(settings("CONNECT_RETENTION_IDEMPOTENCY", "24h").is_ok());
        let refused = settings("CONNECT_RETENTION_AUDIT", "23h").expect_err("too short");
        assert_eq!(refused, "setting CONNECT_RETENTION_AUDIT: must be off or at least 1d");
        assert!(settings("CONNECT_RETENTION_AUDIT", "24h").is_ok());
    }

    #[test]
    fn the_cutoff_is_the_period_before_now() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(100);
        assert_eq!(RetentionPeriod::of(DAY).cutoff(now), Some(now - TimeDelta::days(1)));
        assert_eq!(RetentionPeriod::OFF.cutoff(now), None);
    }
}
