//! Replaying all deliveries that match a filter, after counting them: a job of the dispatcher.

use super::filter::Filter;
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::number;
use crate::layout;
use crate::pages::form::{Faults, Field, select};
use crate::response::redirect;
use admin::deliveries::{self, MatchingCount};
use common::model::DeliveryState;
use maud::{Markup, html};
use warp::reply::Response;

/// Maximum number of deliveries that are counted. A job replays more than these.
const COUNTED_MAX: u64 = 100_000;

/// How fast deliveries are replayed, in a second.
const RATES: [(&str, &str); 4] =
    [("10", "10 a second"), ("50", "50 a second"), ("100", "100 a second"), ("500", "500 a second")];
/// The rate that is offered first.
const RATE: &str = "50";

/// Refuses a filter that is not understood completely, so that nothing is replayed that the person did not choose, and one
/// without a state, which would repeat what was delivered beside what failed.
fn check(filter: Filter) -> Result<Filter, Failure> {
    let has_state =
        matches!(filter.query.state, Some(DeliveryState::DeadLettered | DeliveryState::Delivered));
    if !filter.faults.is_empty() || !has_state {
        return Err(Failure::BadRequest("choose the state dead or delivered, and correct the filter"));
    }
    Ok(filter)
}

/// A count for people.
fn counted_text(counted: MatchingCount) -> String {
    let count = number(i64::try_from(counted.count).unwrap_or(i64::MAX));
    if counted.has_more { format!("more than {count}") } else { count }
}

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let filter = check(Filter::parse(&view.request.query))?;
    let tenant = view.tenant()?.id;
    let counted = deliveries::count_replay(view.client(), tenant, &filter.query, COUNTED_MAX).await?;
    let back = filter.path(&view.tenant_path("/deliveries"), None);
    let rate = Field {
        name: "rate",
        label: "How fast",
        hint: "The receivers get these deliveries beside the new ones.",
    };
    let content = html! {
        @if counted.count == 0 {
            p { "No delivery matches the filter any more." }
            p { a href=(back) { "Back" } }
        } @else {
            div.alert {
                p { strong { (counted_text(counted)) } " deliveries match the filter and will be sent again, with the same event ids and delivery ids." }
                (described(&filter))
            }
            form method="post" action=(view.tenant_path("/deliveries/replay")) {
                @for (name, value) in filter.fields() { input type="hidden" name=(name) value=(value); }
                (select(rate, &RATES, RATE, &Faults::none()))
                div.actions { button.danger { "Send them again" } a.button.plain href=(back) { "Cancel" } }
            }
        }
    };
    Ok(layout::page(&view, "Replay everything that matches?", &content))
}

fn described(filter: &Filter) -> Markup {
    html! {
        dl {
            @for (name, value) in filter.fields().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (value) }
            }
        }
    }
}

pub(crate) async fn replay(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let filter = check(Filter::parse(change.form()))?;
    let typed = change.form().optional("rate").unwrap_or(RATE);
    // The page offers a list, so another value was not chosen there.
    let is_offered = RATES.iter().any(|(rate, _)| *rate == typed);
    let rate = typed.parse().ok().filter(|_| is_offered);
    let rate = rate.ok_or(Failure::BadRequest("choose one of the rates of the page"))?;
    let tenant = context.tenant()?.id;
    let counted = deliveries::count_replay(change.client(), tenant, &filter.query, COUNTED_MAX).await?;
    let (client, actor) = change.operation();
    let job = deliveries::create_replay(client, actor, tenant, &filter.query, (counted, rate)).await?;
    Ok(redirect(&context.tenant_path(&format!("/replays/{}?done=replay-created", job.id))))
}
