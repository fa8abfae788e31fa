//! Actions that are delivered twice, and workers that are killed while applying them (architecture: Invariants 1, 2,
//! 4).

use super::{
    act, action, count_actions, event_types, open_lead, send_action_as, stored_records, take_emitted, trip,
    until_settled,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{QueuedMessage, UNREACHED_RECEIVER, World, text, until, until_equal};

#[tokio::test]
async fn a_redelivered_message_gets_the_same_ids_and_changes_nothing() {
    let world = World::start().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let opened = open_lead(&world).await;
    let lead = &opened["leadId"];
    for (i, body) in [
        action("open-lead", json!({"email": "ben@example.com"})),
        action("open-lead", json!({"client": opened["clientId"], "noTrip": true})),
        action("assign", json!({"lead": lead, "owner": "ben@acme.test"})),
        action("stage", json!({"lead": lead, "stage": "lost", "reason": "too dear"})),
        action("proposal-send", json!({"lead": lead, "title": "T", "url": "https://a.b/", "channel": "email"})),
        action("proposal-view", json!({"lead": lead})),
        action("proposal-discard", json!({"lead": lead})),
        action("booking-confirm", json!({"lead": lead, "bookingRef": "BR-1", "amount": 5, "currency": "INR"})),
        action("booking-cancel", json!({"bookingRef": "BR-1", "reason": "illness"})),
        action("travelled", json!({"lead": lead})),
        action("archive", json!({"lead": lead})),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("message {i}");
        let first = send_action_as(&world, &id, body).await;
        assert_eq!(first["ok"], true, "{body}: {first}");
        let before = stored_records(&world).await;
        assert_eq!(send_action_as(&world, &id, body).await, first, "{body}");
        assert_eq!(stored_records(&world).await, before, "{body}");
    }
    assert_eq!(count_actions(&world, "repeated").await as usize, 11);
    until_settled(&world, 0).await;
}

#[tokio::test]
async fn a_repeatable_action_is_repeated_only_for_a_new_message() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let opened = open_lead(&world).await;
    take_emitted(&world).await;
    let send =
        json!({"lead": opened["leadId"], "title": "T", "url": "https://proposals.example/1", "channel": "email"});
    let send = action("proposal-send", send);
    send_action_as(&world, "m-1", &send).await;
    let first = trip(&world, &opened).await;
    send_action_as(&world, "m-1", &send).await;
    assert_eq!(trip(&world, &opened).await, first);
    send_action_as(&world, "m-2", &send).await;
    assert!(text(&trip(&world, &opened).await["proposal"]["sentAt"]) > text(&first["proposal"]["sentAt"]));
    assert_eq!(event_types(&take_emitted(&world).await), ["proposal.sent", "proposal.sent"]);
}

#[tokio::test]
async fn a_message_id_belongs_to_one_tenant_and_a_refused_message_can_be_resent() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    let open = |tenant: &str| {
        let mut body = action("open-lead", json!({"email": "ana@example.com"}));
        body["tenant"] = json!(tests::slug(tenant));
        body
    };
    let ours = send_action_as(&world, "m-1", &open("acme")).await;
    let theirs = send_action_as(&world, "m-1", &open("zeta")).await;
    assert_ne!(ours["leadId"], theirs["leadId"]);
    let assign = action("assign", json!({"lead": ours["leadId"], "owner": "new@acme.test"}));
    assert_eq!(send_action_as(&world, "m-2", &assign).await["code"], "owner_not_member");
    let add = ["member", "add", "--tenant", "acme", "--email", "new@acme.test", "--name", "New"];
    world.connectctl.json(&add).await;
    assert_eq!(send_action_as(&world, "m-2", &assign).await["ok"], true);
}

/// The messages of a burst: each action has an id and is sent twice, as by a sender that got no reply.
fn burst(count: usize) -> Vec<QueuedMessage> {
    let message = |i: usize| {
        let body = action("open-lead", json!({"email": format!("{}@example.com", i % 17)}));
        QueuedMessage::new(body.to_string().as_bytes()).with_id(&format!("burst-{i}"))
    };
    (0..count).flat_map(|i| [message(i), message(i)]).collect()
}

