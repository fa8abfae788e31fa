//! `connectctl advisor`.

use super::{event_types, lead, take_emitted, trip};
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase, UNREACHED_RECEIVER, World, text};

/// Runs an action of `acme`, which must succeed, and returns its result.
async fn act(world: &World, line: &str) -> Value {
    let reply = world.connectctl.json(&words(line)).await;
    assert_eq!(reply["ok"], true, "{line}: {reply}");
    reply
}

/// The arguments of an action of `acme`, none of which has a blank in it.
fn words(line: &str) -> Vec<&str> {
    ["advisor"].into_iter().chain(line.split(' ')).chain(["--tenant", "acme"]).collect()
}

/// Runs an action that must fail, and returns what it prints on standard error.
async fn act_refused(connectctl: &Connectctl, line: &str) -> String {
    let ran = connectctl.run(&[&words(line)[..], &["--json"]].concat()).await;
    assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{line}: {ran:?}");
    assert_eq!(ran.errors.lines().count(), 1, "{line}: {ran:?}");
    ran.errors.trim_start_matches("connectctl: ").trim_end().to_owned()
}

#[tokio::test]
async fn every_action_on_a_lead_works_from_the_command_line() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let opened = act(&world, "open-lead --email ana@example.com --name Ana --title Sun --destination Goa").await;
    let id = text(&opened["leadId"]);
    let on_lead = async |action: &str, options: &str| act(&world, &format!("{action} --lead {id}{options}")).await;
    let shown = lead(&world, &opened).await;
    assert_eq!((&shown["title"], &shown["destination"]), (&json!("Sun"), &json!("Goa")));
    let client = format!("open-lead --client {} --no-trip", text(&opened["clientId"]));
    let client = act(&world, &client).await;
    assert_eq!((&client["clientId"], client.get("tripId")), (&opened["clientId"], None));
    let other = if shown["owner"]["email"] == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
    on_lead("assign", &format!(" --owner {other}")).await;
    assert_eq!(lead(&world, &opened).await["owner"]["email"], other);
    on_lead("stage", " --stage negotiation --reason undecided").await;
    let send = " --title Goa --url https://proposals.example/p/1 --channel email";
    assert_eq!(on_lead("proposal-send", send).await["proposalId"], opened["proposalId"]);
    for (action, status) in [("proposal-view", "viewed"), ("proposal-discard", "discarded")] {
        on_lead(action, "").await;
        assert_eq!(trip(&world, &opened).await["proposal"]["status"], status);
    }
    let booked = " --booking-ref BR-1 --amount 1234.50 --currency INR --credit-used 99.9";
    assert_eq!(on_lead("booking-confirm", booked).await["bookingRef"], "BR-1");
    let [invoice] = &world.invoices(&opened["leadId"]).await[..] else { panic!("one invoice") };
    assert_eq!((&invoice["amount"], &invoice["creditUsed"]), (&json!(1234.5), &json!(99.9)));
    act(&world, "booking-cancel --booking-ref BR-1 --reason illness").await;
    for (action, stage) in [("travelled", "travelled"), ("archive", "archived")] {
        assert_eq!(on_lead(action, "").await["stage"], stage);
    }
    let expected = "lead.assigned lead.assigned lead.assigned lead.stage_changed proposal.sent \
        proposal.viewed lead.stage_changed booking.confirmed booking.cancelled lead.stage_changed lead.stage_changed";
    assert_eq!(event_types(&take_emitted(&world).await), expected.split(' ').collect::<Vec<_>>());
}

#[tokio::test]
async fn a_refused_action_exits_with_one_and_explains_on_standard_error() {
    let world = World::shared().await;
    let opened = act(&world, "open-lead --email ana@example.com --no-trip").await;
    let id = text(&opened["leadId"]);
    let booking = format!("booking-confirm --lead {id} --booking-ref B --amount 1,50 --currency EUR");
    for (line, error) in [
        ("archive --lead none", "404 not_found: "),
        (&format!("stage --lead {id} --stage won"), "400 invalid_request: stage: must be one of "),
        (&format!("proposal-view --lead {id}"), "409 trip_not_open: "),
        (&booking, "400 invalid_request: amount: must be a number"),
    ] {
        let said = act_refused(&world.connectctl, line).await;
        assert!(said.starts_with(error), "{line}: {said}");
    }
}

#[tokio::test]
async fn needs_the_settings_of_broker_and_database() {
    let world = World::shared().await;
    let settings = world.settings().iter().filter(|(name, _)| {
        ["AMQP_URL", "CONNECT_QUEUE_PREFIX", "CONNECT_MASTER_KEY", "DATABASE_URL"].contains(&name.as_str())
    });
    let connectctl = Connectctl::with(settings.cloned().collect());
    let reply = connectctl.json(&words("open-lead --email ana@example.com")).await;
    assert_eq!(world.lead(&reply["leadId"]).await["stage"], "inquiry");
    for missing in ["AMQP_URL", "DATABASE_URL"] {
        let refusal = act_refused(&connectctl.without(missing), "archive --lead 1").await;
        assert!(refusal.contains(missing), "{refusal}");
    }
}

#[tokio::test]
async fn without_a_reply_prints_the_message_id_for_a_safe_retry() {
    let mut world = World::with().workers(0).start().await;
    let open = "open-lead --email ana@example.com --timeout";
    let said = act_refused(&world.connectctl, &format!("{open} 5s")).await;
    let (_, id) = said.rsplit_once(" --message-id ").unwrap_or_else(|| panic!("{said}"));
    // The action stays in the queue.
    world.until_depth("crm", 1).await;
    world.add_worker().await;
    let again = act(&world, &format!("{open} 20s --message-id {id}")).await;
    let [only] = &world.pipeline(&[]).await[..] else { panic!("one lead") };
    assert_eq!(only["id"], again["leadId"]);
    super::until_settled(&world, 0).await;
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1);
}

#[tokio::test]
async fn an_unreachable_broker_is_reported_without_its_password() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url()).and("AMQP_URL", "amqp://connect:hunter2@127.0.0.1:1/%2f");
    let said = act_refused(&connectctl, "archive --lead 1 --timeout 500ms").await;
    assert_eq!(said, "the broker cannot be reached; nothing was published");
}
