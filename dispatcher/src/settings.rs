//! The dispatcher's settings.

use common::program::Program;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, Section, ServiceSettings, SettingError,
    Variable,
};

/// All settings of the program.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Postgres.
    pub database: DatabaseSettings,
    /// RabbitMQ.
    pub broker: BrokerSettings,
    /// The operator's port, and the drain.
    pub service: ServiceSettings,
    /// Logs.
    pub log: LogSettings,
}

impl Program for Settings {
    const NAME: &'static str = "connect-dispatcher";
    const ABOUT: &'static str = "relays the outbox to RabbitMQ and delivers signed webhooks";
    const VARIABLES: &'static [&'static [Variable]] = &[
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        ServiceSettings::VARIABLES,
        LogSettings::VARIABLES,
    ];

    fn read(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            database: DatabaseSettings::read(env)?,
            broker: BrokerSettings::read(env)?,
            service: ServiceSettings::read(env)?,
            log: LogSettings::read(env)?,
        })
    }

    fn log(&self) -> &LogSettings {
        &self.log
    }
}
