//! Arguments of `connectctl audit`.

use super::Limit;
use super::instant;
use admin::audit::ExportFormat;
use chrono::{DateTime, Utc};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Slug of a tenant: only actions on its objects [default: actions on all tenants and on the installation]
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) slug: Option<String>,
    /// Only actions at or after this time, such as 2026-05-01T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) from: Option<DateTime<Utc>>,
    /// Only actions before this time
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) to: Option<DateTime<Utc>>,
    /// Only actions whose name begins with this text, such as key.
    #[arg(long, value_name = "TEXT")]
    pub(crate) action: Option<String>,
    /// Only actions of people whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) who: Option<String>,
    /// Export the records instead, the newest first: as csv for spreadsheets, or as jsonl, an object on each line
    #[arg(long, value_name = "FORMAT", value_parser = format, conflicts_with = "json")]
    pub(crate) export: Option<ExportFormat>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

fn format(text: &str) -> Result<ExportFormat, String> {
    ExportFormat::parse(text).ok_or_else(|| "expected csv or jsonl".to_owned())
}
