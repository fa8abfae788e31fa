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
    use serde_json::{Value, json};

    #[test]
    fn an_event_without_payload_has_none_on_the_timeline() {
        let mut world = World::new();
        world.send("contact.identified", json!({"phone": "1"}), Value::Null);
        assert_eq!(world.state.timeline[0].payload, None);
    }
}
