//! Arguments of `connectctl tenant`.

use super::TenantArgs;
use admin::input::MonthlyQuota;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a tenant with its settings
    #[command(
        after_help = "Example:\n  connectctl tenant create --slug acme --name 'Acme Travel' --discovery"
    )]
    Create(Create),
    /// Change the settings of a tenant
    #[command(
        after_help = "Example:\n  connectctl tenant set --tenant acme --monthly-quota none --reads-per-second 50"
    )]
    Set(Set),
    /// List the tenants with their settings
    #[command(after_help = "Example:\n  connectctl tenant list --json")]
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What callers send as X-Connect-Tenant: lower-case letters, digits and hyphens
    #[arg(long)]
    pub(crate) slug: String,
    /// Full name of the tenant
    #[arg(long)]
    pub(crate) name: String,
    /// First part of the enquiry numbers: upper-case letters and digits
    #[arg(long, value_name = "PREFIX", default_value = "ENQ")]
    pub(crate) enquiry_prefix: String,
    /// Turn Traveller Discovery on
    #[arg(long)]
    pub(crate) discovery: bool,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N", default_value = "none", allow_negative_numbers = true)]
    pub(crate) monthly_quota: MonthlyQuota,
    /// Records reads allowed per second and key, in each ingest
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(1..)
    )]
    pub(crate) reads_per_second: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Changes {
    /// Turn Traveller Discovery on or off
    #[arg(long, value_name = "true|false")]
    pub(crate) discovery: Option<bool>,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N|none", allow_negative_numbers = true)]
    pub(crate) monthly_quota: Option<MonthlyQuota>,
    /// Records reads allowed per second and key, in each ingest
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i32).range(1..)
    )]
    pub(crate) reads_per_second: Option<i32>,
}
