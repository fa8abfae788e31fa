//! Values that are written in several ways and count alike: addresses and domains (D37), digits (D36), numbers (D38),
//! instants (D39), blank texts and ids with blanks (D40).

use crate::events::warnings;
use crate::records::{data, get, new_client, new_lead, patch, post, trip_route};
use serde_json::{Value, json};
use tests::{Event, World, event, text};

/// Creates a company account.
async fn company(world: &World, domain: &str) -> Result<Value, String> {
    let create = ["company", "create", "--tenant", "acme", "--name", "Corp", "--domain", domain];
    let ran = world.connectctl.run(&[&create[..], &["--json"]].concat()).await;
    if ran.code == Some(0) { Ok(ran.json()["clientId"].clone()) } else { Err(ran.errors) }
}

fn enquiry(payload: Value) -> Event {
    event("enquiry.submitted").email("ana@example.com").payload(payload)
}

#[tokio::test]
async fn phones_compare_by_the_digits_of_every_script() {
    let world = World::shared().await;
    let seven = new_client(&world, json!({"phone": "7", "name": "Seven"})).await;
    let arabic = world.accept(event("contact.identified").phone("٠٧").name("Zero Seven")).await;
    assert_ne!(arabic["clientId"], seven["id"]);
    for same in ["०७", "０７", "0-7"] {
        let again = world.accept(event("contact.identified").phone(same)).await;
        assert_eq!(again["clientId"], arabic["clientId"], "{same}");
    }
    let other = world.accept(event("contact.identified").phone("٠٧ (7)").name("Other")).await;
    assert!(other["clientId"] != seven["id"] && other["clientId"] != arabic["clientId"], "{other}");
    let found = data(&get(&world, "/clients?phone=%D9%A0%D9%A7").await, 200);
    assert_eq!(found[0]["id"], arabic["clientId"]);
    assert_eq!(found[0]["phone"], "0-7", "the phone is shown as it was sent last");
    let both = world.accept(event("contact.identified").email("p@example.org").phone("０１２")).await;
    assert_eq!(world.client(&both["clientId"]).await["phone_digits"], "012");
}

#[tokio::test]
async fn addresses_of_any_script_are_accepted_and_spellings_of_one_find_one_client() {
    let world = World::shared().await;
    let mut events = Vec::new();
    for address in ["संपर्क@डाटामेल.भारत", "ผู้ใช้@ตัวอย่าง.ไทย", "x@col·lecció.cat", "😀@example.org"]
    {
        events.push(event("contact.identified").email(address));
    }
    for result in world.results(&events).await {
        assert_eq!(result["status"], "accepted", "{result}");
    }
    for (one, other) in [
        ("e@münchen.example", "E@XN--mnchen-3ya.example"),
        ("jose\u{301}@example.org", "JOSÉ@example.org"),
        ("\u{212a}im@example.org", "kim@example.org"),
    ] {
        let first = new_client(&world, json!({"email": one})).await;
        let second = world.accept(event("contact.identified").email(other)).await;
        assert_eq!(second["clientId"], first["id"], "{one} {other}");
        assert_eq!(first["email"], one, "the address is shown as it was sent");
    }
    let sharp = new_client(&world, json!({"email": "a@faß.example"})).await;
    let double = new_client(&world, json!({"email": "a@fass.example"})).await;
    assert_ne!(sharp["id"], double["id"]);
}

#[tokio::test]
async fn a_companys_domain_has_one_spelling_and_a_mailbox_providers_is_refused() {
    let world = World::shared().await;
    company(&world, "münchen.example").await.expect("an account");
    let person = new_client(&world, json!({"email": "b@xn--mnchen-3ya.example"})).await;
    assert_eq!(person["company"], "Corp");
    assert!(company(&world, "XN--mnchen-3ya.example").await.is_err(), "the domain has an account");
    for provider in ["yahoo.com.au", "foxmail.com", "hotmail.se", "att.net"] {
        let error = company(&world, provider).await.expect_err(provider);
        assert!(error.contains("free mailbox provider"), "{error}");
    }
}

#[tokio::test]
async fn a_mailbox_provider_of_the_operator_is_no_companys() {
    let world = World::with().set("CONNECT_MAILBOX_PROVIDERS", "mail.example, bücher.example").start().await;
    for provider in ["mail.example", "xn--bcher-kva.example"] {
        assert!(company(&world, provider).await.is_err(), "{provider}");
    }
    let unknown = world.result(event("contact.updated").email("ana@mail.example").name("Ana")).await;
    assert_eq!(unknown["error"], "contact_not_found");
}

