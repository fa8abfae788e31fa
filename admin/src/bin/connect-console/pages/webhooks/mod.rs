//! Webhook subscriptions.

pub(crate) mod create;
pub(crate) mod events;
mod health;
pub(crate) mod list;
pub(crate) mod pause;
pub(crate) mod remove;
pub(crate) mod rotate;
pub(crate) mod show;
pub(crate) mod test;

use admin::subscriptions::{Subscription, SubscriptionState};
use common::event::OutboundType;
use maud::{Markup, html};

/// The event types with their meaning, for forms.
const EVENT_TYPES: [(&str, &str); 6] = [
    (OutboundType::LeadAssigned.as_str(), "an advisor was assigned"),
    (OutboundType::LeadStageChanged.as_str(), "the stage of an enquiry changed"),
    (OutboundType::ProposalSent.as_str(), "a proposal was sent"),
    (OutboundType::ProposalViewed.as_str(), "the traveler opened the proposal"),
    (OutboundType::BookingConfirmed.as_str(), "a trip was booked"),
    (OutboundType::BookingCancelled.as_str(), "a booking was cancelled"),
];

fn state(subscription: &Subscription) -> Markup {
    let class = match subscription.state {
        SubscriptionState::Active => "good",
        SubscriptionState::Paused => "warn",
        SubscriptionState::Removed => "bad",
    };
    html! { span class=(class) { (subscription.state.as_str()) } }
}

fn event_names(subscription: &Subscription) -> String {
    subscription.events.as_ref().map_or_else(|| "all".to_owned(), |events| events.join(", "))
}

/// A new signing secret, which this page alone shows.
fn secret(secret: &str) -> Markup {
    html! {
        div.secret {
            p { strong { "Copy the signing secret now. It is shown once and cannot be read again." } }
            dl { dt { "Secret" } dd { code data-copy { (secret) } } }
            p { "The receiver verifies the header " code { "X-Connect-Signature" } " with it: HMAC-SHA256 of " code { "<t>.<body>" } ", hex." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_type_is_offered() {
        let names: Vec<_> = OutboundType::ALL.iter().map(|known| known.as_str()).collect();
        assert_eq!(EVENT_TYPES.map(|(name, _)| name).as_slice(), names);
    }
}