/// Waits until so many actions, or more, are in the ledger.
pub(super) async fn until_some_applied(world: &World, count: i64) {
    let applied = async || world.database.count("SELECT count(*) FROM event_ledger").await;
    until("the actions are done", applied, |&applied| applied >= count).await;
}

/// Checks that every action of the burst was applied exactly once.
async fn assert_each_applied_once(world: &World, count: i64) {
    until_settled(world, 0).await;
    until_some_applied(world, count).await;
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
async fn workers_killed_in_a_burst_apply_each_action_once() {
    const COUNT: usize = 200;
    let mut world = World::with().workers(2).start().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let burst = burst(COUNT);
    let (mut parts, blocker) = (burst.chunks(COUNT / 2), world.database.connect().await);
    world.queues.publish_all("crm", parts.next().expect("a part")).await;
    for (applied, survivors) in [(20, 1), (70, 1), (120, 0)] {
        until_some_applied(&world, applied).await;
        // A worker has stored the actions, and one has begun with them and waits for this lock, when one or both are killed.
        let hold = "BEGIN; LOCK TABLE event_ledger IN EXCLUSIVE MODE";
        blocker.batch_execute(hold).await.expect("the lock");
        world.queues.publish_all("crm", parts.next().expect("a part")).await;
        world.database.until_sessions("application_name = 'actions' AND wait_event_type = 'Lock'", 1).await;
        while world.workers.len() > survivors {
            world.workers.remove(0).kill();
        }
        blocker.batch_execute("ROLLBACK").await.expect("the lock is released");
        while world.workers.len() < 2 {
            world.add_worker().await;
        }
    }
    assert_each_applied_once(&world, COUNT as i64).await;
}

#[tokio::test]
async fn a_postgres_outage_loses_no_action_even_if_the_worker_ends() {
    let mut world = World::with().through_proxies().start().await;
    let opened = open_lead(&world).await;
    world.proxies().postgres.reset_connections();
    world.workers[0].until_unready().await;
    let body: Value = action("travelled", json!({"lead": opened["leadId"]}));
    world.queues.publish("crm", body.to_string().as_bytes()).await;
    world.workers[0].until_logged("retrying the advisor action").await;
    assert_eq!(world.workers[0].terminate().await.code(), Some(0));
    world.workers.clear();
    world.until_depth("crm", 1).await;
    world.proxies().postgres.restore();
    world.add_worker().await;
    until_equal("it is done", "travelled", async || super::lead(&world, &opened).await["stage"].clone()).await;
    // A worker that goes on applies it after the outage.
    world.proxies().postgres.reset_connections();
    world.workers[0].until_unready().await;
    let waits = async {
        world.workers[0].until_logged("retrying the advisor action").await;
        world.proxies().postgres.restore();
    };
    let (reply, ()) = futures_util::join!(act(&world, "archive", json!({"lead": opened["leadId"]})), waits);
    assert_eq!(reply["stage"], "archived");

    // While RabbitMQ is absent, neither replies nor dead letters delay the actions behind them.
    world.add_tenant("zeta").await;
    world.proxies().broker.reset_connections();
    world.workers[0].until_unready().await;
    let stored = "INSERT INTO advisor_actions (tenant_id, received_at, attempts, properties, body)
        SELECT tenant_id, now(), (slug = 'zeta')::int * 20, '{\"reply_to\": \"nobody\"}',
               '{\"action\": \"open-lead\", \"tenant\": \"acme\", \"email\": \"ana@example.com\"}'
        FROM tenants, generate_series(1, 60) n WHERE slug = 'acme' OR n = 1";
    world.database.execute(stored).await;
    let begun = Instant::now();
    world.database.until_count(super::WAITING, 1).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    world.proxies().broker.restore();
    until_settled(&world, 1).await;
}
