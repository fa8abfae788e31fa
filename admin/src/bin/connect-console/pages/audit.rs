//! Who did what, when: in an agency, and for operators everywhere. A page at a time, with a filter in the URL, and as a download.

use crate::context::{Change, View};
use crate::database::ConsoleDatabase;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::format::{data_table, time};
use crate::layout;
use crate::pages::filter::{Filter, before};
use crate::pages::form::once;
use crate::response::download;
use crate::under_way::Place;
use admin::audit::{self, AUDIT_EXPORT_MAX, AuditExport, AuditFilter, AuditRecord, ExportFormat};
use admin::tenants::Tenant;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use warp::reply::Response;

/// Records of a page.
const PAGE: u32 = 100;

/// The records of the agency in the path; without one, of all agencies and of what concerns none.
pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let path = view.request.path.as_str();
    let filter = parse_filter(&view.request.query, view.tenant_if_any());
    let listed = audit::list(view.client(), &filter.selected, PAGE).await?;
    let next = listed.items.first().filter(|_| listed.is_cut).map(|record| record.id);
    let content = html! {
        p { "Each change that was made with the settings area or with connectctl." }
        (filter_form(&filter, path))
        @for fault in filter.faults() { p.fault { (fault) ". It was ignored." } }
        @if listed.items.is_empty() { p { "There is no such record." } } @else { (table(&listed.items, view.tenant_if_any().is_none())) (export_form(&view, &filter, path)) }
        @if next.is_some() { p { a.button.plain href=(filter.path(path, next)) { "Older" } } }
        @if filter.selected.before.is_some() { p { a href=(filter.path(path, None)) { "To the newest" } } }
    };
    Ok(layout::page(&view, "Audit", &content))
}

fn filter_form(filter: &Filter<AuditFilter>, path: &str) -> Markup {
    html! {
        form.filter method="get" action=(path) {
            div { label for="action" { "Action begins with" } input id="action" name="action" type="search" value=(filter.typed("action")) placeholder="key."; }
            div { label for="who" { "Who" } input id="who" name="who" type="search" value=(filter.typed("who")); }
            div.period { div { label for="from" { "From (UTC)" } input id="from" name="from" type="datetime-local" value=(filter.typed("from")); }
                div { label for="to" { "To (UTC)" } input id="to" name="to" type="datetime-local" value=(filter.typed("to")); } }
            button.plain { "Filter" }
        }
    }
}

/// Downloads what the filter selects, whichever page is shown.
fn export_form(view: &View<'_>, filter: &Filter<AuditFilter>, path: &str) -> Markup {
    html! {
        form.actions method="post" action={ (path) "/export" } data-download {
            (once(view))
            @for (name, value) in filter.fields() { input type="hidden" name=(name) value=(value); }
            button.plain name="format" value="csv" { "Export as CSV" }
            button.plain name="format" value="jsonl" { "Export as lines of JSON" }
        }
        p.hint { "Everything that the filter selects, the newest first, at most " (AUDIT_EXPORT_MAX) " records. The export is recorded." }
    }
}

fn table(records: &[AuditRecord], of_all: bool) -> Markup {
    let mut headings = vec!["Action", "Target", "Agency", "Who", "~With", "When"];
    headings.retain(|heading| of_all || *heading != "Agency");
    html! {
        div.lines { (data_table(&headings, &html! {
            @for record in records.iter().rev() {
                tr {
                    th scope="row" { (record.action) }
                    td.wide title=(record.target) { bdi { (record.target) } }
                    @if of_all { td { (record.tenant.as_deref().unwrap_or("-")) } }
                    td title={ "with " (record.interface) } { bdi { (record.who) } }
                    td { (record.interface) }
                    td { (time(record.at)) }
                }
            }
        })) }
    }
}

/// The filter in the fields of a query or a form, for the records of a tenant or of all.
fn parse_filter(fields: &Fields, tenant: Option<&Tenant>) -> Filter<AuditFilter> {
    Filter::parse(fields, &["action", "who", "from", "to"], |typed| {
        let (from, to) = typed.period();
        let tenant = tenant.map(|tenant| tenant.slug.clone());
        AuditFilter { tenant, from, to, action: typed.text("action"), who: typed.text("who"), before: before(fields) }
    })
}

