//! Webhook deliveries.

mod filter;
pub(crate) mod list;
pub(crate) mod replay;
pub(crate) mod replay_matching;
pub(crate) mod show;

use common::model::DeliveryState;
use maud::{Markup, html};

/// What a state means. `pending` and `dead` must not be confused: one is attempted again, the other is not.
const fn meaning(state: DeliveryState) -> (&'static str, &'static str) {
    match state {
        DeliveryState::Pending => ("warn", "pending: another attempt follows"),
        DeliveryState::Delivered => ("good", "delivered"),
        DeliveryState::DeadLettered => ("bad", "dead-lettered: all attempts failed"),
        DeliveryState::Dropped => ("soft", "dropped: the subscription was removed"),
    }
}

fn state(state: DeliveryState) -> Markup {
    let (class, text) = meaning(state);
    html! { span class=(class) { (text) } }
}
