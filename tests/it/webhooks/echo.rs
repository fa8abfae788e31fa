//! The echo rule: an event is not sent to the system that caused it (specification: Inbound rules 3, Delivery rules 4;
//! D16, D24).

use super::{OutboundWorld, Subscription};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use tests::{ALL_SCOPES, ApiKey, Event, RECORDS, ReceivedRequest, batch, event, text};
use uuid::Uuid;

/// A tenant with three systems. The path of each subscription names its system.
struct Systems {
    outbound: OutboundWorld,
    /// Key of the website, registered with the origin `site`.
    site: ApiKey,
    /// Key of a partner, registered without an origin.
    partner: ApiKey,
    subscriptions: HashMap<&'static str, Subscription>,
}

impl Systems {
    async fn start() -> Self {
        let outbound = OutboundWorld::shared().await;
        let (site, partner) = (key(&outbound, &["--origin", "site"]).await, key(&outbound, &[]).await);
        let mut subscriptions = HashMap::new();
        for (path, options) in [
            ("/all", &[][..]),
            ("/site", &["--key", &site.prefix]),
            ("/partner", &["--key", &partner.prefix]),
            ("/bookings", &["--key", &site.prefix, "--events", "booking.confirmed,booking.cancelled"]),
        ] {
            subscriptions.insert(path, outbound.subscribe(path, options).await);
        }
        outbound.world.add_tenant("zeta").await;
        let url = outbound.receiver.url_by_name("/zeta");
        subscriptions.insert("/zeta", outbound.subscribe_of("zeta", &url, &[]).await);
        Self { outbound, site, partner, subscriptions }
    }

    /// Sends one event that must be accepted, and gives its result.
    async fn send(&self, key: &ApiKey, origin: &str, event: Event) -> Value {
        let event = event.email("ana@example.com").with("origin", json!(origin));
        let response = self.outbound.world.http().send(&key.events(batch(&[event]))).await;
        let result = response.json()["results"][0].clone();
        assert_eq!(result["status"], "accepted", "{result}");
        result
    }

    async fn patch(&self, key: &ApiKey, lead: &Value, body: Value) {
        let target = format!("{RECORDS}/leads/{}", text(&lead["leadId"]));
        self.outbound.world.http().send(&key.records("PATCH", &target, body.to_string())).await.assert_status(200);
    }

    /// The webhooks received since the last call, as `path type origin`, sorted. Checks their signatures.
    async fn take_deliveries(&self) -> Vec<String> {
        let came = self.outbound.take_received().await;
        let said = |webhook: &ReceivedRequest| {
            for (path, subscription) in &self.subscriptions {
                assert_eq!(webhook.verify(&subscription.secret).is_ok(), webhook.path() == *path, "{path}");
            }
            let envelope = webhook.json();
            format!("{} {} {}", webhook.path(), text(&envelope["eventType"]), text(&envelope["origin"]))
        };
        let mut heard: Vec<String> = came.iter().map(said).collect();
        heard.sort();
        heard
    }
}

async fn key(outbound: &OutboundWorld, options: &[&str]) -> ApiKey {
    let create = ["key", "create", "--tenant", "acme", "--name", "system", "--scopes", ALL_SCOPES];
    ApiKey::of("acme", &outbound.world.connectctl.json(&[&create, options].concat()).await)
}

#[tokio::test]
async fn a_system_is_not_notified_of_what_it_caused_itself() {
    let systems = Systems::start().await;
    let (site, partner) = (&systems.site, &systems.partner);

    // Routing is done by the CRM: the system that submitted the lead is notified, too (D16).
    let lead = systems.send(site, "site", event("enquiry.submitted")).await;
    let assigned = ["/all", "/partner", "/site"].map(|path| format!("{path} lead.assigned crm"));
    assert_eq!(systems.take_deliveries().await, assigned);

    // Events caused by its key, whatever their origin.
    systems.send(site, "elsewhere", event("booking.started")).await;
    let expected = ["/all lead.stage_changed elsewhere", "/partner lead.stage_changed elsewhere"];
    assert_eq!(systems.take_deliveries().await, expected);

    // Events with its registered origin, whatever key caused them.
    let booking = event("booking.completed").payload(json!({"bookingRef": "BR-1"}));
    systems.send(partner, "site", booking).await;
    let expected = ["/all booking.confirmed site", "/all lead.stage_changed site"];
    assert_eq!(systems.take_deliveries().await, expected);

    // A records write has the key's registered origin, else that of the interface.
    systems.patch(site, &lead, json!({"stage": "follow_up"})).await;
    let expected = ["/all lead.stage_changed site", "/partner lead.stage_changed site"];
    assert_eq!(systems.take_deliveries().await, expected);
    systems.patch(partner, &lead, json!({"stage": "negotiation"})).await;
    let expected = ["/all lead.stage_changed connect-api", "/site lead.stage_changed connect-api"];
    assert_eq!(systems.take_deliveries().await, expected);

    // An assignment by a key is not routing.
    let owner = systems.outbound.world.lead(&lead["leadId"]).await["owner"]["email"].clone();
    let other = if owner == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
    systems.patch(site, &lead, json!({"owner": other})).await;
    assert_eq!(systems.take_deliveries().await, ["/all lead.assigned site", "/partner lead.assigned site"]);
}

