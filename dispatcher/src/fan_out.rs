//! Who hears of an outbound event (D24). Pure.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// A subscription, as far as it says what it wants.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The agency.
    pub tenant_id: Uuid,
    /// Its id.
    pub id: Uuid,
    /// The key it belongs to, with the origin the key is registered with.
    pub key: Option<Key>,
    /// Outbound types wanted; `None` is all.
    pub event_types: Option<Vec<String>>,
    /// Whether its deliveries wait.
    pub is_paused: bool,
}

/// The API key of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its visible prefix.
    pub prefix: String,
    /// The system that calls with it, if that was said.
    pub origin: Option<String>,
}

/// An event of the outbox.
#[derive(Clone, Debug)]
pub struct OutboxEvent {
    /// The agency.
    pub tenant_id: Uuid,
    /// `eventId`.
    pub event_id: Uuid,
    /// Outbound type.
    pub event_type: String,
    /// The key whose call caused it; `None` for the CRM's own acts (D16).
    pub key_prefix: Option<String>,
    /// Emitting system.
    pub origin: String,
    /// The webhook's body.
    pub envelope: String,
    /// The place of what caused it in its trace, where that is known.
    pub traceparent: Option<String>,
    /// The request that caused it, where that is known.
    pub request_id: Option<Uuid>,
}

impl Subscription {
    /// Whether `event`, of the same agency, goes to it: it wants the type and didn't cause it.
    pub fn wants(&self, event: &OutboxEvent) -> bool {
        let wants_type = self.event_types.as_ref().is_none_or(|types| types.contains(&event.event_type));
        wants_type && self.tenant_id == event.tenant_id && !self.is_echo(event)
    }

    /// What the key's own calls caused, or what carries the key's registered origin.
    fn is_echo(&self, event: &OutboxEvent) -> bool {
        let Some(key) = &self.key else { return false };
        event.key_prefix.as_ref() == Some(&key.prefix) || key.origin.as_ref() == Some(&event.origin)
    }
}

/// The delivery of an event to a subscription: always the same for the two, so that one that is relayed twice is one
/// delivery. A UUIDv7 of the event's time.
pub fn delivery_id(event_id: Uuid, subscription_id: Uuid) -> Uuid {
    let digest = Sha256::new().chain_update(event_id).chain_update(subscription_id).finalize();
    let mut bytes = *event_id.as_bytes();
    bytes[6..].copy_from_slice(&digest[..10]);
    Builder::from_bytes(bytes)
        .with_version(uuid::Version::SortRand)
        .with_variant(uuid::Variant::RFC4122)
        .into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: Uuid = Uuid::from_u128(1);

    fn event(key_prefix: Option<&str>, origin: &str) -> OutboxEvent {
        OutboxEvent {
            tenant_id: TENANT,
            event_id: Uuid::from_u128(9),
            event_type: "lead.assigned".to_owned(),
            key_prefix: key_prefix.map(str::to_owned),
            origin: origin.to_owned(),
            envelope: String::new(),
            traceparent: None,
            request_id: None,
        }
    }

    fn subscription(key: Option<(&str, Option<&str>)>, types: Option<&[&str]>) -> Subscription {
        let key =
            key.map(|(prefix, origin)| Key { prefix: prefix.to_owned(), origin: origin.map(str::to_owned) });
        let event_types = types.map(|types| types.iter().map(|&t| t.to_owned()).collect());
        Subscription { tenant_id: TENANT, id: Uuid::from_u128(2), key, event_types, is_paused: false }
    }

    #[test]
    fn a_subscription_without_a_key_gets_everything_of_the_types_it_wants() {
        let all = subscription(None, None);
        assert!(all.wants(&event(Some("ck_a"), "site")) && all.wants(&event(None, "crm")));
        assert!(subscription(None, Some(&["lead.assigned"])).wants(&event(None, "crm")));
        assert!(!subscription(None, Some(&["booking.confirmed"])).wants(&event(None, "crm")));
        assert!(!subscription(None, Some(&[])).wants(&event(None, "crm")));
    }

    #[test]
    fn what_a_key_caused_or_what_has_its_origin_is_an_echo() {
        let own = subscription(Some(("ck_a", Some("site"))), None);
        assert!(!own.wants(&event(Some("ck_a"), "other")), "its own call");
        assert!(!own.wants(&event(Some("ck_b"), "site")), "its registered origin");
        assert!(!own.wants(&event(None, "site")), "its registered origin, by nobody's call");
        assert!(own.wants(&event(Some("ck_b"), "other")));
        assert!(own.wants(&event(None, "crm")), "the CRM's own act (D16)");
        assert!(subscription(Some(("ck_a", None)), None).wants(&event(Some("ck_b"), "site")));
    }

    #[test]
    fn another_agencys_event_is_never_wanted() {
        let other = OutboxEvent { tenant_id: Uuid::from_u128(7), ..event(None, "crm") };
        assert!(!subscription(None, None).wants(&other));
    }

    #[test]
    fn a_delivery_id_is_one_for_event_and_subscription_and_sorts_by_the_events_time() {
        let (early, late) = (Uuid::from_u128(1 << 80), Uuid::from_u128(2 << 80));
        let (one, two) = (Uuid::from_u128(5), Uuid::from_u128(6));
        assert_eq!(delivery_id(early, one), delivery_id(early, one));
        assert_ne!(delivery_id(early, one), delivery_id(early, two));
        assert_ne!(delivery_id(early, one), delivery_id(late, one));
        assert!(delivery_id(early, two) < delivery_id(late, one));
        assert_eq!(delivery_id(early, one).get_version_num(), 7);
    }
}
