//! Arguments of `connectctl doctor`.

use super::roles::RolePrefixArg;
use clap::Args;
use common::settings::SettingValue as _;
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
Reads all settings that connectctl knows, and changes nothing. Each finding says what to do. The exit code is 1 if a
finding is an error. A check that cannot run is an error, and the others run all the same.

Examples:
  connectctl doctor
  connectctl doctor --json";
