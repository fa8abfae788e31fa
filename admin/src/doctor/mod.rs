//! Checks of an installation: servers, settings, schema, secrets, roles, unfinished erasures, queues, and what needs the attention of
//! operators.
//!
//! Each check has a limited time and reports what is wrong as findings, with what to do. A check that cannot run is an error
//! itself, and the others go on. Nothing is changed.

mod data;
mod postgres;
mod queues;
mod roles;
mod tls;

use crate::attention::Attention;
use crate::roles::RolePrefix;
use crate::{Result, describe};
use common::broker::OperatorConnection;
use common::db::{self, Sql};
use common::sealed::MasterKeys;
use common::settings::{BrokerSettings, DatabaseSettings, DatabaseUrl, RetentionSettings};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;

/// Longest time for one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time for a statement of a check, in milliseconds: shorter than [`CHECK_TIMEOUT`], so that a statement has ended
/// before the next check uses the connection.
const STATEMENT_TIMEOUT: u32 = 10_000;
/// Longest time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// All statements, by module, for the tests that prepare each one. They read the catalogs of Postgres.
pub const STATEMENTS: &[&[Sql]] = &[data::STATEMENTS, postgres::STATEMENTS, roles::STATEMENTS];

/// What is checked. A setting that cannot be read is a finding, with its error.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The Postgres servers.
    pub database: Result<DatabaseSettings, String>,
    /// The RabbitMQ servers and the queues.
    pub broker: Result<BrokerSettings, String>,
    /// The current and the previous key that seal secrets; the error says which setting is wrong.
    pub master_keys: Result<MasterKeys, String>,
    /// How long rows are kept.
    pub retention: Result<RetentionSettings, String>,
    /// The first part of the names of the programs' roles.
    pub role_prefix: RolePrefix,
    /// Variables that begin as settings do, and that nothing reads.
    pub unknown: Vec<String>,
    /// The errors with which programs refuse settings at their start, except those of the fields above.
    pub refused: BTreeSet<String>,
    /// From which age on a transaction is a finding.
    pub transaction_age: Duration,
}

/// Runs all checks.
pub async fn run(installation: &Installation) -> Report {
    let mut report = Report::default();
    let unknown = installation.unknown.join(", ");
    let finding = || Finding::warning(format!("nothing reads {unknown}"), "Correct the names; see docs/settings.md");
    let refused = |what: &String| Finding::error(what.as_str(), "Correct the value; a program does not start with it");
    let findings = installation.refused.iter().map(refused);
    report.add("settings", (!unknown.is_empty()).then(finding).into_iter().chain(findings).collect());
    let (database, replica) = connect_databases(installation, &mut report).await;
    if let Ok(settings) = &installation.database {
        report.add("postgres.tls", tls::postgres(settings, CHECK_TIMEOUT).await);
    }
    if let Some(client) = &database {
        check_database(installation, client, &mut report).await;
        if let (Ok(settings), Some(replica)) = (&installation.database, &replica) {
            report
                .check("postgres.replica", within(postgres::replica_lag(client, replica, settings.read_max_lag)).await);
        }
    }
    let broker = connect_broker(installation, &mut report).await;
    if let Some(client) = &database {
        report.check("attention", within(data::if_migrated(data::attention(client, broker.is_some()))).await);
    }
    if let Ok(settings) = &installation.broker {
        report.add("broker.tls", tls::broker(settings, CHECK_TIMEOUT).await);
        if let Some(broker) = &broker {
            report.check("broker.queues", within(queues::check(broker, settings)).await);
        }
    }
    if let Some(broker) = broker {
        drop(within(async { Ok(broker.close().await?) }).await);
    }
    report.finish()
}

async fn check_database(installation: &Installation, client: &Client, report: &mut Report) {
    report.check("postgres.settings", within(postgres::settings(client)).await);
    report.check("postgres.read_only", within(postgres::read_only(client)).await);
    report.check("postgres.clock", within(postgres::clock(client)).await);
    if let Ok(settings) = &installation.database {
        report.check("postgres.pooler", within(postgres::pooler(settings, CONNECT_TIMEOUT)).await);
    }
    report.check("postgres.connections", within(postgres::connections(client)).await);
    report.check("postgres.transactions", within(postgres::transactions(client, installation.transaction_age)).await);
    report.check("postgres.replication_slots", within(postgres::replication_slots(client)).await);
    report.check("postgres.vacuum", within(postgres::vacuum(client)).await);
    report.check("postgres.statistics", within(postgres::statistics(client)).await);
    report.check("schema.version", within(data::version(client)).await);
    report.check("schema.indexes", within(data::indexes(client)).await);
    report.check("roles", within(roles::check(client, &installation.role_prefix)).await);
    if let Some(keys) = report.usable("master_key", &installation.master_keys) {
        report.check("master_key", within(data::secrets(client, keys)).await);
    }
    if let Some(settings) = report.usable("retention", &installation.retention) {
        report.check("retention", within(data::retention(client, settings)).await);
    }
    report.check("erasures", within(data::if_migrated(data::erasures(client))).await);
}

/// Certificates that expire soon, of servers and in files, and TLS that fails.
pub async fn certificates(database: &DatabaseSettings, broker: &BrokerSettings) -> Vec<Attention> {
    let mut found = tls::postgres(database, CHECK_TIMEOUT).await;
    found.extend(tls::broker(broker, CHECK_TIMEOUT).await);
    found.retain(|finding| !finding.message.ends_with(tls::UNENCRYPTED));
    let of = |Finding { message, fix, .. }| {
        Attention::of_installation("Certificates expire", format!("TLS: {message}."), format!("{fix}."))
    };
    found.into_iter().map(of).collect()
}

