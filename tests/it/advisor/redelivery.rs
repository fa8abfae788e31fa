//! Actions that come twice, and workers that end in the middle (architecture: Invariants 1, 2, 4).

use super::{action, ask_as, counted, done, emitted, opened, records, subscribe, trip, types, until_settled};
use serde_json::{Value, json};
use tests::{PATIENCE, QueuedMessage, World, eventually, text};

#[tokio::test]
async fn a_message_that_comes_again_is_answered_with_the_same_ids_and_changes_nothing() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = opened(&world).await;
    let lead = &of["leadId"];
    for (i, body) in [
        action("open-lead", json!({"email": "ben@example.com"})),
        action("open-lead", json!({"client": of["clientId"], "noTrip": true})),
        action("assign", json!({"lead": lead, "owner": "ben@acme.test"})),
        action("stage", json!({"lead": lead, "stage": "lost", "reason": "too dear"})),
        action(
            "proposal-send",
            json!({"lead": lead, "title": "T", "url": "https://a.b/", "channel": "email"}),
        ),
        action("proposal-view", json!({"lead": lead})),
        action("proposal-discard", json!({"lead": lead})),
        action(
            "booking-confirm",
            json!({"lead": lead, "bookingRef": "BR-1", "amount": 5, "currency": "INR"}),
        ),
        action("booking-cancel", json!({"bookingRef": "BR-1", "reason": "illness"})),
        action("travelled", json!({"lead": lead})),
        action("archive", json!({"lead": lead})),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("message {i}");
        let first = ask_as(&world, &id, body).await;
        assert_eq!(first["ok"], true, "{body}: {first}");
        let before = records(&world).await;
        assert_eq!(ask_as(&world, &id, body).await, first, "{body}");
        assert_eq!(records(&world).await, before, "{body}");
    }
    assert_eq!(counted(&world, "repeated").await as usize, 11);
    until_settled(&world, 0).await;
}

#[tokio::test]
async fn what_would_do_something_again_does_it_for_a_new_message_only() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = opened(&world).await;
    emitted(&world).await;
    let send =
        json!({"lead": of["leadId"], "title": "T", "url": "https://proposals.example/1", "channel": "email"});
    let send = action("proposal-send", send);
    ask_as(&world, "m-1", &send).await;
    let first = trip(&world, &of).await;
    ask_as(&world, "m-1", &send).await;
    assert_eq!(trip(&world, &of).await, first);
    ask_as(&world, "m-2", &send).await;
    assert!(text(&trip(&world, &of).await["proposal"]["sentAt"]) > text(&first["proposal"]["sentAt"]));
    assert_eq!(types(&emitted(&world).await), ["proposal.sent", "proposal.sent"]);
}

#[tokio::test]
async fn an_id_is_one_agencys_and_a_refused_message_can_come_again() {
    let world = World::start().await;
    world.add_tenant("zeta").await;
    let open = |tenant: &str| {
        let mut body = action("open-lead", json!({"email": "ana@example.com"}));
        body["tenant"] = json!(tenant);
        body
    };
    let ours = ask_as(&world, "m-1", &open("acme")).await;
    let theirs = ask_as(&world, "m-1", &open("zeta")).await;
    assert_ne!(ours["leadId"], theirs["leadId"]);
    let assign = action("assign", json!({"lead": ours["leadId"], "owner": "new@acme.test"}));
    assert_eq!(ask_as(&world, "m-2", &assign).await["code"], "owner_not_member");
    let add = ["member", "add", "--tenant", "acme", "--email", "new@acme.test", "--name", "New"];
    world.connectctl.json(&add).await;
    assert_eq!(ask_as(&world, "m-2", &assign).await["ok"], true);
}

/// Actions of a burst, each with an id, and each of them twice, as a sender does that got no answer.
fn burst(count: usize) -> Vec<QueuedMessage> {
    let message = |i: usize| {
        let body = action("open-lead", json!({"email": format!("{}@example.com", i % 17)}));
        QueuedMessage::new(body.to_string().as_bytes()).with_id(&format!("burst-{i}"))
    };
    (0..count).flat_map(|i| [message(i), message(i)]).collect()
}

/// Waits until so many actions are in the ledger.
async fn until_applied(world: &World, count: i64) {
    eventually("the actions are done", PATIENCE, async || {
        let applied = world.database.count("SELECT count(*) FROM event_ledger").await;
        if applied >= count { Ok(()) } else { Err(format!("{applied} of {count}")) }
    })
    .await;
}

