//! The records, a page at a time, and the forms to filter and to export them.

use super::filter::Filter;
use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::audit::{self, AUDIT_EXPORT_MAX, AuditRecord};
use maud::{Markup, html};
use warp::reply::Response;

/// Records of a page.
const PAGE: u32 = 100;

/// The records of an agency.
pub(crate) async fn of_tenant(view: View<'_>) -> Result<Response, Failure> {
    let slug = view.tenant()?.slug.clone();
    page(view, Some(slug), &view.tenant_path("/audit")).await
}

/// The records of all agencies, and of what concerns none.
pub(crate) async fn everywhere(view: View<'_>) -> Result<Response, Failure> {
    page(view, None, "/audit").await
}

async fn page(view: View<'_>, tenant: Option<String>, path: &str) -> Result<Response, Failure> {
    let filter = Filter::parse(&view.request.query, tenant);
    let listed = audit::list(view.client(), &filter.selected, PAGE).await?;
    let next = listed.items.first().filter(|_| listed.is_cut).map(|record| record.id);
    let content = html! {
        p { "Each change that was made with the settings area or with connectctl." }
        (filter_form(&filter, path))
        @for fault in &filter.faults { p.fault { (fault) } }
        @if listed.items.is_empty() { p { "There is no such record." } } @else { (table(&listed.items)) (export_form(&filter, path)) }
        @if next.is_some() { p { a.button.plain href=(filter.path(path, next)) { "Older" } } }
        @if filter.selected.before.is_some() { p { a href=(filter.path(path, None)) { "To the newest" } } }
    };
    Ok(layout::page(&view, "Audit", &content))
}

fn filter_form(filter: &Filter, path: &str) -> Markup {
    html! {
        form.filter method="get" action=(path) {
            div { label for="action" { "Action begins with" } input id="action" name="action" type="search" value=(filter.typed("action")) placeholder="key."; }
            div { label for="who" { "Who" } input id="who" name="who" type="search" value=(filter.typed("who")); }
            div { label for="from" { "From (UTC)" } input id="from" name="from" type="datetime-local" value=(filter.typed("from")); }
            div { label for="to" { "To (UTC)" } input id="to" name="to" type="datetime-local" value=(filter.typed("to")); }
            button.plain { "Filter" }
        }
    }
}

/// Downloads what the filter selects, whichever page is shown.
fn export_form(filter: &Filter, path: &str) -> Markup {
    html! {
        form.actions method="post" action={ (path) "/export" } data-download {
            @for (name, value) in filter.fields() { input type="hidden" name=(name) value=(value); }
            button.plain name="format" value="csv" { "Export as CSV" }
            button.plain name="format" value="jsonl" { "Export as lines of JSON" }
        }
        p.hint { "Everything that the filter selects, the newest first, at most " (AUDIT_EXPORT_MAX) " records. The export is recorded." }
    }
}

fn table(records: &[AuditRecord]) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            thead { tr {
                th scope="col" { "Action" } th scope="col" { "Target" } th scope="col" { "Agency" } th scope="col" { "Who" }
                th scope="col" { "With" } th scope="col" { "When" }
            } }
            tbody {
                @for record in records.iter().rev() {
                    tr {
                        th scope="row" { (record.action) }
                        td { (record.target) }
                        td { (record.tenant.as_deref().unwrap_or("-")) }
                        td { (record.who) }
                        td { (record.interface) }
                        td { (time(record.at)) }
                    }
                }
            }
        } }
    }
}
