//! What every command works with: the database, the settings, the way out.

use crate::output::Output;
use anyhow::Context as _;
use common::settings::{DatabaseSettings, Environment, Section, SettingError};
use std::time::Duration;
use tokio_postgres::{Client, Config, NoTls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Context {
    pub(crate) database: Client,
    pub(crate) output: Output,
    environment: Environment,
}

impl Context {
    /// Reads the settings that every command needs and connects.
    pub(crate) async fn open(json: bool) -> anyhow::Result<Self> {
        let environment = Environment::of_process();
        let settings = DatabaseSettings::read(&environment)?;
        let database = connect(&settings).await.context("can't reach the database")?;
        Ok(Self { database, output: Output::new(json), environment })
    }

    /// Settings that only some commands need.
    pub(crate) fn settings<S: Section>(&self) -> Result<S, SettingError> {
        S::read(&self.environment)
    }
}

async fn connect(settings: &DatabaseSettings) -> Result<Client, tokio_postgres::Error> {
    let mut config: Config = settings.url.reveal().parse()?;
    config.application_name("connectctl").connect_timeout(CONNECT_TIMEOUT);
    let (client, connection) = config.connect(NoTls).await?;
    // When the connection breaks, the statement that waits for it says so.
    tokio::spawn(connection);
    Ok(client)
}