/// Waits until a worker waits for a lock.
async fn until_worker_waits(world: &World) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'records' AND wait_event_type = 'Lock'";
    eventually("the worker waits", PATIENCE, async || match world.database.count(waiting).await {
        0 => Err("nobody waits".to_owned()),
        _ => Ok(()),
    })
    .await;
}

/// Checks that every action of the burst was done exactly once.
async fn assert_once(world: &World, count: i64) {
    until_settled(world, 0).await;
    until_applied(world, count).await;
    for what in [
        "count(*) FROM event_ledger WHERE event_id LIKE 'connect-api:crm:burst-%'",
        "count(DISTINCT lead_id) FROM event_ledger",
        "count(*) FROM leads",
        "count(DISTINCT enquiry_number) FROM leads",
        "count(*) FROM trips",
        "count(*) FROM proposals",
        "count(*) FROM notifications",
        "count(*) FROM outbox WHERE event_type = 'lead.assigned'",
    ] {
        assert_eq!(world.database.count(&format!("SELECT {what}")).await, count, "{what}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 17);
}

#[tokio::test]
async fn a_worker_that_is_killed_in_a_burst_of_actions_does_each_of_them_once() {
    const COUNT: usize = 400;
    let mut world = World::start().await;
    subscribe(&world).await;
    let burst = burst(COUNT);
    let (mut parts, blocker) = (burst.chunks(200), world.database.connect().await);
    world.queues.put_all("crm", parts.next().expect("a part")).await;
    for applied in [40, 140, 240] {
        until_applied(&world, applied).await;
        // So that there is something left when the worker is killed, and it has begun with that.
        let hold = "BEGIN; LOCK TABLE event_ledger IN EXCLUSIVE MODE";
        blocker.batch_execute(hold).await.expect("the lock");
        world.queues.put_all("crm", parts.next().expect("a part")).await;
        until_worker_waits(&world).await;
        world.workers[0].kill();
        world.workers.clear();
        blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
        world.add_worker().await;
    }
    assert_once(&world, COUNT as i64).await;
}

#[tokio::test]
async fn two_workers_with_several_lanes_do_each_action_once_when_one_is_killed() {
    const COUNT: usize = 400;
    let mut world = World::with().workers(2).set("CONNECT_CRM_LANES", "3").start().await;
    subscribe(&world).await;
    world.queues.put_all("crm", &burst(COUNT)).await;
    until_applied(&world, 60).await;
    world.workers.remove(0).kill();
    assert_once(&world, COUNT as i64).await;
}

#[tokio::test]
async fn an_outage_of_postgres_holds_an_action_up_and_loses_nothing() {
    let world = World::with().through_proxies().start().await;
    let of = opened(&world).await;
    world.proxies().postgres.cut();
    world.workers[0].until_unready().await;
    let waits = async {
        eventually("trying the advisor action again", PATIENCE, async || {
            let waits = world.workers[0].logs().contains("trying the advisor action again");
            if waits { Ok(()) } else { Err("nothing logged".to_owned()) }
        })
        .await;
        world.proxies().postgres.restore();
    };
    let (answer, ()) = futures_util::join!(done(&world, "archive", json!({"lead": of["leadId"]})), waits);
    assert_eq!(answer["stage"], "archived");
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_in_an_outage_leaves_the_action_to_the_next() {
    let mut world = World::with().through_proxies().start().await;
    let of = opened(&world).await;
    world.proxies().postgres.cut();
    world.workers[0].until_unready().await;
    let body: Value = action("archive", json!({"lead": of["leadId"]}));
    world.queues.publish("crm", body.to_string().as_bytes()).await;
    eventually("trying the advisor action again", PATIENCE, async || {
        let waits = world.workers[0].logs().contains("trying the advisor action again");
        if waits { Ok(()) } else { Err("nothing logged".to_owned()) }
    })
    .await;
    assert_eq!(world.workers[0].terminate().await.code(), Some(0));
    world.workers.clear();
    // It is back in the queue.
    world.until_depth("crm", 1).await;
    world.proxies().postgres.restore();
    world.add_worker().await;
    eventually("it is done", PATIENCE, async || match super::lead(&world, &of).await["stage"].clone() {
        stage if stage == "archived" => Ok(()),
        stage => Err(stage.to_string()),
    })
    .await;
    until_settled(&world, 0).await;
}
