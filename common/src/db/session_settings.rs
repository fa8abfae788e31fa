//! Settings of the programs' sessions. They are sent when a connection is opened, and verified on the first one of each pool:
//! a connection pooler such as PgBouncer refuses or drops them. The role must have them then, which `connectctl migrate`
//! arranges ([`role_settings`]).

use super::connect::{ConnectError, connect};
use super::pool::PoolSettings;
use crate::settings::DatabaseUrl;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// The statement timeout of a role, in milliseconds: as long as the longest of any pool. Ingest enforces its own, shorter ones.
const ROLE_STATEMENT_TIMEOUT: &str = "30000";
/// A client that stalls inside a transaction, such as a worker that is frozen, must not hold its locks for long. In milliseconds.
const IDLE_IN_TRANSACTION: &str = "10000";

/// How often a pooler is asked whether it keeps prepared statements.
const POOLER_PROBES: usize = 8;

/// Settings of the planner for sessions whose statements find their rows by key.
const PLANNER: [SessionSetting; 6] = [
    // JIT costs more than it saves on short statements.
    SessionSetting::advised("jit", "off"),
    // Every statement finds its rows by key. A plan is made once and kept, perhaps while the tables are still
    // small: it must not scan them whole when they have grown.
    SessionSetting::advised("plan_cache_mode", "force_generic_plan"),
    SessionSetting::advised("enable_seqscan", "off"),
    // A bitmap scan reads and sorts all rows of a key where an index returns the newest one first.
    SessionSetting::advised("enable_bitmapscan", "off"),
    SessionSetting::advised("enable_hashjoin", "off"),
    SessionSetting::advised("enable_mergejoin", "off"),
];

/// The session's values, in the base unit of each setting; SHOW would format them. The query is not
/// prepared: a pooler may not know prepared statements.
const SETTINGS: &str = "-- session.settings
    SELECT lower(name), setting FROM pg_settings
    UNION ALL SELECT 'is_superuser', current_setting('is_superuser')";

/// A setting, and how the server's value is compared with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionSetting {
    name: &'static str,
    /// In the server's unit for it.
    value: std::borrow::Cow<'static, str>,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Another value makes statements slow.
    Advised,
    /// A limit in milliseconds. 0 (no limit) or a shorter limit is a risk.
    AtLeast,
    /// `off` would lose commits that were confirmed.
    NotOff,
    /// Only makes statements faster; any other value is accepted.
    Optional,
    /// Another value makes results wrong.
    Required,
}

/// Settings of a session with other values than the programs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongSetting {
    /// Whether the program must not work with it.
    pub is_error: bool,
    /// What is wrong.
    pub text: String,
}

impl SessionSetting {
    const fn advised(name: &'static str, value: &'static str) -> Self {
        Self { name, value: std::borrow::Cow::Borrowed(value), rule: Rule::Advised }
    }

    /// What is wrong with the server's value, and whether a program must not work with it.
    fn check(&self, found: Option<&str>) -> Option<(bool, String)> {
        let Self { name, value, rule } = self;
        let found = found.unwrap_or("unknown");
        let is_met = match rule {
            Rule::Advised => found == value,
            Rule::Required => found == value || (*name == "timezone" && matches!(found, "Etc/UTC" | "GMT")),
            Rule::NotOff => found != "off",
            Rule::Optional => true,
            Rule::AtLeast => {
                let number = |text: &str| text.parse::<u64>().unwrap_or(0);
                number(found) >= number(value)
            }
        };
        let is_error = matches!(rule, Rule::NotOff | Rule::Required);
        (!is_met).then(|| (is_error, format!("the session has {name} = {found} instead of {value}")))
    }
}

