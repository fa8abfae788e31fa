//! An enquiry with its inbox thread and bookings, read only.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{data_table, time};
use crate::layout;
use admin::views::{self, InboxMessage, Invoice, PipelineLead};
use maud::{Markup, html};
use serde_json::value::RawValue;
use warp::reply::Response;

/// Messages and bookings of the page, the newest ones.
const SHOWN: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let (slug, id) = (view.tenant()?.slug.as_str(), view.id()?);
    let shown = view.shown(views::lead(view.client(), slug, id).await?);
    let bookings = view.shown(views::invoices(view.client(), slug, id, SHOWN).await?);
    let inbox =
        if view.sees_contacts() { Some(views::inbox(view.client(), slug, id, SHOWN).await?.items) } else { None };
    let content = html! {
        (facts(&view, &shown))
        h2 { "Bookings" }
        @if bookings.items.is_empty() { p.soft { "There is no booking." } } @else { (booking_table(&bookings.items)) }
        h2 { "Inbox thread" }
        @match inbox {
            None => { p { "Only administrators see messages and marketing data, because they contain contact data." } }
            Some(inbox) if inbox.is_empty() => { p.soft { "There is no message." } }
            Some(inbox) => { ol.timeline { @for message in inbox.iter().rev() { (message_item(message)) } } }
        }
    };
    Ok(layout::page(&view, &format!("{} {}", shown.lead.enquiry_number, shown.lead.title), &content))
}

fn facts(view: &View<'_>, shown: &PipelineLead) -> Markup {
    let lead = &shown.lead;
    html! {
        dl {
            dt { "Stage" } dd { (lead.stage.as_str()) }
            dt { "Client" } dd { a href=(view.tenant_path(&format!("/clients/{}", lead.client_id))) { "Show the client" } }
            dt { "Owner" } dd { bdi { (lead.owner.as_ref().map_or("-", |owner| owner.name.as_str())) } }
            dt { "Follow-up" } dd { (if lead.follow_up { "yes" } else { "no" }) }
            dt { "Destination" } dd { bdi { (lead.brief.destination.as_deref().unwrap_or("not stated")) } }
            dt { "External id" } dd { bdi { (lead.external_id.as_deref().unwrap_or("-")) } }
            dt { "Id" } dd { code data-copy { (lead.id) } }
            dt { "Opened" } dd { (time(lead.created_at)) }
            dt { "Changed" } dd { (time(lead.updated_at)) }
            @if let Some(credit) = &shown.credit {
                dt { "Corporate credit" }
                dd {
                    bdi { (credit.corporate_name.as_deref().unwrap_or("-")) } ", available: "
                    @match credit.available_paise { Some(paise) => { (rupees(paise)) " INR" }, None => "unknown" }
                }
            }
            @if let Some(attribution) = &shown.attribution {
                dt { "Marketing" } dd { code { (attribution.get()) } }
            }
        }
    }
}

/// Paise as rupees, without rounding.
fn rupees(paise: i64) -> String {
    let sign = if paise < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", paise.unsigned_abs() / 100, paise.unsigned_abs() % 100)
}

fn booking_table(bookings: &[Invoice]) -> Markup {
    let amount = |amount: &Option<Box<RawValue>>| amount.as_ref().map_or("-", |amount| amount.get()).to_owned();
    html! {
        (data_table(&["Booking", "#Amount", "Currency", "#Credit used", "#Credit applied", "Credit state",
            "#Balance due"], &html! {
            @for booking in bookings {
                tr {
                    th scope="row" { bdi { (booking.booking_ref) } }
                    td.number { (amount(&booking.amount)) }
                    td { (booking.currency.as_deref().unwrap_or("-")) }
                    td.number { (amount(&booking.credit_used)) }
                    td.number { (amount(&booking.credit_applied)) }
                    td { (booking.credit_state) }
                    td.number { (amount(&booking.balance_due)) }
                }
            }
        }))
    }
}

fn message_item(message: &InboxMessage) -> Markup {
    html! {
        li {
            span.stage { (message.kind) } " " (time(message.at))
            @if let Some(text) = &message.text { p.wrapped { bdi { (text) } } }
            @if let Some(changes) = &message.changes { details { summary { "Changes" } pre.wrapped { code { (changes.get()) } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paise_are_shown_as_rupees_without_rounding() {
        assert_eq!(rupees(123_405), "1234.05");
        assert_eq!(rupees(-5), "-0.05");
        assert_eq!(rupees(i64::MIN), "-92233720368547758.08");
    }
}
