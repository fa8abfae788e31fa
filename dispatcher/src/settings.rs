//! The dispatcher's settings. Those of a single request are in [`SenderSettings`], those of the addresses that may be connected
//! to in [`EgressSettings`](common::egress::EgressSettings).

use crate::schedule::Schedule;
use crate::send::SenderSettings;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;
use std::time::Duration;

/// Maximum number of attempts, so that their number fits its column over many replays.
const MOST_ATTEMPTS: u32 = 100;
/// Longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of concurrent attempts.
const MOST_CONCURRENT: u32 = 5_000;

/// All settings that the dispatcher reads beside those of every service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When attempts are made (D26).
    pub schedule: Schedule,
    /// Most attempts at once (D28).
    pub(crate) concurrency: usize,
    /// How an attempt is made.
    pub sender: SenderSettings,
}

impl Section for Settings {
    /// Without those of [`SenderSettings`], which it reads as well.
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WEBHOOK_ATTEMPTS" => "6", "most attempts of a delivery, 1 to 100; after the last one it is dead-lettered";
        "CONNECT_WEBHOOK_BACKOFF_BASE" => "30s", "wait before the second attempt; each wait is twice the one before";
        "CONNECT_WEBHOOK_BACKOFF_CAP" => "60m", "longest wait between two attempts, up to 30d";
        "CONNECT_WEBHOOK_CONCURRENCY" => "256", "concurrent attempts, up to 5000, of which 32 to one subscription; slow and new receivers together get at most half of them";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let attempts = env.up_to::<Self>("CONNECT_WEBHOOK_ATTEMPTS", MOST_ATTEMPTS)?;
        let concurrency = env.up_to::<Self>("CONNECT_WEBHOOK_CONCURRENCY", MOST_CONCURRENT)? as usize;
        let cap = env.get::<Self, Duration>("CONNECT_WEBHOOK_BACKOFF_CAP")?;
        if cap > LONGEST_WAIT {
            return Err(error("CONNECT_WEBHOOK_BACKOFF_CAP", "must be 30d at most"));
        }
        let schedule = Schedule {
            attempts: u16::try_from(attempts).unwrap_or(u16::MAX),
            base: env.get::<Self, _>("CONNECT_WEBHOOK_BACKOFF_BASE")?,
            cap,
        };
        Ok(Self { schedule, concurrency, sender: SenderSettings::from_env(env)? })
    }
}