fn of_pool(pool: &PoolSettings) -> Vec<SessionSetting> {
    let setting = |name, value: String, rule| SessionSetting { name, value: value.into(), rule };
    let (commit, commit_rule) = if pool.durable { ("on", Rule::NotOff) } else { ("off", Rule::Optional) };
    let mut settings = vec![
        setting("statement_timeout", pool.statement_timeout.as_millis().to_string(), Rule::AtLeast),
        setting("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION.to_owned(), Rule::AtLeast),
        setting("synchronous_commit", commit.to_owned(), commit_rule),
        setting("timezone", "UTC".to_owned(), Rule::Required),
    ];
    settings.extend(PLANNER);
    settings
}

/// The settings of a pool's sessions, as `options` of a connection.
pub(super) fn pool_options(pool: &PoolSettings) -> String {
    options(&of_pool(pool))
}

/// Settings of the planner for sessions whose statements find their rows by key, as `options` of a connection.
pub fn planner_options() -> String {
    options(&PLANNER)
}

fn options(settings: &[SessionSetting]) -> String {
    let options = settings.iter().map(|SessionSetting { name, value, .. }| format!("-c {name}={value}"));
    options.collect::<Vec<_>>().join(" ")
}

/// Names and values that the programs' role needs behind a pooler that does not pass the sessions' own on.
pub fn role_settings() -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("statement_timeout", ROLE_STATEMENT_TIMEOUT.to_owned()),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION.to_owned()),
        ("synchronous_commit", "on".to_owned()),
        ("timezone", "UTC".to_owned()),
    ];
    settings.extend(PLANNER.map(|setting| (setting.name, setting.value.into_owned())));
    settings
}

/// Opens a session as the programs do, and compares its settings with those that they need: a connection pooler may drop them.
pub async fn missing_behind_pooler(url: &DatabaseUrl, within: Duration) -> Result<Option<WrongSetting>, ConnectError> {
    let pool = pool_of_connectctl(within);
    let client = open(url, &pool).await?;
    // connectctl may be a superuser.
    let found = wrong_settings(&client, &pool, false).await;
    found.map_err(failed)
}