/// Runs a check for a limited time.
async fn within<T>(check: impl Future<Output = Result<T>>) -> Result<T, String> {
    match timeout(CHECK_TIMEOUT, check).await {
        Ok(checked) => checked.map_err(|error| describe(&error)),
        Err(_) => Err(format!("it took longer than {} s", CHECK_TIMEOUT.as_secs())),
    }
}

/// Connects past a pooler and to the replica, where there is one, and tries `DATABASE_URL`.
async fn connect_databases(installation: &Installation, report: &mut Report) -> (Option<Client>, Option<Client>) {
    let (mut findings, mut primary, mut replica) = (Vec::new(), None, None);
    let Some(settings) = report.usable("postgres.connection", &installation.database) else {
        return (primary, replica);
    };
    let urls = [
        ("DATABASE_DIRECT_URL", &settings.direct_url),
        ("DATABASE_URL", &settings.url),
        ("DATABASE_READ_URL", &settings.read_url),
    ];
    for (place, (name, url)) in urls.into_iter().enumerate() {
        if place > 0 && *url == settings.direct_url {
            continue;
        }
        // Without DATABASE_DIRECT_URL it is DATABASE_URL.
        let name = if place == 0 && settings.direct_url == settings.url { "DATABASE_URL" } else { name };
        match open(url, place == 0).await {
            Ok(opened) if place == 0 => {
                // Its time is what rows are compared with.
                drop(within(async { Ok(db::is_read_only(&opened).await?) }).await);
                primary = Some(opened);
            }
            Ok(opened) if *url == settings.read_url && *url != settings.url => replica = Some(opened),
            Ok(_) => {}
            Err(error) => findings.push(Finding::error(
                format!("no connection to the server of {name}: {error}"),
                "Start the server, or correct the URL; see docs/install.md, Connection URLs and TLS",
            )),
        }
    }
    report.add("postgres.connection", findings);
    (primary, replica)
}

/// A session whose statements are bounded, with the planner's settings of the programs. A pooler may refuse options, so only a direct
/// session has them.
async fn open(url: &DatabaseUrl, is_direct: bool) -> Result<Client, String> {
    let mut config = url.config();
    config.application_name("connectctl doctor");
    if is_direct {
        let own = format!("{} -c statement_timeout={STATEMENT_TIMEOUT} -c lock_timeout=1000", db::planner_options());
        let options = [config.get_options().map(str::to_owned), Some(own)];
        config.options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    let (client, connection) = db::connect(url, &config, CONNECT_TIMEOUT).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(client)
}

async fn connect_broker(installation: &Installation, report: &mut Report) -> Option<OperatorConnection> {
    let settings = report.usable("broker.connection", &installation.broker)?;
    match within(async { Ok(OperatorConnection::open(settings, "connectctl doctor").await?) }).await {
        Ok(broker) => {
            report.add("broker.connection", Vec::new());
            Some(broker)
        }
        Err(what) => {
            let fix = "Start RabbitMQ, or correct AMQP_URL; see docs/install.md, Connection URLs and TLS";
            report.add("broker.connection", vec![Finding::error(what, fix)]);
            None
        }
    }
}

common::named! {
    /// How serious a finding is. Names are those in reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Level {
        /// Works now, and may become a problem.
        Warning = "warning",
        /// Something does not work or could not be checked, or data may be lost.
        Error = "error",
    }
}

/// Something that is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check, such as `postgres.settings`.
    pub check: &'static str,
    /// How serious it is.
    pub level: Level,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// The result of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether no finding is an error.
    pub ok: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The checks that ran, or tried to, in their order.
    pub checks: Vec<&'static str>,
}

impl Finding {
    pub(super) fn error(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: "", level: Level::Error, message: message.into(), fix: fix.into() }
    }

    pub(super) fn warning(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::of(false, message, fix)
    }

    pub(super) fn of(is_error: bool, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: if is_error { Level::Error } else { Level::Warning }, ..Self::error(message, fix) }
    }
}

impl Report {
    pub(super) fn add(&mut self, check: &'static str, findings: Vec<Finding>) {
        self.checks.push(check);
        self.findings.extend(findings.into_iter().map(|finding| Finding { check, ..finding }));
    }

    /// Adds the result of a check. That it could not run is an error: whatever it looks for may be the case.
    pub(super) fn check(&mut self, check: &'static str, result: Result<Vec<Finding>, String>) {
        let findings = result.unwrap_or_else(|what| {
            let fix = "Fix what the message says (a missing privilege, a server that does not respond), and run the command again";
            vec![Finding::error(format!("the check could not run: {what}"), fix)]
        });
        self.add(check, findings);
    }

    /// A setting that a check needs. That it is missing or malformed is an error of the check.
    pub(super) fn usable<'s, T>(&mut self, check: &'static str, setting: &'s Result<T, String>) -> Option<&'s T> {
        setting
            .as_ref()
            .inspect_err(|what| {
                let fix = "Set it as for the programs, and run the command again";
                self.add(check, vec![Finding::error(format!("the check could not run: {what}"), fix)]);
            })
            .ok()
    }

    pub(super) fn finish(mut self) -> Self {
        self.ok = self.findings.iter().all(|finding| finding.level != Level::Error);
        self
    }
}
