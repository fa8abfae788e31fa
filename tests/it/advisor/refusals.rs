//! Well-formed actions that are not allowed: an error reply where the sender waits for one, and no dead letter.

use super::{act, act_refused, action, open_lead, open_lead_without_trip, stored_records, until_settled};
use serde_json::{Value, json};
use tests::{World, until_equal};

const NOBODY: &str = "0190a5b2-0000-7000-8000-000000000001";

/// One action of each kind that names a lead.
fn actions_on_lead(lead: &Value) -> Vec<Value> {
    vec![
        action("assign", json!({"lead": lead, "owner": "asha@acme.test"})),
        action("stage", json!({"lead": lead, "stage": "follow_up"})),
        action("archive", json!({"lead": lead})),
        action("travelled", json!({"lead": lead})),
        action(
            "proposal-send",
            json!({"lead": lead, "title": "T", "url": "https://a.b/", "channel": "email"}),
        ),
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
    let of_trips = actions_on_lead(&without).into_iter().filter(|body| {
        ["proposal-send", "proposal-view", "proposal-discard"].contains(&tests::text(&body["action"]))
    });
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
    let same_ref =
        json!({"tenant": zeta.tenant.to_uppercase(), "lead": theirs["leadId"], "bookingRef": "BR-1"});
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
    until_settled(&world, 1).await;
    world.database.execute("DROP FUNCTION refuse CASCADE").await;
    // Once requeued, it is applied.
    let kept = world.queues.take("crm.dead").await.expect("the dead letter");
    world.queues.publish_message("crm", &kept).await;
    until_equal("it is archived", "archived", async || super::lead(&world, &opened).await["stage"].clone())
        .await;
}
