//! Actions that are not applied: an error reply where the sender waits for one. Without a sender that waits, a
//! malformed message is dead-lettered, and a well-formed action that is not allowed is dropped.

use super::{
    act, act_refused, action, count_actions, open_lead, open_lead_without_trip, send_message, stored_records,
    until_settled,
};
use serde_json::{Value, json};
use tests::{QueuedMessage, World, text, until_equal};

const NOBODY: &str = "0190a5b2-0000-7000-8000-000000000001";

fn actions_on_lead(lead: &Value) -> Vec<Value> {
    vec![
        action("assign", json!({"lead": lead, "owner": "asha@acme.test"})),
        action("stage", json!({"lead": lead, "stage": "follow_up"})),
        action("archive", json!({"lead": lead})),
        action("travelled", json!({"lead": lead})),
        action("proposal-send", json!({"lead": lead, "title": "T", "url": "https://a.b/", "channel": "email"})),
        action("proposal-view", json!({"lead": lead})),
        action("proposal-discard", json!({"lead": lead})),
        action("booking-confirm", json!({"lead": lead, "bookingRef": "BR-9"})),
    ]
}

/// Actions that must be refused. Each has its status and code.
pub(super) async fn refusals(world: &World) -> Vec<(Value, u16, &'static str)> {
    let with_trip = open_lead(world).await["leadId"].clone();
    let without = open_lead_without_trip(world).await["leadId"].clone();
    act(world, "booking-confirm", json!({"lead": without, "bookingRef": "BR-1"})).await;
    let mut all = Vec::new();
    for unknown in [json!(NOBODY), json!("no id")] {
        all.extend(actions_on_lead(&unknown).into_iter().map(|body| (body, 404, "not_found")));
        all.push((action("open-lead", json!({"client": unknown})), 404, "not_found"));
    }
    let mut of_nobody = action("open-lead", json!({"email": "ana@example.com"}));
    of_nobody["tenant"] = json!("nobody");
    all.push((of_nobody, 404, "not_found"));
    all.push((action("booking-cancel", json!({"bookingRef": "BR-9"})), 404, "not_found"));
    let stranger = json!({"lead": with_trip, "owner": "stranger@acme.test"});
    all.push((action("assign", stranger), 422, "owner_not_member"));
    for reason in ["", "1234", " 1234 "] {
        let lost = json!({"lead": with_trip, "stage": "lost", "reason": reason});
        all.push((action("stage", lost), 422, "reason_required"));
    }
    all.push((action("stage", json!({"lead": with_trip, "stage": "lost"})), 422, "reason_required"));
    for stage in ["building_proposal", "negotiation"] {
        all.push((action("stage", json!({"lead": without, "stage": stage})), 422, "stage_not_allowed"));
    }
    let of_trips = actions_on_lead(&without)
        .into_iter()
        .filter(|body| ["proposal-send", "proposal-view", "proposal-discard"].contains(&tests::text(&body["action"])));
    all.extend(of_trips.map(|body| (body, 409, "trip_not_open")));
    all.push((action("proposal-view", json!({"lead": with_trip})), 422, "proposal_not_sent"));
    let taken = json!({"lead": with_trip, "bookingRef": "BR-1"});
    all.push((action("booking-confirm", taken), 409, "booking_ref_conflict"));
    act(world, "booking-confirm", json!({"lead": without, "bookingRef": "BR-2"})).await;
    act(world, "booking-cancel", json!({"bookingRef": "BR-2"})).await;
    // The reference of a cancelled booking is not used again, for no lead.
    for lead in [with_trip, without] {
        let cancelled = json!({"lead": lead, "bookingRef": "BR-2"});
        all.push((action("booking-confirm", cancelled), 409, "booking_cancelled"));
    }
    all
}

