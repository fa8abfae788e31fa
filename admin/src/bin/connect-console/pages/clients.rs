//! A client with enquiries, discovery records and timeline, read only. Viewers see masked contact data.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{masked, time};
use crate::layout;
use admin::console::Role;
use admin::views::{self, ClientLead, Discovery, ShownClient, TimelineEntry};
use maud::{Markup, html};
use warp::reply::Response;

/// Items of each list on the page, the newest ones.
const SHOWN: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let (slug, id) = (view.tenant()?.slug.as_str(), view.id()?);
    let shown = views::client(view.client(), slug, id).await?;
    let leads = views::leads_of(view.client(), slug, id, SHOWN).await?;
    let discoveries = views::discoveries(view.client(), slug, id, SHOWN).await?;
    let timeline = views::timeline(view.client(), slug, id, SHOWN).await?;
    let sees_contacts = view.may(Role::Admin);
    // A client without a name is named after its email or phone.
    let title = view.text(&shown.name);
    let content = html! {
        (facts(&shown, sees_contacts, &view.text(shown.external_id.as_deref().unwrap_or("-"))))
        h2 { "Enquiries" }
        @if leads.items.is_empty() { p.soft { "There is no enquiry." } } @else { (lead_list(&view, &leads.items)) }
        @if !discoveries.items.is_empty() && sees_contacts {
            h2 { "Discovery" }
            @for discovery in discoveries.items.iter().rev() { (discovery_section(discovery)) }
        }
        h2 { "Timeline" }
        @if timeline.items.is_empty() { p.soft { "There is no event." } }
        @else { ol.timeline { @for entry in timeline.items.iter().rev() { (entry_item(&view, entry, sees_contacts)) } } }
        @if timeline.is_cut { p.soft { "The newest " (SHOWN) " are shown." } }
    };
    Ok(layout::page(&view, &title, &content))
}

fn facts(shown: &ShownClient, sees_contacts: bool, external_id: &str) -> Markup {
    let contact = |contact: &Option<String>| match contact {
        Some(contact) if sees_contacts => contact.clone(),
        Some(contact) => masked(contact),
        None => "-".to_owned(),
    };
    html! {
        dl {
            dt { "Email" } dd { bdi { (contact(&shown.email)) } }
            dt { "Phone" } dd { (contact(&shown.phone)) }
            dt { "Company" } dd { bdi { (shown.company.as_deref().unwrap_or("-")) } }
            dt { "External id" } dd { bdi { (external_id) } }
            dt { "Type" } dd { (shown.client_type) }
            dt { "Marketing" } dd { (if shown.marketing_opt_in { "agreed" } else { "not agreed" }) }
            dt { "Id" } dd { code data-copy { (shown.id) } }
            dt { "Created" } dd { (time(shown.created_at)) }
            dt { "Changed" } dd { (time(shown.updated_at)) }
        }
        @if !sees_contacts { p.soft { "Contact data is masked for viewers." } }
    }
}

fn lead_list(view: &View<'_>, leads: &[ClientLead]) -> Markup {
    html! {
        ul {
            @for lead in leads.iter().rev() {
                li { a href=(view.tenant_path(&format!("/leads/{}", lead.id))) { (lead.enquiry_number) } " " bdi { (view.text(&lead.title)) } ", " (lead.stage) }
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

fn entry_item(view: &View<'_>, entry: &TimelineEntry, sees_contacts: bool) -> Markup {
    let find = crate::fields::with_query(&view.tenant_path("/find"), &[("id", &entry.event_id)]);
    html! {
        li {
            span.stage { (entry.event_type) } " " (time(entry.occurred_at)) " from " bdi { (entry.origin) }
            div.soft { a href=(find) { code { (entry.event_id) } } }
            @if let Some(payload) = entry.payload.as_ref().filter(|_| sees_contacts) {
                details { summary { "Payload" } pre.wrapped { code { (payload.get()) } } }
            }
        }
    }
}