/// Parts that were read and not sent yet, so that a slow download needs little memory.
const PARTS: usize = 1;
/// Downloads that may be under way at once. For a further one, one of an agency that has two ends.
const EXPORTS: usize = 8;
/// Downloads that may be under way at once of one agency, or of all of them.
const EXPORTS_OF_ONE: usize = 2;
/// How long a download waits for its browser to read a part.
const STALLED: Duration = Duration::from_secs(30);
/// The longest that a download takes, however it is read.
const DOWNLOAD_MAX: Duration = Duration::from_secs(900);

/// The same records as a file.
pub(crate) async fn export(mut change: Change<'_>) -> Result<Response, Failure> {
    let format = ExportFormat::parse(change.form().get("format"));
    let format = format.ok_or(Failure::BadRequest("the format must be csv or jsonl"))?;
    let tenant = change.context().tenant_if_any();
    let of = tenant.map_or("all", |tenant| tenant.slug.as_str());
    let name = format!("audit-{of}.{}", format.as_str());
    let filter = parse_filter(change.form(), tenant);
    if !filter.faults().is_empty() {
        return Err(Failure::BadRequest("correct the times of the filter"));
    }
    let app = change.context().app;
    let place = app.exports.take(of, EXPORTS, EXPORTS_OF_ONE);
    let reader = (Arc::clone(&app.database), change.context().session.tenant_slug.clone());
    let place = place.ok_or(Failure::Overloaded)?;
    let (client, actor) = change.repeatable_operation();
    let export = AuditExport::begin(client, actor, filter.selected, format, AUDIT_EXPORT_MAX).await?;
    // And one for the error of a download that ends before.
    let (parts, sent) = channel(PARTS + 1);
    // Ends when the last part is sent, or when the download was canceled.
    tokio::spawn(send(export, reader, parts, place));
    let media_type = match format {
        ExportFormat::Csv => "text/csv; charset=utf-8; header=present",
        ExportFormat::JsonLines => "application/jsonl; charset=utf-8",
    };
    Ok(download(&name, media_type, sent))
}

/// Sends an export, and an error instead of the rest if it ends before: the browser then reports an incomplete download.
async fn send(
    export: AuditExport, reader: (Arc<ConsoleDatabase>, Option<String>), parts: Sender<Result<String, String>>,
    place: Place,
) {
    let Ok(last) = parts.clone().reserve_owned().await else { return };
    let sent = tokio::select! {
        sent = timeout(DOWNLOAD_MAX, send_parts(export, reader, parts)) => {
            sent.unwrap_or_else(|_| Err("the download has taken too long".to_owned()))
        }
        () = place.lost() => Err("another agency has got the place of this download".to_owned()),
    };
    if let Err(error) = sent {
        tracing::warn!(error, "an export of audit records was interrupted; the download is incomplete");
        last.send(Err(error));
    }
}

/// Sends the parts, until the browser has all or has gone. Between two parts no connection is held.
async fn send_parts(
    mut export: AuditExport, (database, agency): (Arc<ConsoleDatabase>, Option<String>),
    parts: Sender<Result<String, String>>,
) -> Result<(), String> {
    loop {
        let part = database.step(agency.as_deref(), async |client| export.next(client).await).await;
        let Some(part) = part.map_err(|error| error.to_string())? else { return Ok(()) };
        match timeout(STALLED, parts.send(Ok(part))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(()),
            Err(_) => return Err("the download has stalled".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_filter_survives_its_url() {
        let fields = Fields::parse(b"action=key.&who=Ana+%26+Bo&from=2026-05-01T10:00&to=soon").unwrap();
        let filter = parse_filter(&fields, None);
        assert_eq!(filter.faults(), ["time \"soon\" is not known"]);
        assert_eq!(
            (filter.selected.action.as_deref(), filter.selected.who.as_deref()),
            (Some("key."), Some("Ana & Bo"))
        );
        let path = filter.path("/audit", Some(Uuid::nil()));
        let again = parse_filter(&Fields::parse(path.split_once('?').unwrap().1.as_bytes()).unwrap(), None);
        assert_eq!((again.selected.from, again.selected.before), (filter.selected.from, Some(Uuid::nil())));
        assert!(again.fields().eq(filter.fields()));
    }
}