#[tokio::test]
async fn every_refusal_gets_the_error_of_the_records_routes_and_changes_nothing() {
    let world = World::shared().await;
    let refusals = refusals(&world).await;
    let before = stored_records(&world).await;
    for (body, status, code) in &refusals {
        let reply = act_refused(&world, body, *status, code).await;
        let fields = reply.as_object().expect("an object").len();
        assert_eq!(fields, if code.starts_with("booking_") { 4 } else { 3 }, "{reply}");
    }
    assert_eq!(stored_records(&world).await, before);
}

#[tokio::test]
async fn records_of_another_tenant_are_not_found() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let opened = open_lead(&world).await;
    act(&world, "booking-confirm", json!({"lead": opened["leadId"], "bookingRef": "BR-1"})).await;
    let before = stored_records(&world).await;
    let mut foreign = actions_on_lead(&opened["leadId"]);
    foreign.push(action("open-lead", json!({"client": opened["clientId"]})));
    foreign.push(action("booking-cancel", json!({"bookingRef": "BR-1"})));
    for mut body in foreign {
        body["tenant"] = json!(zeta.tenant);
        act_refused(&world, &body, 404, "not_found").await;
    }
    assert_eq!(stored_records(&world).await, before);
    // A booking reference belongs to one tenant: another tenant can use the same one.
    let theirs = act(&world, "open-lead", json!({"tenant": zeta.tenant, "email": "ana@example.com"})).await;
    let same_ref = json!({"tenant": zeta.tenant.to_uppercase(), "lead": theirs["leadId"], "bookingRef": "BR-1"});
    act(&world, "booking-confirm", same_ref).await;
    assert_ne!(theirs["clientId"], opened["clientId"]);
}

#[tokio::test]
async fn an_action_with_an_internal_error_gets_a_500_reply_or_is_dead_lettered() {
    let world = World::start().await;
    let opened = open_lead(&world).await;
    let create = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RAISE 'secret detail of the inside'; END $$;
     CREATE TRIGGER refuse BEFORE UPDATE ON leads FOR EACH ROW EXECUTE FUNCTION refuse()";
    world.database.execute(create).await;
    let body = action("archive", json!({"lead": opened["leadId"]}));
    let reply = act_refused(&world, &body, 500, "internal_error").await;
    assert!(!reply.to_string().contains("secret"), "{reply}");
    until_settled(&world, 0).await;
    world.queues.publish("crm", body.to_string().as_bytes()).await;
    // A later action of the tenant is applied meanwhile.
    open_lead(&world).await;
    until_settled(&world, 1).await;
    world.database.execute("DROP FUNCTION refuse CASCADE").await;
    // Once requeued, it is applied.
    let kept = world.queues.take("crm.dead").await.expect("the dead letter");
    world.queues.publish_message("crm", &kept).await;
    until_equal("it is archived", "archived", async || super::lead(&world, &opened).await["stage"].clone()).await;
}