/// Whether a connection pooler keeps prepared statements for clients that share its sessions: PgBouncer before 1.21 does not, nor a
/// newer one without `max_prepared_statements`. Opens two sessions as the programs do, several times: other clients may take the
/// pooler's session that a probe needs, so that it sees nothing.
pub async fn keeps_prepared_statements(url: &DatabaseUrl, within: Duration) -> Result<bool, ConnectError> {
    let pool = pool_of_connectctl(within);
    for _ in 0..POOLER_PROBES {
        let (one, other) = (open(url, &pool).await?, open(url, &pool).await?);
        let probe = async {
            let statement = one.prepare("-- session.probe\nSELECT 1").await?;
            // The pooler gives the session that was used last to the transaction, and another one to the statement.
            other.batch_execute("BEGIN; SELECT 1").await?;
            one.query(&statement, &[]).await
        };
        match timeout(within, probe).await {
            // No response: it has one session, which the transaction keeps.
            Err(_elapsed) => return Ok(true),
            Ok(Ok(rows)) if rows.first().is_some_and(|row| row.try_get(0).is_ok_and(|one: i32| one == 1)) => {}
            Ok(Err(error)) if error.code().is_none() => return Err(failed(error)),
            // Another client's statement may have the same name there.
            Ok(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether a pooler has mixed up the prepared statements of its clients.
pub(super) fn is_mixed_up(code: &SqlState) -> bool {
    [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code)
}

const fn pool_of_connectctl(within: Duration) -> PoolSettings {
    PoolSettings { name: "connectctl", size: 1, wait: within, statement_timeout: within, durable: true }
}

async fn open(url: &DatabaseUrl, pool: &PoolSettings) -> Result<Client, ConnectError> {
    let mut config = url.config();
    let options = [config.get_options().map(str::to_owned), Some(pool_options(pool))];
    config.application_name(pool.name).options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let (client, connection) = connect(url, &config, pool.wait).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn failed(error: Error) -> ConnectError {
    ConnectError::Driver { earlier: String::new(), server: "the session".to_owned(), error }
}

/// Compares the settings of a session with those that the sessions of a pool need. `checks_user` for a program, whose
/// user should not be a superuser.
pub(super) async fn wrong_settings(
    client: &Client, pool: &PoolSettings, checks_user: bool,
) -> Result<Option<WrongSetting>, Error> {
    let rows = client.simple_query(SETTINGS).await?;
    let found = |name: &str| {
        rows.iter().find_map(|row| match row {
            SimpleQueryMessage::Row(row) if row.get(0) == Some(name) => row.get(1),
            SimpleQueryMessage::Row(_) | _ => None,
        })
    };
    Ok(compare(pool, checks_user, found))
}

fn compare<'v>(
    pool: &PoolSettings, checks_user: bool, found: impl Fn(&str) -> Option<&'v str>,
) -> Option<WrongSetting> {
    let mut wrong: Vec<(bool, String)> =
        of_pool(pool).iter().filter_map(|setting| setting.check(found(setting.name))).collect();
    let has_standbys = found("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    if pool.durable && has_standbys && found("synchronous_commit") == Some("local") {
        let what = "the session has synchronous_commit = local although synchronous_standby_names is set: a failover would lose confirmed commits";
        wrong.push((false, what.to_owned()));
    }
    if checks_user && found("is_superuser") == Some("on") {
        let what = "the program's user is a superuser, whom nothing restricts: give it a user of its own role; see docs/security.md, Least privilege";
        wrong.push((false, what.to_owned()));
    }
    let is_error = wrong.iter().any(|(is_error, _)| *is_error);
    let texts: Vec<String> = wrong.into_iter().map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| WrongSetting { is_error, text: texts.join("; ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(durable: bool) -> PoolSettings {
        let second = Duration::from_secs(1);
        PoolSettings { name: "test", size: 1, wait: second, statement_timeout: second, durable }
    }

    /// The names of settings that a session lacks whose server has these values, and the role's for all others.
    fn lacking(pool: &PoolSettings, found: &[(&str, &str)]) -> Vec<(String, bool)> {
        let role = role_settings();
        let value = |name: &str| {
            let own = found.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            own.or_else(|| role.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str()))
        };
        let all = of_pool(pool).into_iter();
        all.filter_map(|setting| {
            let (is_error, _) = setting.check(value(setting.name))?;
            Some((setting.name.to_owned(), is_error))
        })
        .collect()
    }

    #[test]
    fn the_settings_of_the_role_suffice_for_every_pool() {
        assert!(lacking(&pool(true), &[]).is_empty() && lacking(&pool(false), &[]).is_empty());
    }

    #[test]
    fn superusers_and_local_commits_beside_standbys_are_told_in_one_line() {
        let found = |name: &str| match name {
            "is_superuser" => Some("on"),
            "synchronous_commit" => Some("local"),
            "synchronous_standby_names" => Some("*"),
            _ => None,
        };
        let told = |checks_user| compare(&pool(true), checks_user, found).unwrap().text;
        assert!(told(true).contains("; see docs/security.md, Least privilege") && !told(false).contains("superuser"));
        assert!(told(false).contains("synchronous_commit = local although"), "{}", told(false));
    }

    #[test]
    fn settings_that_lose_commits_or_change_results_are_errors_and_others_warnings() {
        let wrong = [
            ("synchronous_commit", "off"),
            ("timezone", "Europe/Berlin"),
            ("statement_timeout", "0"),
            ("enable_seqscan", "on"),
        ];
        let seen = lacking(&pool(true), &wrong);
        let expected =
            [("statement_timeout", false), ("synchronous_commit", true), ("timezone", true), ("enable_seqscan", false)];
        assert_eq!(seen, expected.map(|(name, is_error)| (name.to_owned(), is_error)));
        assert_eq!(lacking(&pool(false), &wrong[..1]), []);
        assert_eq!(lacking(&pool(true), &[("timezone", "Etc/UTC")]), []);
    }
}
