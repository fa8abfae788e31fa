//! The worker's settings.

use common::program::Program;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, MessageSettings, SealingSettings, Section,
    ServiceSettings, SettingError, TraceSettings, Variable, error,
};

/// How much the worker takes on.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// Units of events applied at the same time.
    pub event_lanes: u32,
    /// Most events of a unit.
    pub unit_events: u32,
    /// Records writes done at the same time.
    pub record_lanes: u32,
    /// Advisor actions done at the same time.
    pub crm_lanes: u32,
    /// Whether advisor actions without a MAC are done: the CRM does not have the master key.
    pub accepts_unsigned_actions: bool,
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
            help: "events applied in one transaction at most, 1 to 1000; waiting batches are taken together up to it",
        },
        Variable {
            name: "CONNECT_RECORD_LANES",
            default: Some("2"),
            help: "units of up to 16 records writes that one worker does at the same time, 1 to 64",
        },
        Variable {
            name: "CONNECT_CRM_LANES",
            default: Some("1"),
            help: "advisor actions that one worker does at the same time, 1 to 64; one does them in their order",
        },
        Variable {
            name: "CONNECT_CRM_UNSIGNED",
            default: Some("allow"),
            help: "advisor actions without a MAC, as the CRM publishes them: allow or refuse; refuse leaves connectctl advisor only",
        },
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
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
            return Err(error("CONNECT_UNIT_EVENTS", "must be 1 to 1000: each takes locks in the database"));
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
    /// Postgres.
    pub database: DatabaseSettings,
    /// RabbitMQ.
    pub broker: BrokerSettings,
    /// Signs and verifies messages.
    pub sealing: SealingSettings,
    /// Which messages are trusted.
    pub messages: MessageSettings,
    /// The operator's port, and the drain.
    pub service: ServiceSettings,
    /// Logs.
    pub log: LogSettings,
    /// Where spans are exported to.
    pub trace: TraceSettings,
    /// How much it takes on.
    pub worker: WorkerSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-worker";
    const ABOUT: &'static str =
        "consumes events, records writes and advisor actions and applies them to Postgres";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        MessageSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
        TraceSettings::VARIABLES,
        WorkerSettings::VARIABLES,
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
            worker: WorkerSettings::read(env)?,
        })
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }

    fn trace(&self) -> &TraceSettings {
        &self.trace
    }
}
