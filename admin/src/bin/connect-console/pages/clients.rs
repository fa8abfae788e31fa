//! A client with enquiries, discovery records and timeline, read only.

use crate::contacts::MASK;
use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::views::{self, ClientLead, Discovery, TimelineEntry};
use common::view::ClientView;
use maud::{Markup, html};
use warp::reply::Response;

/// Items of each list on the page, the newest ones.
const SHOWN: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let (slug, id) = (view.tenant()?.slug.as_str(), view.id()?);
    let shown = view.shown(views::client(view.client(), slug, id).await?);
    let leads = view.shown(views::leads_of(view.client(), slug, id, SHOWN).await?);
    let discoveries =
        if view.sees_contacts() { views::discoveries(view.client(), slug, id, SHOWN).await?.items } else { Vec::new() };
    let timeline = view.shown(views::timeline(view.client(), slug, id, SHOWN).await?);
    let content = html! {
        (facts(&shown))
        @if !view.sees_contacts() {
            p.soft { "Contact data is masked for viewers. They see no payloads and discovery records, because these contain it." }
        }
        h2 { "Enquiries" }
        @if leads.items.is_empty() { p.soft { "There is no enquiry." } } @else { (lead_list(&view, &leads.items)) }
        @if !discoveries.is_empty() {
            h2 { "Discovery" }
            @for discovery in discoveries.iter().rev() { (discovery_section(discovery)) }
        }
        h2 { "Timeline" }
        @if timeline.items.is_empty() { p.soft { "There is no event." } }
        @else { ol.timeline { @for entry in timeline.items.iter().rev() { (entry_item(&view, entry)) } } }
        @if timeline.is_cut { p.soft { "The newest " (SHOWN) " are shown." } }
    };
    Ok(layout::page(&view, &shown.name, &content))
}

fn facts(shown: &ClientView) -> Markup {
    html! {
        dl {
            dt { "Email" } dd { bdi { (shown.email.as_deref().unwrap_or("-")) } }
            dt { "Phone" } dd { (shown.phone.as_deref().unwrap_or("-")) }
            dt { "Company" } dd { bdi { (shown.company.as_deref().unwrap_or("-")) } }
            dt { "External id" } dd { bdi { (shown.external_id.as_deref().unwrap_or("-")) } }
            dt { "Type" } dd { (shown.client_type) }
            dt { "Marketing" } dd { (if shown.marketing_opt_in { "agreed" } else { "not agreed" }) }
            dt { "Id" } dd { code data-copy { (shown.id) } }
            dt { "Created" } dd { (time(shown.created_at)) }
            dt { "Changed" } dd { (time(shown.updated_at)) }
        }
    }
}

fn lead_list(view: &View<'_>, leads: &[ClientLead]) -> Markup {
    html! {
        ul {
            @for lead in leads.iter().rev() {
                li { a href=(view.tenant_path(&format!("/leads/{}", lead.id))) { (lead.enquiry_number) } " " bdi { (lead.title) } ", " (lead.stage) }
            }
        }
    }
}

fn discovery_section(discovery: &Discovery) -> Markup {
    let parts = [("Discovery", &discovery.discovery), ("Profile", &discovery.profile)];
    html! {
        details {
            summary { "Record " (discovery.discovery_id) }
            @for (name, part) in parts {
                @if let Some(part) = part { h3 { (name) } pre.wrapped { code { (part.get()) } } }
            }
            @if let Some(essence) = &discovery.essence { h3 { "Essence" } p.wrapped { bdi { (essence) } } }
        }
    }
}

fn entry_item(view: &View<'_>, entry: &TimelineEntry) -> Markup {
    let find = crate::fields::with_query(&view.tenant_path("/find"), &[("id", &entry.event_id)]);
    html! {
        li {
            span.stage { (entry.event_type) } " " (time(entry.occurred_at)) " from " bdi { (entry.origin) }
            div.soft {
                @if entry.event_id.contains(MASK) { code { (entry.event_id) } } @else { a href=(find) { code { (entry.event_id) } } }
            }
            @if let Some(payload) = &entry.payload {
                details { summary { "Payload" } pre.wrapped { code { (payload.get()) } } }
            }
        }
    }
}
