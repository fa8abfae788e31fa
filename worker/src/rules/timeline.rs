//! One timeline entry for every accepted event (D14).

use super::{Context, Event};
use crate::state::{TenantState, TimelineEntry};
use common::model::ClientId;
use serde_json::value::RawValue;

/// Appends the event to its client's timeline, with the payload as sent.
pub(super) fn append(state: &mut TenantState, client_id: ClientId, event: &Event<'_>, ctx: &mut Context<'_>) {
    let envelope = event.envelope;
    // A person's own timeline is erased with the person, whoever caused its events; that of an account by the actors of its events.
    // One that was not loaded, that of an invoice, counts as a person: then nobody is named.
    let is_of_person = state.client(client_id).is_none_or(|client| client.company_domain.is_none());
    let actor = envelope.actor.email.as_ref().filter(|_| !is_of_person);
    state.timeline.push(TimelineEntry {
        entry_id: (ctx.next_id)(),
        client_id,
        event_id: envelope.event_id.clone(),
        event_type: envelope.event_type.as_str().to_owned(),
        occurred_at: envelope.occurred_at,
        origin: envelope.origin.clone(),
        actor_key: actor.map(|email| email.key().to_owned()),
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

    #[test]
    fn an_entry_of_a_person_does_not_name_who_caused_it() {
        let mut world = World::new();
        world.send("contact.identified", json!({"email": "ana@example.com"}), Value::Null);
        assert_eq!(world.state.timeline[0].actor_key, None);
    }
}
