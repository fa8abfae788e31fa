//! Well-formed actions that aren't allowed: answered where an answer is wanted, and no poison where not.

use super::{action, counted, done, opened, opened_without_trip, records, refused, until_settled};
use serde_json::{Value, json};
use tests::{PATIENCE, World, eventually};

const NOBODY: &str = "0190a5b2-0000-7000-8000-000000000001";

/// An action of each kind that names an enquiry.
fn of_lead(lead: &Value) -> Vec<Value> {
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

/// Actions that are refused, each with status and code.
async fn refusals(world: &World) -> Vec<(Value, u16, &'static str)> {
    let with_trip = opened(world).await["leadId"].clone();
    let without = opened_without_trip(world).await["leadId"].clone();
    done(world, "booking-confirm", json!({"lead": without, "bookingRef": "BR-1"})).await;
    let mut all = Vec::new();
    for unknown in [json!(NOBODY), json!("no id")] {
        all.extend(of_lead(&unknown).into_iter().map(|body| (body, 404, "not_found")));
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
    let of_trips = of_lead(&without).into_iter().filter(|body| {
        ["proposal-send", "proposal-view", "proposal-discard"].contains(&tests::text(&body["action"]))
    });
    all.extend(of_trips.map(|body| (body, 409, "trip_not_open")));
    all.push((action("proposal-view", json!({"lead": with_trip})), 422, "proposal_not_sent"));
    let taken = json!({"lead": with_trip, "bookingRef": "BR-1"});
    all.push((action("booking-confirm", taken), 409, "booking_ref_conflict"));
    all
}

#[tokio::test]
async fn every_refusal_is_answered_like_the_records_routes_do_and_leaves_no_trace() {
    let world = World::start().await;
    let refusals = refusals(&world).await;
    let before = records(&world).await;
    for (body, status, code) in &refusals {
        let answer = refused(&world, body, *status, code).await;
        let fields = answer.as_object().expect("an object").len();
        assert_eq!(fields, if *code == "booking_ref_conflict" { 4 } else { 3 }, "{answer}");
    }
    assert_eq!(records(&world).await, before);
    until_settled(&world, 0).await;
    assert_eq!(counted(&world, "refused").await as usize, refusals.len());
}

#[tokio::test]
async fn a_refusal_that_nobody_waits_for_is_no_dead_letter() {
    let world = World::start().await;
    let refusals = refusals(&world).await;
    let before = records(&world).await;
    for (body, ..) in &refusals {
        world.queues.publish("crm", body.to_string().as_bytes()).await;
    }
    eventually("all are refused", PATIENCE, async || match counted(&world, "refused").await as usize {
        found if found == refusals.len() => Ok(()),
        found => Err(format!("{found} of {}", refusals.len())),
    })
    .await;
    until_settled(&world, 0).await;
    assert_eq!(records(&world).await, before);
    assert!(world.workers[0].logs().contains("action refused"));
}

#[tokio::test]
async fn another_agencys_records_are_not_there() {
    let world = World::start().await;
    world.add_tenant("zeta").await;
    let of = opened(&world).await;
    done(&world, "booking-confirm", json!({"lead": of["leadId"], "bookingRef": "BR-1"})).await;
    let before = records(&world).await;
    let mut foreign = of_lead(&of["leadId"]);
    foreign.push(action("open-lead", json!({"client": of["clientId"]})));
    foreign.push(action("booking-cancel", json!({"bookingRef": "BR-1"})));
    for mut body in foreign {
        body["tenant"] = json!("zeta");
        refused(&world, &body, 404, "not_found").await;
    }
    assert_eq!(records(&world).await, before);
    // A reference is one agency's: the same one is free in another.
    let theirs = done(&world, "open-lead", json!({"tenant": "zeta", "email": "ana@example.com"})).await;
    let same_ref = json!({"tenant": "ZETA", "lead": theirs["leadId"], "bookingRef": "BR-1"});
    done(&world, "booking-confirm", same_ref).await;
    assert_ne!(theirs["clientId"], of["clientId"]);
}

#[tokio::test]
async fn an_action_that_fails_inside_is_answered_so_or_kept_as_a_dead_letter() {
    let world = World::start().await;
    let of = opened(&world).await;
    world
        .database
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'secret detail of the inside'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON leads FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let body = action("archive", json!({"lead": of["leadId"]}));
    let answer = refused(&world, &body, 500, "internal_error").await;
    assert!(!answer.to_string().contains("secret"), "{answer}");
    until_settled(&world, 0).await;
    world.queues.publish("crm", body.to_string().as_bytes()).await;
    until_settled(&world, 1).await;
    world.database.execute("DROP FUNCTION refuse CASCADE").await;
    // Put back, it is done.
    let kept = world.queues.take("crm.dead").await.expect("the dead letter");
    world.queues.put("crm", &kept).await;
    eventually("it is archived", PATIENCE, async || match super::lead(&world, &of).await["stage"].clone() {
        stage if stage == "archived" => Ok(()),
        stage => Err(stage.to_string()),
    })
    .await;
}
