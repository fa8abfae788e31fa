//! The worker's settings.

use common::program::Program;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, MailboxSettings, RetentionSettings,
    SealingSettings, Section, ServiceSettings, SettingError, TraceSettings, Variable, error,
};

/// How many units the worker applies at the same time, and how large they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerSettings {
    /// Lanes of the events queue: units of events applied at the same time, 1 to 64.
    pub(crate) event_lanes: u32,
    /// Maximum number of events of a unit, 1 to 1000.
    pub(crate) unit_events: u32,
    /// Lanes of the records queue: units of records writes applied at the same time, 1 to 64.
    pub(crate) record_lanes: u32,
    /// Lanes of the crm queue: advisor actions applied at the same time, 1 to 64.
    pub(crate) crm_lanes: u32,
    /// Whether advisor actions without a MAC are accepted: the CRM does not have the master key.
    pub(crate) accepts_unsigned_actions: bool,
}

impl Section for WorkerSettings {
    const VARIABLES: &'static [Variable] = &[
        Variable {
            name: "CONNECT_WORKER_LANES",
            default: Some("2"),
            help: "units of events that one worker applies at the same time, 1 to 64",
        },
        Variable {
            name: "CONNECT_UNIT_EVENTS",
            default: Some("256"),
            help: "most events applied in one transaction, 1 to 1000; batches that wait are combined up to it",
        },
        Variable {
            name: "CONNECT_RECORD_LANES",
            default: Some("2"),
            help: "units of up to 16 records writes that one worker applies at the same time, 1 to 64",
        },
        Variable {
            name: "CONNECT_CRM_LANES",
            default: Some("1"),
            help: "advisor actions that one worker applies at the same time, 1 to 64; with 1 they are applied in order",
        },
        Variable {
            name: "CONNECT_CRM_UNSIGNED",
            default: Some("allow"),
            help: "advisor actions without a MAC, as the CRM publishes them: allow or refuse; with refuse only connectctl advisor is accepted",
        },
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let event_lanes = env.get::<Self, u32>("CONNECT_WORKER_LANES")?;
        let unit_events = env.get::<Self, u32>("CONNECT_UNIT_EVENTS")?;
        let record_lanes = env.get::<Self, u32>("CONNECT_RECORD_LANES")?;
        if record_lanes > 64 {
            return Err(error("CONNECT_RECORD_LANES", "must be 1 to 64"));
        }
        let crm_lanes = env.get::<Self, u32>("CONNECT_CRM_LANES")?;
        if crm_lanes > 64 {
            return Err(error("CONNECT_CRM_LANES", "must be 1 to 64"));
        }
        if event_lanes > 64 {
            return Err(error("CONNECT_WORKER_LANES", "must be 1 to 64"));
        }
        if unit_events > 1_000 {
            return Err(error(
                "CONNECT_UNIT_EVENTS",
                "must be 1 to 1000: each event takes locks in the database",
            ));
        }
        let accepts_unsigned_actions = match env.get::<Self, String>("CONNECT_CRM_UNSIGNED")?.as_str() {
            "allow" => true,
            "refuse" => false,
            _ => return Err(error("CONNECT_CRM_UNSIGNED", "must be allow or refuse")),
        };
        Ok(Self { event_lanes, unit_events, record_lanes, crm_lanes, accepts_unsigned_actions })
    }
}

/// All settings of the program.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How Postgres is reached.
    pub(crate) database: DatabaseSettings,
    /// How RabbitMQ is reached, and the prefix of its queues.
    pub(crate) broker: BrokerSettings,
    /// The master key, from which the keys of messages are derived.
    pub(crate) sealing: SealingSettings,
    /// The address of the metrics server, and the shutdown timeout.
    pub(crate) service: ServiceSettings,
    /// Level and format of logs.
    pub(crate) log: LogSettings,
    /// Where spans are exported to.
    pub(crate) trace: TraceSettings,
    /// Mailbox providers that are never a company's domain.
    pub(crate) mailboxes: MailboxSettings,
    /// The worker's own settings.
    pub(crate) worker: WorkerSettings,
    /// How long settled rows and messages are kept.
    pub(crate) retention: RetentionSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-worker";
    const ABOUT: &'static str =
        "consumes events, records writes and advisor actions and applies them to Postgres";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
        MailboxSettings::VARIABLES,
        WorkerSettings::VARIABLES,
        RetentionSettings::VARIABLES,
    ];

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::from_env(env)?,
            broker: BrokerSettings::from_env(env)?,
            sealing: SealingSettings::from_env(env)?,
            service: ServiceSettings::from_env(env)?,
            log: LogSettings::from_env(env)?,
            trace: TraceSettings::from_env(env)?,
            mailboxes: MailboxSettings::from_env(env)?,
            worker: WorkerSettings::from_env(env)?,
            retention: RetentionSettings::from_env(env)?,
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
