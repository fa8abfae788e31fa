//! The context of a command: database connection, settings and output.

use crate::output::Output;
use admin::audit::Actor;
use anyhow::{Context as _, bail, ensure};
use common::broker::OperatorConnection;
use common::db::{self, ConnectError};
use common::sealed::MasterKeys;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, SealingSettings, Section, SettingError, SettingValue,
};
use std::io::{IsTerminal as _, stderr, stdin};
use std::time::Duration;
use tokio_postgres::Client;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Context {
    pub(crate) database: Client,
    pub(crate) output: Output,
    /// Who runs the command.
    pub(crate) actor: Actor,
    environment: Environment,
}

impl Context {
    /// Reads the settings that every command needs and connects.
    pub(crate) async fn open(json: bool) -> anyhow::Result<Self> {
        let environment = Environment::from_process();
        let settings = DatabaseSettings::from_env(&environment)?;
        let database = connect_database(&settings).await.context("cannot reach the database")?;
        let actor = Actor::operating_system_user();
        Ok(Self { database, output: Output::new(json), actor, environment })
    }

    /// Reads settings that only some commands need.
    pub(crate) fn settings<S: Section>(&self) -> Result<S, SettingError> {
        S::from_env(&self.environment)
    }

    /// Reads a single optional setting.
    pub(crate) fn optional<S: Section, T: SettingValue>(&self, name: &str) -> Result<Option<T>, SettingError> {
        self.environment.optional::<S, T>(name)
    }

    /// The master keys. The operations that seal with them verify them.
    pub(crate) fn master_keys(&self) -> Result<MasterKeys, SettingError> {
        Ok(self.settings::<SealingSettings>()?.master_keys)
    }

    /// Connects to the broker.
    pub(crate) async fn broker(&self) -> anyhow::Result<OperatorConnection> {
        open_broker(&self.environment).await
    }
}

/// Connects to the broker that the environment names.
pub(crate) async fn open_broker(environment: &Environment) -> anyhow::Result<OperatorConnection> {
    let settings = BrokerSettings::from_env(environment)?;
    Ok(OperatorConnection::open(&settings, "connectctl").await?)
}

/// Connects to the database of these settings.
pub(crate) async fn connect_database(settings: &DatabaseSettings) -> anyhow::Result<Client> {
    let mut config = settings.direct_url.config();
    // The limit of the programs' role is not for migrations, which may build indexes for hours. But a command that is stopped in
    // the middle must not hold its locks.
    let unlimited = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=10s".to_owned();
    // Options of the URL override ours: the last one of a name counts.
    let options = [Some(unlimited), Some(db::planner_options()), config.get_options().map(str::to_owned)];
    config.application_name("connectctl").options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let connected = db::connect(&settings.direct_url, &config, CONNECT_TIMEOUT).await;
    let (client, connection) = connected.map_err(|error| match error {
        // The database's error is formatted as in every other case.
        ConnectError::Driver { error, .. } if error.as_db_error().is_some() => anyhow::Error::from(error),
        error @ (ConnectError::TimedOut | ConnectError::Driver { .. }) => error.into(),
    })?;
    // If the connection breaks, the waiting statement returns the error.
    tokio::spawn(connection);
    // Its time is what is stored and compared, whatever this machine's clock shows. An error shows again with the first statement.
    drop(db::is_read_only(&client).await);
    Ok(client)
}

/// Asks `question`. Fails unless it is confirmed; the error says that `unchanged`.
pub(crate) async fn confirm(question: &str, unchanged: &str) -> anyhow::Result<()> {
    ensure!(stdin().is_terminal() && stderr().is_terminal(), "standard input is not a terminal; pass --yes to confirm");
    eprint!("{question} [y/N] ");
    // On another thread, so that the runtime keeps the broker's connection alive meanwhile.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    match answer.await??.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("not confirmed; {unchanged}"),
    }
}
