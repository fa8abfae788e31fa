//! Downloads of audit records.

use super::filter::Filter;
use crate::context::Change;
use crate::failure::Failure;
use crate::response::download;
use admin::audit::{AUDIT_EXPORT_MAX, AuditExport, ExportFormat};
use common::db::Database;
use tokio::sync::mpsc::{Sender, channel};
use warp::reply::Response;

/// Parts that were read and not sent yet, so that a slow download needs little memory.
const PARTS: usize = 1;

/// The records of an agency.
pub(crate) async fn of_tenant(change: Change<'_>) -> Result<Response, Failure> {
    let slug = change.context().tenant()?.slug.clone();
    export(change, Some(slug)).await
}

/// The records of all agencies, and of what concerns none.
pub(crate) async fn everywhere(change: Change<'_>) -> Result<Response, Failure> {
    export(change, None).await
}

async fn export(mut change: Change<'_>, tenant: Option<String>) -> Result<Response, Failure> {
    let format = ExportFormat::parse(change.form().get("format"));
    let format = format.ok_or(Failure::BadRequest("the format must be csv or jsonl"))?;
    let name = format!("audit-{}.{}", tenant.as_deref().unwrap_or("all"), format.as_str());
    let filter = Filter::parse(change.form(), tenant);
    if !filter.faults.is_empty() {
        return Err(Failure::BadRequest("the times of the filter must be dates with times"));
    }
    let database = change.context().app.database.clone();
    let (client, actor) = change.operation();
    let export = AuditExport::begin(client, actor, filter.selected, format, AUDIT_EXPORT_MAX).await?;
    let (parts, sent) = channel(PARTS);
    // Ends when the last part is sent, or when the download was canceled.
    tokio::spawn(send(export, database, parts));
    let media_type = match format {
        ExportFormat::Csv => "text/csv; charset=utf-8; header=present",
        ExportFormat::JsonLines => "application/jsonl; charset=utf-8",
    };
    Ok(download(&name, media_type, sent))
}

/// Sends the parts, and an error instead of the rest if one cannot be read: the browser then reports an incomplete download.
/// Between two parts no connection is held.
async fn send(mut export: AuditExport, database: Database, parts: Sender<Result<String, String>>) {
    loop {
        let part = match database.client().await {
            Ok(client) => export.next(&client).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let is_last = part.is_err();
        if let Err(error) = &part {
            tracing::warn!(error, "an export of audit records was interrupted; the download is incomplete");
        }
        let Some(part) = part.transpose() else { return };
        if parts.send(part).await.is_err() || is_last {
            return;
        }
    }
}
