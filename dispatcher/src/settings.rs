//! The dispatcher's settings. Those of a single request are in [`SenderSettings`], those of the addresses that may be connected
//! to in [`EgressSettings`].

use crate::deliver::DeliveryBounds;
use crate::schedule::Schedule;
use crate::send::SenderSettings;
use common::egress::EgressSettings;
use common::program::Program;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, SealingSettings, Section, ServiceSettings,
    SettingError, TraceSettings, Variable, error,
};
use std::time::Duration;

/// Maximum number of attempts, so that their number fits its column over many replays.
const MOST_ATTEMPTS: u32 = 100;
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
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_WEBHOOK_ATTEMPTS",
            default: Some("6"),
            help: "most attempts of a delivery, 1 to 100; after the last one it is dead-lettered",
        },
        Variable {
            name: "CONNECT_WEBHOOK_BACKOFF_BASE",
            default: Some("30s"),
            help: "wait before the second attempt; each wait is twice the one before",
        },
        Variable {
            name: "CONNECT_WEBHOOK_BACKOFF_CAP",
            default: Some("60m"),
            help: "longest wait between two attempts, up to 30d",
        },
        Variable {
            name: "CONNECT_WEBHOOK_CONCURRENCY",
            default: Some("256"),
            help: "concurrent attempts, up to 5000; slow and new receivers together get at most half of them",
        },
        Variable {
            name: "CONNECT_WEBHOOK_CONCURRENCY_EACH",
            default: Some("32"),
            help: "concurrent attempts to one subscription, out of CONNECT_WEBHOOK_CONCURRENCY",
        },
        Variable {
            name: "CONNECT_WEBHOOK_RESCUE_AFTER",
            default: Some("1h"),
            help: "how long a delivery may be overdue before it is published to the queue again",
        },
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let attempts = env.get::<Self, u32>("CONNECT_WEBHOOK_ATTEMPTS")?;
        let in_all = env.get::<Self, u32>("CONNECT_WEBHOOK_CONCURRENCY")?;
        let each = env.get::<Self, u32>("CONNECT_WEBHOOK_CONCURRENCY_EACH")?;
        if attempts > MOST_ATTEMPTS {
            return Err(error("CONNECT_WEBHOOK_ATTEMPTS", "must be 1 to 100"));
        }
        // Four deliveries are held for each concurrent attempt: one is sent, one is being recorded, two wait. Three of them
        // come from the queue, one directly from the outbox.
        if in_all.saturating_mul(4) > MOST_HELD {
            return Err(error("CONNECT_WEBHOOK_CONCURRENCY", "must be 1 to 5000"));
        }
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
            each: each as usize,
            from_queue: u16::try_from(in_all * 3).unwrap_or(u16::MAX),
            direct: in_all as usize,
        };
        Ok(Self { schedule, bounds, rescue_after: env.get::<Self, _>("CONNECT_WEBHOOK_RESCUE_AFTER")? })
    }
}

/// All settings of the program.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) database: DatabaseSettings,
    pub(crate) broker: BrokerSettings,
    pub(crate) sealing: SealingSettings,
    pub(crate) service: ServiceSettings,
    pub(crate) log: LogSettings,
    pub(crate) trace: TraceSettings,
    pub(crate) webhooks: WebhookSettings,
    pub(crate) sender: SenderSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-dispatcher";
    const ABOUT: &'static str = "relays the outbox to RabbitMQ and delivers signed webhooks";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        WebhookSettings::VARIABLES,
        SenderSettings::VARIABLES,
        EgressSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::from_env(env)?,
            broker: BrokerSettings::from_env(env)?,
            sealing: SealingSettings::from_env(env)?,
            service: ServiceSettings::from_env(env)?,
            log: LogSettings::from_env(env)?,
            trace: TraceSettings::from_env(env)?,
            webhooks: WebhookSettings::from_env(env)?,
            sender: SenderSettings::from_env(env)?,
        })
    }

    fn database(&self) -> Option<&DatabaseSettings> {
        Some(&self.database)
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn trace(&self) -> &TraceSettings {
        &self.trace
    }
}
