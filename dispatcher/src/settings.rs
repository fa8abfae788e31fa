//! The dispatcher's settings.

use crate::deliver::DeliveryBounds;
use crate::schedule::Schedule;
use crate::send::SenderSettings;
use common::egress::EgressSettings;
use common::program::Program;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, MessageSettings, SealingSettings, Section,
    ServiceSettings, SettingError, TraceSettings, Variable, error,
};
use std::time::Duration;

/// Most attempts, so that they can be counted for ever over replays.
const MOST_ATTEMPTS: u32 = 100;
/// Longest wait: the broker counts a message's milliseconds in 32 bits, and there is jitter on top.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// Most deliveries held: the broker counts those from the queue in 16 bits.
const MOST_OPEN: u32 = 20_000;

/// When and how much is delivered.
#[derive(Clone, Copy, Debug)]
pub struct WebhookSettings {
    /// When attempts are made (D26).
    pub schedule: Schedule,
    /// How much at once (D28).
    pub bounds: DeliveryBounds,
    /// How long past its due time a delivery counts as lost by the queue.
    pub rescue_after: Duration,
}

impl Section for WebhookSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_WEBHOOK_ATTEMPTS",
            default: Some("6"),
            help: "attempts at a delivery in all, 1 to 100; then it is a dead letter",
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
            help: "attempts under way at once, up to 5000; slow receivers get half of them at most",
        },
        Variable {
            name: "CONNECT_WEBHOOK_CONCURRENCY_EACH",
            default: Some("32"),
            help: "of these, attempts to one subscription",
        },
        Variable {
            name: "CONNECT_WEBHOOK_RESCUE_AFTER",
            default: Some("1h"),
            help: "how long a delivery may be overdue before it is put into the queue again",
        },
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        let attempts = env.get::<Self, u32>("CONNECT_WEBHOOK_ATTEMPTS")?;
        let in_all = env.get::<Self, u32>("CONNECT_WEBHOOK_CONCURRENCY")?;
        let each = env.get::<Self, u32>("CONNECT_WEBHOOK_CONCURRENCY_EACH")?;
        if attempts > MOST_ATTEMPTS {
            return Err(error("CONNECT_WEBHOOK_ATTEMPTS", "must be 1 to 100"));
        }
        // Four for each attempt under way: one that is sent, one on record soon, two that wait. Three of them from the
        // queue, one straight from the outbox.
        if in_all.saturating_mul(4) > MOST_OPEN {
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
    /// Postgres.
    pub database: DatabaseSettings,
    /// RabbitMQ.
    pub broker: BrokerSettings,
    /// Opens the subscriptions' secrets.
    pub sealing: SealingSettings,
    /// Which messages are trusted.
    pub messages: MessageSettings,
    /// The operator's port, and the drain.
    pub service: ServiceSettings,
    /// Logs.
    pub log: LogSettings,
    /// Where spans are exported to.
    pub trace: TraceSettings,
    /// When and how much is delivered.
    pub webhooks: WebhookSettings,
    /// How receivers are reached.
    pub sender: SenderSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-dispatcher";
    const ABOUT: &'static str = "relays the outbox to RabbitMQ and delivers signed webhooks";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        MessageSettings::VARIABLES,
        WebhookSettings::VARIABLES,
        SenderSettings::VARIABLES,
        EgressSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::read(env)?,
            broker: BrokerSettings::read(env)?,
            sealing: SealingSettings::read(env)?,
            messages: MessageSettings::read(env)?,
            service: ServiceSettings::read(env)?,
            log: LogSettings::read(env)?,
            trace: TraceSettings::read(env)?,
            webhooks: WebhookSettings::read(env)?,
            sender: SenderSettings::read(env)?,
        })
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn trace(&self) -> &TraceSettings {
        &self.trace
    }
}
