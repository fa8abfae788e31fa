//! `connectctl doctor`: checks of the installation.

use crate::migrate::RolePrefixArg;
use crate::output::{Output, show};
use admin::doctor::{self, Finding, Installation};
use admin::roles::RolePrefix;
use clap::Args;
use common::egress::EgressSettings;
use common::http::TrustedProxies;
use common::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, MailboxSettings, RetentionSettings, SealingSettings,
    Section, ServiceSettings, SettingError, SettingValue as _, TraceSettings,
};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) prefix: RolePrefixArg,
    /// Report transactions that have been open for this long
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = Duration::parse_setting)]
    pub(crate) transaction_age: Duration,
}

const HELP: &str = "\
Checks servers, settings, schema, secrets, roles, queues and what needs attention. Reads all settings that connectctl \
knows, and changes nothing. Each finding says what to do. The exit code is 1 if a \
finding is an error. A check that cannot run is an error, and the others run all the same.

Examples:
  connectctl doctor
  connectctl doctor --json";

/// The page of all settings, and what scripts, examples and compose.yaml of the project read beside them.
const SETTINGS: &str = include_str!("../../../../docs/settings.md");
const OF_SCRIPTS: &str = "DEBIAN_MIRROR DEBIAN_SECURITY_MIRROR DIRECTORY DRY_RUN IMAGE KEY PGBOUNCER PROGRAMS \
    RECEIVER_SECRET RUN_ENVIRONMENT RUN_ONCE SECRET SERVICES SETTINGS TENANT URL WEBHOOK_SECRET";

/// The variables that begin as settings do, and that nothing reads: misspelt ones have no effect.
fn unknown(environment: &Environment) -> Vec<String> {
    let is_setting = |name: &str| SETTINGS.contains(&format!("\n| `{name}` |"));
    let is_unknown = |name: &&str| {
        let Some(rest) = name.strip_prefix("CONNECT_") else { return false };
        let is_of_scripts = rest.starts_with("TEST_") || OF_SCRIPTS.split(' ').any(|known| known == rest);
        !is_of_scripts && !is_setting(name) && !is_setting(name.trim_end_matches("_FILE"))
    };
    environment.names().filter(is_unknown).map(str::to_owned).collect()
}

/// The errors of settings that are refused by the programs, and are not read for the other checks. Those that only one
/// program knows are compared with the type of their default, without their bounds.
fn refused(environment: &Environment) -> BTreeSet<String> {
    let sections = [
        ServiceSettings::from_env(environment).err(),
        LogSettings::from_env(environment).err(),
        TraceSettings::from_env(environment).err(),
        MailboxSettings::from_env(environment).err(),
        EgressSettings::from_env(environment).err(),
        TrustedProxies::from_env(environment).err(),
    ];
    let of_row = |row: &str| {
        let (name, rest) = row.strip_prefix("| `")?.split_once("` | `")?;
        let (default, rest) = rest.split_once("` | ")?;
        let is_read = rest.starts_with("all ") || name.starts_with("CONNECT_RETENTION_");
        environment.type_error(name, default).filter(|_| !is_read)
    };
    let errors = sections.into_iter().flatten().chain(SETTINGS.lines().filter_map(of_row));
    errors.map(|error| error.to_string()).collect()
}

pub(crate) async fn run(args: DoctorArgs, output: Output) -> anyhow::Result<ExitCode> {
    let environment = Environment::from_process();
    let said = |error: SettingError| error.to_string();
    let installation = Installation {
        database: DatabaseSettings::from_env(&environment).map_err(said),
        broker: BrokerSettings::from_env(&environment).map_err(said),
        master_keys: SealingSettings::from_env(&environment).map(|read| read.master_keys).map_err(said),
        retention: RetentionSettings::from_env(&environment).map_err(said),
        role_prefix: RolePrefix::parse(&args.prefix.role_prefix)?,
        unknown: unknown(&environment),
        refused: refused(&environment),
        transaction_age: args.transaction_age,
    };
    let report = doctor::run(&installation).await;
    if output.is_json() {
        output.print_json(&report)?;
    } else if report.findings.is_empty() {
        output.print_text(&format!("{} checks, no findings.", report.checks.len()))?;
    } else {
        output.print_long_list(&report.findings)?;
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

show!(Finding, finding: "Level" finding.level.as_str(), "Check" finding.check, "Finding" finding.message, "Fix" finding.fix);
