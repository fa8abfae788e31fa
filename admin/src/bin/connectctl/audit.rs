//! `connectctl audit`: what operators did.

use crate::arguments::{Limit, instant};
use crate::context::Context;
use crate::output::show;
use admin::Newest;
use admin::audit::{self, AUDIT_EXPORT_MAX, AuditExport, AuditFilter, AuditRecord, ExportFormat};
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

/// Maximum number of records that one query reads.
const PAGE: u32 = 1_000;

pub(crate) async fn run(args: AuditArgs, context: &mut Context) -> anyhow::Result<()> {
    let AuditArgs { slug, from, to, action, who, export, limit } = args;
    let filter = AuditFilter { tenant: slug, from, to, action, who, before: None };
    if let Some(format) = export {
        return self::export(context, filter, format, limit.rows.unwrap_or(AUDIT_EXPORT_MAX)).await;
    }
    let limit = context.output.limit(&limit);
    let records = newest(context, filter, limit).await?;
    context.output.print_newest(&records, limit)
}

/// Prints an export, part by part.
async fn export(context: &mut Context, filter: AuditFilter, format: ExportFormat, most: u32) -> anyhow::Result<()> {
    let Context { database, output, actor, .. } = context;
    let mut export = AuditExport::begin(database, actor, filter, format, most).await?;
    while let Some(part) = export.next(database).await? {
        output.print_part(&part)?;
    }
    Ok(())
}

/// The newest records, which are read page by page.
async fn newest(context: &Context, mut filter: AuditFilter, limit: u32) -> anyhow::Result<Newest<AuditRecord>> {
    let (mut pages, mut left) = (Vec::new(), limit);
    loop {
        let page = audit::list(&context.database, &filter, left.min(PAGE)).await?;
        left = left.saturating_sub(u32::try_from(page.items.len())?);
        filter.before = page.items.first().map(|record| record.id);
        pages.push(page.items);
        if !page.is_cut || left == 0 {
            let items = pages.into_iter().rev().flatten().collect();
            return Ok(Newest { items, is_cut: page.is_cut });
        }
    }
}

show!(AuditRecord, record: "At" record.at, "Who" record.who, "Interface" record.interface, "Action" record.action,
    "Target" record.target, "Tenant" record.tenant);
