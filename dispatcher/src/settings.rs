//! The dispatcher's settings. Those of a single request are in [`SenderSettings`], those of the addresses that may be connected
//! to in [`EgressSettings`](common::egress::EgressSettings).

use crate::deliver::DeliveryBounds;
use crate::schedule::Schedule;
use crate::send::SenderSettings;
use common::settings::{Environment, Section, SettingError, Variable, error};
use common::variables;
use std::time::Duration;

/// Maximum number of attempts, so that their number fits its column over many replays.
const MOST_ATTEMPTS: u32 = 100;
/// Concurrent attempts to one subscription.
const ATTEMPTS_OF_SUBSCRIPTION: usize = 32;
/// Longest wait: a message's TTL in milliseconds must fit into 32 bits, jitter included.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of deliveries held: the prefetch of those from the queue must fit into 16 bits.
const MOST_HELD: u32 = 20_000;

/// Schedule and concurrency of webhooks.
#[derive(Clone, Copy, Debug)]
pub struct WebhookSettings {
    /// When attempts are made (D26).
    pub schedule: Schedule,
    /// Concurrency (D28).
    pub(crate) bounds: DeliveryBounds,
    /// How long a pending delivery may be overdue before it counts as lost by the queue.
    pub(crate) rescue_after: Duration,
}

impl Section for WebhookSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_WEBHOOK_ATTEMPTS" => "6", "most attempts of a delivery, 1 to 100; after the last one it is dead-lettered";
        "CONNECT_WEBHOOK_BACKOFF_BASE" => "30s", "wait before the second attempt; each wait is twice the one before";
        "CONNECT_WEBHOOK_BACKOFF_CAP" => "60m", "longest wait between two attempts, up to 30d";
        "CONNECT_WEBHOOK_CONCURRENCY" => "256", "concurrent attempts, up to 5000, of which 32 to one subscription; slow and new receivers together get at most half of them";
        "CONNECT_WEBHOOK_RESCUE_AFTER" => "1h", "how long a delivery may be overdue before it is published to the queue again";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let attempts = env.up_to::<Self>("CONNECT_WEBHOOK_ATTEMPTS", MOST_ATTEMPTS)?;
        // Four deliveries are held for each concurrent attempt: one is sent, one is being recorded, two wait. Three of them
        // come from the queue, one directly from the outbox.
        let in_all = env.up_to::<Self>("CONNECT_WEBHOOK_CONCURRENCY", MOST_HELD / 4)?;
        let cap = env.get::<Self, Duration>("CONNECT_WEBHOOK_BACKOFF_CAP")?;
        if cap > LONGEST_WAIT {
            return Err(error("CONNECT_WEBHOOK_BACKOFF_CAP", "must be 30d at most"));
        }
        let schedule = Schedule {
            attempts: u16::try_from(attempts).unwrap_or(u16::MAX),
            base: env.get::<Self, _>("CONNECT_WEBHOOK_BACKOFF_BASE")?,
            cap,
        };
        let bounds = DeliveryBounds {
            in_all: in_all as usize,
            each: ATTEMPTS_OF_SUBSCRIPTION,
            from_queue: u16::try_from(in_all * 3).unwrap_or(u16::MAX),
            direct: in_all as usize,
        };
        Ok(Self { schedule, bounds, rescue_after: env.get::<Self, _>("CONNECT_WEBHOOK_RESCUE_AFTER")? })
    }
}

/// All settings that the dispatcher reads beside those of every service.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) webhooks: WebhookSettings,
    pub(crate) sender: SenderSettings,
}

impl Section for Settings {
    const VARIABLES: &'static [Variable] = WebhookSettings::VARIABLES;

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self { webhooks: WebhookSettings::from_env(env)?, sender: SenderSettings::from_env(env)? })
    }
}
