//! Concurrent requests to several programs.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Event, World, batch, event};

/// Sends batches concurrently, spread over the ingests, and returns the results of each; each must get 200.
async fn send_at_once(world: &World, batches: &[Vec<Event>]) -> Vec<Vec<Value>> {
    let responses = batches.iter().zip(world.all_http().into_iter().cycle()).map(async |(events, http)| {
        let response = http.send(&world.key.events(batch(events))).await.assert_status(200);
        response.json()["results"].as_array().expect("results").clone()
    });
    join_all(responses).await
}

#[tokio::test]
async fn accepts_the_same_event_in_twenty_concurrent_batches_once() {
    let world = World::shared().await;
    let shared = event("enquiry.submitted").id("shared").email("ana@example.com");
    // Each batch holds events of its own, too, so that the units of work differ.
    let batches: Vec<_> = (0..20)
        .map(|i| {
            let own = event("contact.identified").email(&format!("{i}@example.com"));
            if i % 2 == 0 { vec![own, shared.clone()] } else { vec![shared.clone(), own] }
        })
        .collect();
    let results = send_at_once(&world, &batches).await.concat();
    let shared: Vec<_> = results.iter().filter(|result| result["eventId"] == "shared").collect();
    assert_eq!(shared.iter().filter(|result| result["status"] == "accepted").count(), 1);
    assert_eq!(shared.iter().filter(|result| result["status"] == "duplicate").count(), 19);
    assert!(shared.iter().all(|result| result["leadId"] == shared[0]["leadId"]), "{shared:?}");
    assert_eq!(world.pipeline(&[]).await.len(), 1);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 21);
}

#[tokio::test]
async fn fifty_concurrent_batches_of_one_new_person_create_one_client() {
    let world = World::shared().await;
    let kinds = [
        "contact.identified", "enquiry.submitted", "booking.started", "traveller.discovery_upserted", "quote.requested",
    ];
    let batches: Vec<_> = (0..50)
        .map(|i| {
            let email = if i % 2 == 0 { "ana@example.com" } else { "ANA@Example.com" };
            vec![event(kinds[i % kinds.len()]).email(email).external_id("p-1").phone("111")]
        })
        .collect();
    let results = send_at_once(&world, &batches).await.concat();
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    assert!(results.iter().all(|result| result["clientId"] == results[0]["clientId"]), "{results:?}");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(world.timeline(&results[0]["clientId"]).await.len(), 50);
}

#[tokio::test]
async fn fifty_concurrent_batches_of_one_new_phone_create_one_client() {
    let world = World::shared().await;
    let phones = ["+1 555 010", "1555010", "(1) 555-010"];
    let batches: Vec<_> = (0..50).map(|i| vec![event("enquiry.submitted").phone(phones[i % 3])]).collect();
    let results = send_at_once(&world, &batches).await.concat();
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 50);
}

#[tokio::test]
async fn concurrent_identities_of_one_person_end_as_clients_with_unique_identities() {
    let world = World::shared().await;
    let batches: Vec<_> = (0..30)
        .map(|i| {
            vec![match i % 3 {
                0 => event("contact.identified").email("ana@example.com").external_id("p-1"),
                1 => event("contact.identified").external_id("p-1").phone("111"),
                _ => event("contact.identified").phone("111"),
            }]
        })
        .collect();
    let results = send_at_once(&world, &batches).await.concat();
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    let by = |way: usize| results.iter().skip(way).step_by(3).map(|result| &result["clientId"]).collect::<Vec<_>>();
    for way in 0..2 {
        assert!(by(way).iter().all(|id| *id == by(way)[0]), "email and external id are unique: {results:?}");
    }
    assert!(world.database.count("SELECT count(*) FROM clients").await <= 3);
}

