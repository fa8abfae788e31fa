//! What every command works with: the database, the settings, the way out.

use crate::output::Output;
use crate::sealing;
use anyhow::Context as _;
use common::db::{self, ConnectError};
use common::settings::{DatabaseSettings, Environment, SealingSettings, Section, SettingError, SettingValue};
use std::time::Duration;
use tokio_postgres::{Client, Transaction};

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

    /// A single setting that may be left out.
    pub(crate) fn optional<S: Section, T: SettingValue>(
        &self,
        name: &str,
    ) -> Result<Option<T>, SettingError> {
        self.environment.optional::<S, T>(name)
    }

    /// What secrets are sealed with: the master key that the database was set up with.
    pub(crate) async fn sealing(&self) -> anyhow::Result<SealingSettings> {
        let sealing: SealingSettings = self.settings()?;
        sealing::verify(&self.database, &sealing.master_key).await?;
        Ok(sealing)
    }

    /// Runs `work` in a transaction and commits it. It runs again when another one was in its way, and so does nothing that
    /// can't be undone.
    pub(crate) async fn transact<T>(
        &mut self,
        work: impl AsyncFn(&Transaction<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        db::transact(&mut self.database, work, anyhow::Error::downcast_ref).await
    }
}

async fn connect(settings: &DatabaseSettings) -> anyhow::Result<Client> {
    let mut config = settings.url.config();
    // What the URL says of sessions holds where it says otherwise: the last one of a name counts.
    let options = [Some(db::planner_options()), config.get_options().map(str::to_owned)];
    config
        .application_name("connectctl")
        .options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let connected = db::connect(&settings.url, &config, CONNECT_TIMEOUT).await;
    let (client, connection) = connected.map_err(|error| match error {
        // What the database says is shown as in every other error.
        ConnectError::Driver(error) => anyhow::Error::from(error),
        error @ ConnectError::TimedOut => error.into(),
    })?;
    // When the connection breaks, the statement that waits for it says so.
    tokio::spawn(connection);
    Ok(client)
}
