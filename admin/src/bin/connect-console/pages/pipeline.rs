//! The enquiries of an agency by stage and campaign, read only.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{data_table, time};
use crate::layout;
use admin::views::{self, PipelineFilter, PipelineLead};
use common::model::Stage;
use maud::{Markup, html};
use warp::reply::Response;

/// Enquiries of the page.
const SHOWN: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let query = &view.request.query;
    let sent = query.as_sent("campaign");
    let campaign = query.optional("campaign").map(|_| sent.to_owned());
    let mut filter = PipelineFilter { stage: Stage::parse(query.get("stage")), campaign };
    let slug = &view.tenant()?.slug;
    let mut listed = views::pipeline(view.client(), slug, &filter, SHOWN).await?;
    if listed.items.is_empty() && sent.trim() != sent {
        // A campaign is kept as it was sent, with the blanks around it. Those of a form may come from copying.
        filter.campaign = query.optional("campaign").map(str::to_owned);
        listed = views::pipeline(view.client(), slug, &filter, SHOWN).await?;
    }
    let listed = view.shown(listed);
    let content = html! {
        (filter_form(&view, &filter))
        @if let Some(stage) = query.optional("stage").filter(|_| filter.stage.is_none()) {
            p.fault { "stage " (format!("{stage:?}")) " is not known: choose " (Stage::ALL.map(Stage::as_str).join(", ")) ". It was ignored." }
        }
        @if listed.items.is_empty() {
            p { "There is no such enquiry. An enquiry opens with an event " code { "enquiry.submitted" } ", or with POST /leads." }
        } @else {
            (table(&view, &listed.items))
            @if listed.is_cut { p.soft { "The newest " (SHOWN) " are shown." } }
        }
    };
    Ok(layout::page(&view, "Enquiries", &content))
}

fn filter_form(view: &View<'_>, filter: &PipelineFilter) -> Markup {
    let chosen = filter.stage.map_or("", Stage::as_str);
    html! {
        form.filter method="get" action=(view.tenant_path("/pipeline")) {
            div {
                label for="stage" { "Stage" }
                select id="stage" name="stage" {
                    option value="" { "all" }
                    @for stage in Stage::ALL { option value=(stage.as_str()) selected[stage.as_str() == chosen] { (stage.as_str()) } }
                }
            }
            div {
                label for="campaign" { "Campaign" }
                input id="campaign" name="campaign" type="search" value=(filter.campaign.as_deref().unwrap_or_default());
            }
            button { "Show" }
        }
    }
}

fn table(view: &View<'_>, leads: &[PipelineLead]) -> Markup {
    html! {
        div.lines { (data_table(&["Enquiry", "Title", "Stage", "Owner", "~Follow-up", "~Opened", "Changed"], &html! {
            @for PipelineLead { lead, .. } in leads.iter().rev() {
                tr {
                    th scope="row" { a href=(view.tenant_path(&format!("/leads/{}", lead.id))) { (lead.enquiry_number) } }
                    td.wide title=(lead.title) { bdi { (lead.title) } }
                    td { (lead.stage.as_str()) }
                    td.long { bdi { (lead.owner.as_ref().map_or("-", |owner| owner.name.as_str())) } }
                    td { (if lead.follow_up { "yes" } else { "no" }) }
                    td { (time(lead.created_at)) }
                    td { (time(lead.updated_at)) }
                }
            }
        })) }
    }
}
