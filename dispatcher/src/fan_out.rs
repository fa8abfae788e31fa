//! Which subscriptions receive an outbound event (D24). Pure.

use uuid::Uuid;

/// The fields of a subscription that decide which events it receives.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub tenant_id: Uuid,
    pub id: Uuid,
    /// The key it belongs to, with the origin the key is registered with.
    pub key: Option<SubscriptionKey>,
    /// Outbound types that it receives; `None` is all.
    pub event_types: Option<Vec<String>>,
    /// Whether its deliveries are parked.
    pub is_paused: bool,
}

/// The API key of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionKey {
    pub prefix: String,
    /// The origin that it is registered with, if any.
    pub origin: Option<String>,
}

/// An event of the outbox.
#[derive(Clone, Debug)]
pub(crate) struct OutboxEvent {
    pub tenant_id: Uuid,
    /// `eventId` of the envelope.
    pub event_id: Uuid,
    pub event_type: String,
    /// The key whose call caused it; `None` for actions of the CRM (D16).
    pub key_prefix: Option<String>,
    /// The system that emitted the event.
    pub origin: String,
    /// The body of the webhook, JSON.
    pub envelope: String,
    /// The trace context of its cause, if known.
    pub traceparent: Option<String>,
    /// The request that caused it, if known.
    pub request_id: Option<Uuid>,
    /// The only subscription that receives it, as of a test event; `None` if all that want it do.
    pub only_for: Option<Uuid>,
}

impl Subscription {
    /// Whether it receives `event`: same tenant, a type that it wants, and no echo. An event for one subscription is received by that
    /// one only.
    pub(crate) fn wants(&self, event: &OutboxEvent) -> bool {
        if let Some(only) = event.only_for {
            return self.tenant_id == event.tenant_id && self.id == only;
        }
        let wants_type = self.event_types.as_ref().is_none_or(|types| types.contains(&event.event_type));
        wants_type && self.tenant_id == event.tenant_id && !self.is_echo(event)
    }

    /// Whether the key's own call caused the event, or the event has the key's registered origin.
    fn is_echo(&self, event: &OutboxEvent) -> bool {
        let Some(key) = &self.key else { return false };
        event.key_prefix.as_ref() == Some(&key.prefix) || key.origin.as_ref() == Some(&event.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::message::delivery_id;

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
            only_for: None,
        }
    }

    fn subscription(key: Option<(&str, Option<&str>)>, types: Option<&[&str]>) -> Subscription {
        let key = key.map(|(prefix, origin)| SubscriptionKey {
            prefix: prefix.to_owned(),
            origin: origin.map(str::to_owned),
        });
        let event_types = types.map(|types| types.iter().map(|&t| t.to_owned()).collect());
        Subscription { tenant_id: TENANT, id: Uuid::from_u128(2), key, event_types, is_paused: false }
    }

    #[test]
    fn a_subscription_without_a_key_receives_all_events_of_its_types() {
        let all = subscription(None, None);
        assert!(all.wants(&event(Some("ck_a"), "site")) && all.wants(&event(None, "crm")));
        assert!(subscription(None, Some(&["lead.assigned"])).wants(&event(None, "crm")));
        assert!(!subscription(None, Some(&["booking.confirmed"])).wants(&event(None, "crm")));
        assert!(!subscription(None, Some(&[])).wants(&event(None, "crm")));
    }

    #[test]
    fn an_event_of_the_own_key_or_origin_is_an_echo() {
        let own = subscription(Some(("ck_a", Some("site"))), None);
        assert!(!own.wants(&event(Some("ck_a"), "other")), "its own call");
        assert!(!own.wants(&event(Some("ck_b"), "site")), "its registered origin");
        assert!(!own.wants(&event(None, "site")), "its registered origin, without a key");
        assert!(own.wants(&event(Some("ck_b"), "other")));
        assert!(own.wants(&event(None, "crm")), "an action of the CRM (D16)");
        assert!(subscription(Some(("ck_a", None)), None).wants(&event(Some("ck_b"), "site")));
    }

    #[test]
    fn an_event_for_one_subscription_reaches_that_one_whatever_it_wants() {
        let other = subscription(None, None);
        let only = Subscription { id: Uuid::from_u128(3), ..subscription(Some(("ck_a", None)), Some(&[])) };
        let test = OutboxEvent { only_for: Some(only.id), ..event(Some("ck_a"), "connect") };
        assert!(only.wants(&test) && !other.wants(&test));
        assert!(!only.wants(&OutboxEvent { tenant_id: Uuid::from_u128(7), ..test }));
    }

    #[test]
    fn refuses_events_of_another_tenant() {
        let other = OutboxEvent { tenant_id: Uuid::from_u128(7), ..event(None, "crm") };
        assert!(!subscription(None, None).wants(&other));
    }

    #[test]
    fn a_delivery_id_depends_on_event_and_subscription_and_sorts_by_the_events_time() {
        let (early, late) = (Uuid::from_u128(1 << 80), Uuid::from_u128(2 << 80));
        let (one, two) = (Uuid::from_u128(5), Uuid::from_u128(6));
        assert_eq!(delivery_id(early, one), delivery_id(early, one));
        assert_ne!(delivery_id(early, one), delivery_id(early, two));
        assert_ne!(delivery_id(early, one), delivery_id(late, one));
        assert!(delivery_id(early, two) < delivery_id(late, one));
        assert_eq!(delivery_id(early, one).get_version_num(), 7);
    }
}
