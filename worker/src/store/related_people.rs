//! Related people: those whose clients a unit must lock, because their leads, discoveries or credit are looked up or
//! changed, and those who may turn out to be the same client.

use common::event::{Actor, Envelope, InboundType};
use common::model::TenantId;
use foldhash::{HashMap, HashSet, HashSetExt};

/// One identity of a person within a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IdentityKey<'a> {
    Email(&'a str),
    ExternalId(&'a str),
    Phone(&'a str),
}

/// Whether an event looks up leads, discoveries or credit of its client, or changes them: its client is locked.
pub(crate) const fn locks_its_client(kind: InboundType) -> bool {
    match kind {
        InboundType::DiscoveryUpserted
        | InboundType::BookingStarted
        | InboundType::BookingAbandoned
        | InboundType::BookingCompleted
        | InboundType::EmployeeCreditUpdated => true,
        // It looks up an invoice, which is locked itself.
        InboundType::BookingCreditApplied
        | InboundType::ContactIdentified
        | InboundType::ContactUpdated
        | InboundType::EnquirySubmitted
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested => false,
    }
}

/// The actors of the events that are [related](locks_its_client), and of those that share an identity with one of them,
/// directly or through others: an event may give its client an identity by which a later one finds that client.
pub(super) fn related<'e>(
    events: impl Iterator<Item = (TenantId, &'e Envelope<'e>)> + Clone,
) -> Vec<(TenantId, &'e Actor)> {
    if !events.clone().any(|(_, event)| locks_its_client(event.event_type)) {
        return Vec::new();
    }
    let mut groups = Groups::default();
    let mut roots = HashSet::new();
    let members: Vec<(TenantId, &InboundType, &Actor, Option<usize>)> = events
        .filter(|(_, event)| event.event_type != InboundType::BookingCreditApplied)
        .map(|(tenant, event)| (tenant, &event.event_type, &event.actor, groups.join(tenant, &event.actor)))
        .collect();
    for (_, kind, _, group) in &members {
        if let (true, Some(group)) = (locks_its_client(**kind), group) {
            roots.insert(groups.root(*group));
        }
    }
    let in_related = |(tenant, _, actor, group): (TenantId, &InboundType, &'e Actor, Option<usize>)| {
        roots.contains(&groups.root(group?)).then_some((tenant, actor))
    };
    members.into_iter().filter_map(in_related).collect()
}

/// Identities in groups, as a union-find.
#[derive(Default)]
struct Groups<'a> {
    numbers: HashMap<(TenantId, IdentityKey<'a>), usize>,
    parents: Vec<usize>,
}

impl<'a> Groups<'a> {
    /// Merges all identities of a person into one group, and returns the group.
    fn join(&mut self, tenant: TenantId, actor: &'a Actor) -> Option<usize> {
        let keys = [
            actor.email.as_ref().map(|email| IdentityKey::Email(email.key())),
            actor.external_id.as_deref().map(IdentityKey::ExternalId),
            actor.phone.as_ref().map(|phone| IdentityKey::Phone(phone.digits())),
        ];
        let mut first = None;
        for key in keys.into_iter().flatten() {
            let fresh = self.parents.len();
            let number = *self.numbers.entry((tenant, key)).or_insert(fresh);
            if number == fresh {
                self.parents.push(fresh);
            }
            let (root, other) = (self.root(*first.get_or_insert(number)), self.root(number));
            self.parents[root.max(other)] = root.min(other);
        }
        first
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parents[number] != number {
            number = self.parents[number];
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::event::parse_batch;
    use serde_json::{Value, json};

    /// The names of the related actors of a batch, given as type and actor.
    fn names(sent: &[(&str, Value)]) -> Vec<String> {
        let events: Vec<Value> = sent
            .iter()
            .enumerate()
            .map(|(at, (kind, actor))| {
                let mut actor = actor.clone();
                actor["type"] = "contact".into();
                actor["name"] = at.to_string().into();
                json!({"specVersion": "1.0", "eventId": at.to_string(), "eventType": kind,
                       "occurredAt": "2026-01-01T00:00:00Z", "tenant": "acme", "origin": "site", "actor": actor})
            })
            .collect();
        let body = json!({"events": events}).to_string();
        let batch = parse_batch(body.as_bytes(), "acme").unwrap();
        let tenant = TenantId(uuid::Uuid::nil());
        let related = related(batch.iter().map(|event| (tenant, event)));
        related.into_iter().map(|(_, actor)| actor.name.clone().unwrap()).collect()
    }

    #[test]
    fn people_who_share_an_identity_with_a_related_event_are_related_transitively() {
        let related = names(&[
            ("contact.identified", json!({"email": "a@x.com", "externalId": "1"})),
            ("contact.identified", json!({"externalId": "1", "phone": "7"})),
            ("contact.identified", json!({"email": "b@x.com"})),
            ("booking.started", json!({"phone": "7"})),
        ]);
        assert_eq!(related, ["0", "1", "3"]);
    }

    #[test]
    fn contact_events_and_new_leads_alone_are_not_related() {
        let related = names(&[
            ("contact.identified", json!({"email": "a@x.com"})),
            ("enquiry.submitted", json!({"email": "a@x.com"})),
        ]);
        assert_eq!(related, [""; 0]);
    }
}