#[tokio::test]
async fn a_subscriber_receives_only_its_event_types() {
    let systems = Systems::start().await;
    systems.send(&systems.partner, "elsewhere", event("enquiry.submitted")).await;
    let booking = |reference: &str| event("booking.completed").payload(json!({"bookingRef": reference}));
    systems.send(&systems.partner, "elsewhere", booking("BR-1")).await;
    let expected = [
        "/all booking.confirmed elsewhere", "/all lead.assigned crm", "/all lead.stage_changed elsewhere",
        "/bookings booking.confirmed elsewhere", "/partner lead.assigned crm", "/site booking.confirmed elsewhere",
        "/site lead.assigned crm", "/site lead.stage_changed elsewhere",
    ];
    assert_eq!(systems.take_deliveries().await, expected);
    // The echo rule applies beside the type filter.
    systems.send(&systems.site, "elsewhere", booking("BR-2")).await;
    let expected = ["/all booking.confirmed elsewhere", "/partner booking.confirmed elsewhere"];
    assert_eq!(systems.take_deliveries().await, expected);
}

#[tokio::test]
async fn each_subscriber_gets_its_own_delivery_of_an_event() {
    let outbound = OutboundWorld::shared().await;
    // Two of them have the same URL.
    for path in ["/one", "/two", "/two", "/two?again"] {
        outbound.subscribe(path, &[]).await;
    }
    outbound.open_lead().await;
    let came = outbound.take_received().await;
    assert_eq!(came.len(), 4);
    assert!(came.iter().all(|webhook| webhook.body == came[0].body), "the same bytes");
    let deliveries: HashSet<&str> = came.iter().map(|webhook| webhook.header("x-connect-delivery")).collect();
    assert_eq!(deliveries.len(), 4);
    assert!(deliveries.iter().all(|id| Uuid::parse_str(id).is_ok()), "{deliveries:?}");
}

#[tokio::test]
async fn events_reach_only_subscribers_of_their_tenant() {
    let systems = Systems::start().await;
    let zeta = {
        let printed = ["key", "create", "--tenant", "zeta", "--name", "system", "--scopes", ALL_SCOPES];
        ApiKey::of("zeta", &systems.outbound.world.connectctl.json(&printed).await)
    };
    let add = ["member", "add", "--tenant", "zeta", "--email", "asha@acme.test", "--name", "Asha"];
    systems.outbound.world.connectctl.json(&add).await;
    systems.send(&zeta, "site", event("enquiry.submitted").tenant("zeta")).await;
    systems.send(&zeta, "site", event("booking.started").tenant("zeta")).await;
    let came = systems.outbound.take_received().await;
    let heard: Vec<_> = came.iter().map(|webhook| (webhook.path(), webhook.header("x-connect-event"))).collect();
    assert_eq!(heard, [("/zeta", "lead.assigned"), ("/zeta", "lead.stage_changed")]);
    for webhook in &came {
        let expected = (zeta.tenant.as_str(), &json!(zeta.tenant));
        assert_eq!((webhook.header("x-connect-tenant"), &webhook.json()["tenant"]), expected);
    }
    systems.send(&systems.partner, "elsewhere", event("enquiry.submitted")).await;
    assert!(systems.take_deliveries().await.iter().all(|heard| !heard.starts_with("/zeta")));
}

#[tokio::test]
async fn repeated_requests_are_delivered_once() {
    let outbound = OutboundWorld::shared().await;
    outbound.subscribe("/hooks", &[]).await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    let booking = event("booking.completed").email("ana@example.com").payload(json!({"bookingRef": "BR-1"}));
    for expected in ["accepted", "duplicate"] {
        for result in outbound.world.results(&[enquiry.clone(), booking.clone()]).await {
            assert_eq!(result["status"], expected);
        }
    }
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    for replayed in ["", "true"] {
        let request = outbound.world.key.records("POST", &format!("{RECORDS}/leads"), body.clone());
        let response = outbound.world.http().send(&request.with("idempotency-key", "k-1")).await;
        assert_eq!((response.status, response.header("idempotent-replayed")), (201, replayed));
    }
    let came = outbound.take_received().await;
    let types: Vec<&str> = came.iter().map(|webhook| webhook.header("x-connect-event")).collect();
    assert_eq!(types, ["lead.assigned", "lead.stage_changed", "booking.confirmed", "lead.assigned"]);
}