/// Bodies that are not actions, each with the beginning of its error message.
fn malformed(lead: &Value) -> Vec<(Vec<u8>, &'static str)> {
    let body = |name, fields| action(name, fields).to_string().into_bytes();
    let nul = r#"{"action": "archive", "tenant": "acme", "lead": "a\u0000b"}"#;
    let twice = r#"{"action": "archive", "tenant": "acme", "lead": "1", "lead": "2"}"#;
    let mut long = body("archive", json!({ "lead": lead }));
    long.resize(64 * 1024 + 1, b' ');
    vec![
        (b"".to_vec(), "body: is empty"),
        (b"\xff\xfe\x00".to_vec(), "body: is not valid JSON"),
        (b"not json".to_vec(), "body: is not valid JSON"),
        (b"[1, 2]".to_vec(), "body: must be an object"),
        (b"{}".to_vec(), "tenant: is required; action: is required"),
        (long, "body: must have at most 64 KiB"),
        (nul.as_bytes().to_vec(), "body: must not contain a NUL character"),
        (twice.as_bytes().to_vec(), "lead: is given more than once"),
        (br#"{"action": "archive", "lead": "1"}"#.to_vec(), "tenant: is required"),
        (body("delete-everything", json!({ "lead": lead })), "action: must be one of open-lead, assign"),
        (body("archive", json!({})), "lead: is required"),
        (body("archive", json!({"lead": null})), "lead: must not be null"),
        (body("archive", json!({"lead": lead, "reason": "x"})), "reason: is not a known field"),
        (body("open-lead", json!({"name": "Ana"})), "body: must have either client or email"),
        (body("open-lead", json!({"email": "ana"})), "email: must be an email address"),
        (body("open-lead", json!({"email": "a@b.example", "noTrip": 1})), "noTrip: must be true or false"),
        (body("assign", json!({ "lead": lead })), "owner: is required"),
        (body("stage", json!({"lead": lead, "stage": "won"})), "stage: must be one of inquiry"),
        (body("proposal-send", json!({"lead": lead, "title": "T", "url": "x", "channel": "email"})), "url: must"),
        (body("booking-confirm", json!({ "lead": lead })), "bookingRef: is required"),
        (
            body("booking-confirm", json!({"lead": lead, "bookingRef": "B", "amount": "ten", "currency": "INR"})),
            "amount: must be a number",
        ),
        (
            body("booking-confirm", json!({"lead": lead, "bookingRef": "B", "amount": 10})),
            "currency: is required with amount",
        ),
        (body("booking-cancel", json!({"reason": "x"})), "bookingRef: is required"),
    ]
}

#[tokio::test]
async fn with_a_reply_queue_a_malformed_action_gets_every_fault_with_its_place() {
    let world = World::shared().await;
    let lead = open_lead(&world).await["leadId"].clone();
    let before = stored_records(&world).await;
    let malformed = malformed(&lead);
    for (body, fault) in &malformed {
        let reply = send_message(&world, &QueuedMessage::new(body)).await;
        assert_eq!((&reply["statusCode"], &reply["code"]), (&json!(400), &json!("invalid_request")));
        assert!(text(&reply["message"]).starts_with(fault), "{fault}: {reply}");
    }
    assert_eq!(stored_records(&world).await, before);
}

#[tokio::test]
async fn without_a_reply_queue_malformed_actions_are_dead_lettered_unchanged_and_refused_ones_are_not() {
    let world = World::start().await;
    let lead = open_lead(&world).await["leadId"].clone();
    let before = stored_records(&world).await;
    let mut sent: Vec<Vec<u8>> = malformed(&lead).into_iter().map(|(body, _)| body).collect();
    for body in &sent {
        world.queues.publish("crm", body).await;
    }
    until_settled(&world, u32::try_from(sent.len()).expect("few")).await;
    assert_eq!(count_actions(&world, "malformed").await as usize, sent.len());
    assert_eq!(stored_records(&world).await, before);
    let mut kept = Vec::new();
    while let Some(message) = world.queues.take("crm.dead").await {
        kept.push(message.body);
    }
    kept.sort();
    sent.sort();
    assert!(kept == sent, "as they were sent");

    let refusals = refusals(&world).await;
    let before = stored_records(&world).await;
    for (body, ..) in &refusals {
        world.queues.publish("crm", body.to_string().as_bytes()).await;
    }
    until_equal("all are refused", refusals.len(), async || count_actions(&world, "refused").await as usize).await;
    until_settled(&world, 0).await;
    assert_eq!(stored_records(&world).await, before);
    let said = "advisor action refused; replying with the reason if a reply is wanted";
    assert!(world.workers[0].logs().contains(said));
}

#[tokio::test]
async fn rejects_an_unstorable_message_id_and_accepts_a_blank_one() {
    let world = World::shared().await;
    let body = action("open-lead", json!({"email": "ana@example.com"})).to_string();
    let message = QueuedMessage::new(body.as_bytes());
    let reply = send_message(&world, &message.clone().with_id("a\0b")).await;
    assert_eq!((&reply["code"], &reply["statusCode"]), (&json!("invalid_request"), &json!(400)));
    for _ in 0..2 {
        assert_eq!(send_message(&world, &message.clone().with_id(" ")).await["ok"], true);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
}
