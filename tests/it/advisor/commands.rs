//! `connectctl advisor`.

use super::{emitted, lead, subscribe, trip, types};
use serde_json::{Value, json};
use tests::{Connectctl, World, text};

/// Runs an action of `acme`'s that must be done, and gives the answer.
async fn done(world: &World, words: &[&str]) -> Value {
    let answer = world.connectctl.json(&[&["advisor"], words, &["--tenant", "acme"]].concat()).await;
    assert_eq!(answer["ok"], true, "{words:?}: {answer}");
    answer
}

/// Runs an action that must be refused, and gives what stands on standard error.
async fn refused(connectctl: &Connectctl, words: &[&str]) -> String {
    let ran = connectctl.run(&[&["advisor"], words, &["--tenant", "acme", "--json"]].concat()).await;
    assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{words:?}: {ran:?}");
    assert_eq!(ran.errors.lines().count(), 1, "{words:?}: {ran:?}");
    ran.errors.trim_start_matches("connectctl: ").trim_end().to_owned()
}

#[tokio::test]
async fn an_enquirys_whole_life_is_led_from_the_command_line() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = done(
        &world,
        &[
            "open-lead",
            "--email",
            "ana@example.com",
            "--name",
            "Ana",
            "--title",
            "Sun",
            "--destination",
            "Goa",
        ],
    )
    .await;
    let id = text(&of["leadId"]);
    let shown = lead(&world, &of).await;
    assert_eq!((&shown["title"], &shown["destination"]), (&json!("Sun"), &json!("Goa")));
    let client = done(&world, &["open-lead", "--client", text(&of["clientId"]), "--no-trip"]).await;
    assert_eq!((&client["clientId"], client.get("tripId")), (&of["clientId"], None));
    let other = if shown["owner"]["email"] == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
    done(&world, &["assign", "--lead", id, "--owner", other]).await;
    assert_eq!(lead(&world, &of).await["owner"]["email"], other);
    done(&world, &["stage", "--lead", id, "--stage", "negotiation", "--reason", "They ask for more."]).await;
    let url = "https://proposals.example/p/1";
    let send = ["proposal-send", "--lead", id, "--title", "Goa", "--url", url, "--channel", "email"];
    assert_eq!(done(&world, &send).await["proposalId"], of["proposalId"]);
    done(&world, &["proposal-view", "--lead", id]).await;
    assert_eq!(trip(&world, &of).await["proposal"]["status"], "viewed");
    done(&world, &["proposal-discard", "--lead", id]).await;
    assert_eq!(trip(&world, &of).await["proposal"]["status"], "discarded");
    let booked = ["booking-confirm", "--lead", id, "--booking-ref", "BR-1"];
    let money = ["--amount", "1234.50", "--currency", "INR", "--credit-used", "99.9"];
    assert_eq!(done(&world, &[&booked[..], &money].concat()).await["bookingRef"], "BR-1");
    let [invoice] = &world.invoices(&of["leadId"]).await[..] else { panic!("one invoice") };
    assert_eq!((&invoice["amount"], &invoice["creditUsed"]), (&json!(1234.5), &json!(99.9)));
    done(&world, &["booking-cancel", "--booking-ref", "BR-1", "--reason", "illness"]).await;
    assert_eq!(done(&world, &["travelled", "--lead", id]).await["stage"], "travelled");
    assert_eq!(done(&world, &["archive", "--lead", id]).await["stage"], "archived");
    assert_eq!(
        types(&emitted(&world).await),
        [
            "lead.assigned",
            "lead.assigned",
            "lead.assigned",
            "lead.stage_changed",
            "proposal.sent",
            "proposal.viewed",
            "lead.stage_changed",
            "booking.confirmed",
            "booking.cancelled",
            "lead.stage_changed",
            "lead.stage_changed",
        ]
    );
}

#[tokio::test]
async fn what_is_refused_exits_with_one_and_says_why_on_standard_error() {
    let world = World::start().await;
    let of = done(&world, &["open-lead", "--email", "ana@example.com", "--no-trip"]).await;
    let id = text(&of["leadId"]);
    for (words, error) in [
        (&["archive", "--lead", "no id"][..], "404 not_found: "),
        (&["assign", "--lead", id, "--owner", "stranger@acme.test"], "422 owner_not_member: "),
        (&["stage", "--lead", id, "--stage", "lost"], "422 reason_required: "),
        (&["stage", "--lead", id, "--stage", "negotiation"], "422 stage_not_allowed: "),
        (&["stage", "--lead", id, "--stage", "won"], "400 invalid_request: stage: must be one of "),
        (&["proposal-view", "--lead", id], "409 trip_not_open: "),
        (&["booking-cancel", "--booking-ref", "BR-9"], "404 not_found: "),
        (
            &["booking-confirm", "--lead", id, "--booking-ref", "B", "--amount", "1,50", "--currency", "EUR"],
            "400 invalid_request: amount: must be a number",
        ),
    ] {
        let said = refused(&world.connectctl, words).await;
        assert!(said.starts_with(error), "{words:?}: {said}");
    }
    assert_eq!(world.queues.depth("crm.dead").await, 0);
}

#[tokio::test]
async fn people_see_a_table() {
    let world = World::start().await;
    let line = ["advisor", "open-lead", "--tenant", "acme", "--email", "ana@example.com"];
    let ran = world.connectctl.run(&line).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.output.contains("Lead") && ran.output.contains("inquiry"), "{ran:?}");
}

#[tokio::test]
async fn it_speaks_to_the_queue_only() {
    let world = World::start().await;
    let settings = world.settings().iter().filter(|(name, _)| {
        ["AMQP_URL", "CONNECT_QUEUE_PREFIX", "CONNECT_MASTER_KEY"].contains(&name.as_str())
    });
    let connectctl = Connectctl::with(settings.cloned().collect());
    let answer =
        connectctl.json(&["advisor", "open-lead", "--tenant", "acme", "--email", "ana@example.com"]).await;
    assert_eq!(world.lead(&answer["leadId"]).await["stage"], "inquiry");
    let nowhere = refused(&Connectctl::with(Vec::new()), &["archive", "--lead", "1"]).await;
    assert!(nowhere.contains("AMQP_URL"), "{nowhere}");
}

#[tokio::test]
async fn without_an_answer_it_says_with_which_id_to_repeat_it_and_that_is_safe() {
    let mut world = World::with().workers(0).start().await;
    let open = ["open-lead", "--email", "ana@example.com"];
    let said = refused(&world.connectctl, &[&open[..], &["--timeout", "5s"]].concat()).await;
    let (_, id) = said.rsplit_once(" --message-id ").unwrap_or_else(|| panic!("{said}"));
    // It is kept.
    world.until_depth("crm", 1).await;
    world.add_worker().await;
    let again = done(&world, &[&open[..], &["--message-id", id, "--timeout", "20s"]].concat()).await;
    let [only] = &world.pipeline(&[]).await[..] else { panic!("one enquiry") };
    assert_eq!(only["id"], again["leadId"]);
    super::until_settled(&world, 0).await;
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1);
}

#[tokio::test]
async fn a_broker_that_cannot_be_reached_is_told_without_its_password() {
    let settings =
        [("AMQP_URL", "amqp://connect:hunter2@127.0.0.1:1/%2f"), ("CONNECT_MASTER_KEY", tests::MASTER_KEY)];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let said = refused(&Connectctl::with(settings), &["archive", "--lead", "1", "--timeout", "500ms"]).await;
    assert_eq!(said, "the broker can't be reached; nothing was published");
}