#[tokio::test]
async fn concurrent_leads_get_unique_enquiry_numbers_and_rotating_owners() {
    let world = World::shared().await;
    let batches: Vec<Vec<_>> = (0..20)
        .map(|i| (0..5).map(|j| event("enquiry.submitted").email(&format!("{i}-{j}@example.com"))).collect())
        .collect();
    let results = send_at_once(&world, &batches).await.concat();
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    let leads = world.pipeline(&[]).await;
    assert_eq!(leads.len(), 100);
    let mut numbers: Vec<_> = leads.iter().map(|lead| lead["enquiryNumber"].clone()).collect();
    numbers.sort_by_key(Value::to_string);
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
    for owner in ["asha@acme.test", "ben@acme.test"] {
        let owned = leads.iter().filter(|lead| lead["owner"]["email"] == owner).count();
        assert!((30..=70).contains(&owned), "{owner} has {owned} of 100");
    }
}

#[tokio::test]
async fn batches_that_touch_the_same_people_in_opposite_orders_all_succeed() {
    let world = World::shared().await;
    let batches: Vec<Vec<Event>> = (0..20)
        .map(|i| {
            let people = (0..20).map(|p| {
                event("enquiry.submitted").email(&format!("{p}@example.com")).external_id(&format!("x-{}", 19 - p))
            });
            if i % 2 == 0 { people.collect() } else { people.rev().collect() }
        })
        .collect();
    let results = send_at_once(&world, &batches).await.concat();
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 20);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 400);
}

#[tokio::test]
async fn concurrent_batches_of_two_tenants_do_not_mix() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let requests = (0..40).map(async |i| {
        let (key, slug) = if i % 2 == 0 { (&world.key, "acme") } else { (&zeta, "zeta") };
        let sent = event("enquiry.submitted").id(&format!("e-{}", i / 2)).tenant(slug).email("ana@example.com");
        let response = world.all_http()[i % 2].send(&key.events(batch(&[sent]))).await.json();
        assert_eq!(response["accepted"], json!(1), "{response}");
    });
    join_all(requests).await;
    let query = "SELECT slug, count(DISTINCT client_id) AS clients, count(*) AS leads FROM leads JOIN tenants USING (tenant_id) GROUP BY slug ORDER BY slug";
    let found = world.database.rows(query, &[]).await;
    let expected = ["acme", "zeta"].map(|name| json!({"slug": tests::slug(name), "clients": 1, "leads": 20}));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn keeps_all_concurrent_changes_to_different_fields_of_one_record() {
    let world = World::shared().await;
    for round in 0..5 {
        let ana = |kind: &str| event(kind).email(&format!("ana{round}@example.com"));
        let known_as = format!("x-{round}");
        let by_id = |kind: &str| event(kind).external_id(&known_as);
        let opened = world.accept(ana("enquiry.submitted").external_id(&known_as)).await;
        let discovery = |payload: Value| ana("traveller.discovery_upserted").payload(payload);
        let batches = [
            vec![ana("contact.updated").name("Ana Silva")],
            vec![by_id("contact.updated").phone("999")],
            vec![ana("booking.started")],
            vec![by_id("booking.abandoned")],
            vec![discovery(json!({"discovery": {"pax": 5}}))],
            vec![discovery(json!({"discovery": {"tripNotes": "sea"}}))],
            vec![discovery(json!({"essence": "calm"}))],
        ];
        let results = send_at_once(&world, &batches).await.concat();
        assert!(results.iter().all(|result| result["clientId"] == opened["clientId"]), "{results:?}");
        let client = world.client(&opened["clientId"]).await;
        assert_eq!((&client["name"], &client["phone"]), (&json!("Ana Silva"), &json!("999")));
        let lead = world.lead(&opened["leadId"]).await;
        assert_eq!((&lead["stage"], &lead["followUp"]), (&json!("proposal_approved"), &json!(true)));
        let [record] = &world.discovery(&opened["clientId"]).await[..] else { panic!("one record") };
        assert_eq!(record["discovery"], json!({"pax": 5, "tripNotes": "sea"}));
        assert_eq!(record["essence"], "calm");
    }
}