#[tokio::test]
async fn whole_numbers_count_by_their_value_in_records_and_events() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    for (adults, stored) in [("2.0", 2), ("2e0", 2), ("0.0", 0), ("-0.0", 0), ("-0e5", 0)] {
        let body: Value = serde_json::from_str(&format!("{{\"party\": {{\"adults\": {adults}}}}}")).expect("JSON");
        let trip = data(&patch(&world, &trip_route(&lead), body).await, 200);
        assert_eq!(trip["party"]["adults"], stored, "{adults}");
    }
    let refused = patch(&world, &trip_route(&lead), json!({"party": {"adults": 2.5}})).await;
    assert_eq!(refused.status, 400);
    let sent = world.accept(enquiry(json!({"party": {"adults": 2.0, "children": 1.0, "childAges": [7.0]}}))).await;
    assert!(warnings(&sent).is_empty(), "{sent}");
    let party = &world.lead(&sent["leadId"]).await["party"];
    assert_eq!((&party["adults"], &party["childAges"]), (&json!(2), &json!([7])));
    let pax = world.accept(enquiry(json!({"paxCount": 3.0}))).await;
    assert_eq!(world.lead(&pax["leadId"]).await["party"]["adults"], 3);
    let half = world.accept(enquiry(json!({"paxCount": 2.5}))).await;
    assert_eq!(warnings(&half), ["brief_field_rejected:paxCount"]);
}

#[tokio::test]
async fn an_amount_has_at_most_15_significant_digits() {
    let world = World::shared().await;
    let long = json!({"budget": {"amount": 1_234_567_890.123_456_7, "currency": "INR"}});
    let lead = new_lead(&world, json!({})).await;
    assert_eq!(patch(&world, &trip_route(&lead), long.clone()).await.status, 400);
    assert_eq!(warnings(&world.accept(enquiry(long)).await), ["brief_field_rejected:budget"]);
    let exact = json!({"budget": {"amount": 123_456_789_012.345, "currency": "INR"}});
    let expected = 123_456_789_012.345;
    assert_eq!(data(&patch(&world, &trip_route(&lead), exact).await, 200)["budget"]["amount"], expected);
}

#[tokio::test]
async fn instants_have_one_reader() {
    let world = World::shared().await;
    let credit = |as_of: &str| {
        let payload = json!({"membershipId": "m", "availablePaise": 100.0, "asOf": as_of});
        event("employee.credit_updated").email("ana@example.com").payload(payload)
    };
    for wrong in [
        "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00", "2026-01-01T10:00:00\u{2212}05:00",
        "2026-01-01 10:00:00Z",
    ] {
        assert_eq!(warnings(&world.accept(credit(wrong)).await), ["credit_field_rejected:asOf"], "{wrong}");
        let at = event("contact.identified").email("a@b.example").with("occurredAt", json!(wrong));
        assert_eq!(world.send(&[at]).await.status, 400, "{wrong}");
        let audit = world.connectctl.run(&["audit", "--tenant", "acme", "--from", wrong]).await;
        assert_eq!(audit.code, Some(2), "{wrong}: {audit:?}");
    }
    assert!(warnings(&world.accept(credit("2026-01-01T10:00:00-05:00")).await).is_empty());
}

#[tokio::test]
async fn invisible_texts_are_empty() {
    let world = World::shared().await;
    for blank in ["\u{200b}", "\u{feff} ", "\u{3164}", "\u{2060}\u{ad}"] {
        assert_eq!(post(&world, "/clients", json!({"externalId": blank})).await.status, 400, "{blank:?}");
        let nobody = event("contact.identified").external_id(blank);
        assert_eq!(world.send(&[nobody]).await.status, 400, "{blank:?}");
        let named = world.accept(event("contact.identified").email("ana@example.com").name(blank)).await;
        assert_ne!(world.client(&named["clientId"]).await["name"], blank);
        let find = format!("/clients?externalId={}", crate::console::encoded(blank));
        assert_eq!(get(&world, &find).await.json()["code"], "lookup_field_required", "{blank:?}");
    }
}

#[tokio::test]
async fn an_id_is_found_exactly_as_it_was_sent() {
    let world = World::shared().await;
    let id = format!("  spaced-{}", uuid::Uuid::now_v7());
    world.accept(event("contact.identified").email("ana@example.com").id(&id)).await;
    assert!(!world.connectctl.list(&["find", &id, "--tenant", "acme"]).await.is_empty());
    assert!(world.connectctl.list(&["find", id.trim(), "--tenant", "acme"]).await.is_empty());
    let plain = event("contact.identified").email("ana@example.com");
    world.accept(plain.clone()).await;
    let pasted = format!(" {} ", plain.event_id());
    assert!(!world.connectctl.list(&["find", &pasted, "--tenant", "acme"]).await.is_empty());
}

#[tokio::test]
async fn a_raw_plus_in_a_look_up_is_refused_with_its_escape() {
    let world = World::shared().await;
    let client = new_client(&world, json!({"email": "ana+goa@example.com"})).await;
    new_client(&world, json!({"email": "goa@example.com"})).await;
    for sent in ["ana+goa@example.com", "+goa@example.com", "goa@example.com+"] {
        let raw = get(&world, &format!("/clients?email={sent}")).await;
        assert_eq!((raw.status, raw.json()["code"].clone()), (400, json!("invalid_request")), "{sent}");
        assert!(text(&raw.json()["message"]).contains("%2B"), "{raw:?}");
    }
    let found = data(&get(&world, "/clients?email=ana%2Bgoa@example.com").await, 200);
    assert_eq!(found[0]["id"], client["id"]);
    assert_eq!(data(&get(&world, "/clients?email=nobody").await, 200), json!([]));
}
