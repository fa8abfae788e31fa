//! One timeline entry for every accepted event (D14).

use super::{Context, Event};
use crate::state::{TenantState, TimelineEntry};
use common::model::ClientId;
use serde_json::value::RawValue;

/// Appends the event to its client's timeline, with the payload as sent.
pub(super) fn append(state: &mut TenantState, client_id: ClientId, event: &Event<'_>, ctx: &mut Context<'_>) {
    let envelope = event.envelope;
    state.timeline.push(TimelineEntry {
        entry_id: (ctx.next_id)(),
        client_id,
        event_id: envelope.event_id.clone(),
        event_type: envelope.event_type.as_str().to_owned(),
        occurred_at: envelope.occurred_at,
        origin: envelope.origin.clone(),
        actor_key: envelope.actor.email.as_ref().map(|email| email.key().to_owned()),
        payload: envelope.payload.map(RawValue::get).map(str::to_owned),
    });
}

#[cfg(test)]
mod tests {
    use crate::rules::testing::World;
    use common::event::InboundType;
    use serde_json::{Value, json};

    #[test]
    fn every_accepted_event_appends_one_entry_with_its_payload_as_sent() {
        let sent = r#"{ "b":1.50, "a" : [1,  2], "a":"\u00e9" }"#;
        for kind in InboundType::ALL {
            let mut world = World::new();
            world.booking("BR-1", 0);
            let before = world.state.timeline.len();
            let payload = if *kind == InboundType::BookingCreditApplied {
                r#"{"bookingRef":"BR-1",  "appliedRupees":0}"#
            } else {
                sent
            };
            let result = world.send_raw(kind.as_str(), json!({"email": "ana@example.com"}), payload);
            assert_eq!(world.state.timeline.len(), before + 1, "{kind}");
            let entry = world.state.timeline.last().unwrap();
            assert_eq!((entry.payload.as_deref(), entry.event_type.as_str()), (Some(payload), kind.as_str()));
            assert_eq!((Some(entry.client_id), &entry.event_id), (result.client_id, &result.event_id));
            assert_eq!(entry.origin, "partner-site");
        }
    }

    #[test]
    fn an_event_without_payload_has_none_on_the_timeline() {
        let mut world = World::new();
        world.send("contact.identified", json!({"phone": "1"}), Value::Null);
        assert_eq!(world.state.timeline[0].payload, None);
    }

    #[test]
    fn entries_are_sorted_by_their_ids() {
        let mut world = World::new();
        for _ in 0..5 {
            world.send("enquiry.submitted", json!({"phone": "1"}), json!({}));
        }
        assert!(world.state.timeline.is_sorted_by_key(|entry| entry.entry_id));
    }
}
