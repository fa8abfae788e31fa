//! What every command works with: the database, the settings, the way out.

use crate::fault;
use crate::output::Output;
use crate::sealing;
use anyhow::Context as _;
use common::db;
use common::settings::{DatabaseSettings, Environment, SealingSettings, Section, SettingError, SettingValue};
use std::time::Duration;
use tokio_postgres::{Client, Transaction};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Times that a transaction is run when others are in its way.
const RUNS: u32 = 5;

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

    /// Runs `work` in a transaction and commits it. It runs again when it and another one wait for each other, and so
    /// does nothing that can't be undone.
    pub(crate) async fn transact<T>(
        &mut self,
        work: impl AsyncFn(&Transaction<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut runs = 1;
        loop {
            let transaction = self.database.transaction().await?;
            let error = match work(&transaction).await {
                Ok(done) => {
                    transaction.commit().await?;
                    return Ok(done);
                }
                Err(error) => error,
            };
            transaction.rollback().await?;
            if runs == RUNS || !fault::is_conflict(&error) {
                return Err(error);
            }
            runs += 1;
        }
    }
}

async fn connect(settings: &DatabaseSettings) -> Result<Client, tokio_postgres::Error> {
    let mut config = settings.url.config();
    // What the URL says of sessions holds where it says otherwise: the last one of a name counts.
    let options = [Some(db::planner_options()), config.get_options().map(str::to_owned)];
    config
        .application_name("connectctl")
        .options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let (client, connection) = db::connect(&settings.url, &config, CONNECT_TIMEOUT).await?;
    // When the connection breaks, the statement that waits for it says so.
    tokio::spawn(connection);
    Ok(client)
}
