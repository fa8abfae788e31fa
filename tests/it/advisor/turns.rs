//! Actions wait in the database, where tenants take turns. Those of a tenant are applied in the order of the queue.

use super::redelivery::until_some_applied;
use super::{WAITING, act, act_refused, action, open_lead, until_settled};
use serde_json::{Value, json};
use tests::{MAX_WAIT, QueuedMessage, World, eventually, text, until, until_equal};

fn message(id: &str, body: &Value) -> QueuedMessage {
    QueuedMessage::new(body.to_string().as_bytes()).with_id(id)
}

/// Stores an action of `acme` as a worker does that was killed before it applied the action, as the last of so many.
async fn store(world: &World, killed: u8, id: &str, body: &Value) {
    let insert = format!(
        "INSERT INTO advisor_actions (tenant_id, received_at, attempts, properties, body)
         SELECT tenant_id, now(), {killed}, '{{\"message_id\": \"{id}\"}}', '{body}' FROM tenants WHERE slug = 'acme'"
    );
    world.database.execute(&insert).await;
}

#[tokio::test]
async fn an_action_waits_for_a_few_of_another_tenants_actions_only() {
    const FLOOD: usize = 600;
    let mut world = World::with().workers(0).start().await;
    world.add_tenant("zeta").await;
    let mut open = action("open-lead", json!({"email": "ana@example.com"}));
    let mut messages: Vec<_> = (0..FLOOD).map(|i| message(&format!("m-{i}"), &open)).collect();
    open["tenant"] = json!("zeta");
    messages.push(message("zeta", &open));
    world.queues.publish_all("crm", &messages).await;
    world.add_worker().await;
    world.database.until_count("SELECT count(*) FROM event_ledger", FLOOD as i64 + 1).await;
    let before = "SELECT count(*) FROM event_ledger WHERE applied_at <=
        (SELECT applied_at FROM event_ledger WHERE event_id = 'connect-api:crm:zeta')";
    let before = world.database.count(before).await;
    assert!(before < FLOOD as i64 / 2, "{before} of {FLOOD} were applied before it");
}

#[tokio::test]
async fn workers_that_are_killed_apply_the_actions_of_a_tenant_in_their_order() {
    const PAIRS: usize = 100;
    let mut world = World::with().workers(2).start().await;
    let lead = open_lead(&world).await["leadId"].clone();
    // A cancellation before its confirmation is refused.
    let pair = |i: usize| {
        let booking = format!("BR-{i}");
        let confirm = action("booking-confirm", json!({"lead": lead, "bookingRef": booking}));
        let cancel = action("booking-cancel", json!({"bookingRef": booking}));
        [message(&format!("confirm-{i}"), &confirm), message(&format!("cancel-{i}"), &cancel)]
    };
    world.queues.publish_all("crm", &(0..PAIRS).flat_map(pair).collect::<Vec<_>>()).await;
    for applied in [20, 60, 100] {
        until_some_applied(&world, applied).await;
        world.workers.remove(0).kill();
        world.add_worker().await;
    }
    world.database.until_count("SELECT count(*) FROM event_ledger", 2 * PAIRS as i64 + 1).await;
    let cancelled = "SELECT count(*) FROM invoices WHERE cancelled_at IS NOT NULL";
    assert_eq!(world.database.count(cancelled).await, PAIRS as i64);
    until_settled(&world, 0).await;
}

#[tokio::test]
async fn an_action_that_waits_for_a_lock_is_not_counted_as_one_that_kills_workers() {
    let mut world = World::start().await;
    let lead = open_lead(&world).await["leadId"].clone();
    world.end_workers().await;
    let statements = world.record_statements();
    let locked = world.database.begin("SELECT 1 FROM clients, leads FOR UPDATE").await;
    store(&world, 0, "m-1", &action("archive", json!({ "lead": lead }))).await;
    world.add_worker().await;
    let mut counted = 0;
    eventually("it is put off again and again", MAX_WAIT, async || {
        let is_counted = |names: &Vec<String>| names.iter().any(|name| name == "advisor_actions.count_attempt");
        counted += statements.take("actions").iter().filter(|names| is_counted(names)).count();
        if counted >= 5 { Ok(()) } else { Err(counted.to_string()) }
    })
    .await;
    assert!(world.database.count("SELECT max(attempts)::int8 FROM advisor_actions").await <= 1);
    locked.batch_execute("ROLLBACK").await.expect("no lock");
    world.database.until_count(WAITING, 0).await;
    until_settled(&world, 0).await;
}

#[tokio::test]
async fn an_action_that_kills_workers_is_dead_lettered_as_it_was_sent_and_others_are_applied() {
    let mut world = World::with().workers(0).start().await;
    let open = |email: &str| action("open-lead", json!({ "email": email }));
    store(&world, 20, "killing", &open("ana@example.com")).await;
    store(&world, 0, "next", &open("bo@example.com")).await;
    world.add_worker().await;
    world.database.until_count("SELECT count(*) FROM event_ledger", 1).await;
    until_settled(&world, 1).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients WHERE email = 'bo@example.com'").await, 1);
    let reason = [("queue", "crm"), ("reason", "attempts")];
    assert_eq!(world.workers[0].metrics().await.sum("connect_dead_lettered_total", &reason), 1.0);
    let dead = world.queues.take("crm.dead").await.expect("the dead letter");
    assert_eq!((dead.id().as_deref(), dead.body), (Some("killing"), open("ana@example.com").to_string().into_bytes()));

    // When too many of a tenant wait, its further ones are dead-lettered, and those of another one are applied.
    world.add_tenant("zeta").await;
    let insert = format!(
        "INSERT INTO advisor_actions (tenant_id, received_at, properties, body)
         SELECT tenant_id, now(), '{{}}', '{}' FROM tenants, generate_series(1, 101000) WHERE slug = 'acme'",
        open("ana@example.com")
    );
    world.database.execute(&insert).await;
    let _locked = world.database.begin("SELECT 1 FROM advisor_actions ORDER BY number LIMIT 4 FOR UPDATE").await;
    let waiting = async || world.workers[0].metrics().await.sum("connect_queue_messages_ready", &[("queue", "crm")]);
    until("they are counted", waiting, |&waiting| waiting >= 100_000.0).await;
    act_refused(&world, &open("cy@example.com"), 503, "overloaded").await;
    world.until_depth("crm.dead", 1).await;
    act(&world, "open-lead", json!({"tenant": "zeta", "email": "cy@example.com"})).await;
}

#[tokio::test]
async fn actions_that_wait_are_counted_and_those_that_name_an_erased_person_are_removed() {
    let mut world = World::start().await;
    let opened = open_lead(&world).await;
    let locked = world.database.begin("LOCK TABLE event_ledger IN EXCLUSIVE MODE").await;
    store(&world, 0, "m-1", &action("open-lead", json!({"email": "Ana@example.com"}))).await;
    store(&world, 0, "m-2", &action("archive", json!({"lead": opened["leadId"]}))).await;
    store(&world, 0, "m-3", &action("open-lead", json!({"email": "bo@example.com"}))).await;
    world.workers[0].until_sum("connect_queue_messages_ready", &[("queue", "crm")], 3.0).await;
    until_equal("the queue is listed", (json!(3), true), async || {
        let queues = world.connectctl.list(&["queue", "list"]).await;
        let crm = queues.iter().find(|queue| queue["name"] == "crm").expect("the queue");
        (crm["depth"].clone(), crm["oldest"].is_string())
    })
    .await;
    world.end_workers().await;
    locked.batch_execute("ROLLBACK").await.expect("no lock");

    let client = ["--tenant", "acme", "--client", text(&opened["clientId"])];
    let exported = world.connectctl.json(&[&["client", "export"][..], &client].concat()).await;
    assert_eq!(exported["records"]["advisorActions"].as_array().map(Vec::len), Some(2), "{exported}");
    let erased = world.connectctl.json(&[&["client", "erase", "--yes"][..], &client].concat()).await;
    assert_eq!(erased["removed"]["advisorActions"], 2, "{erased}");
    assert_eq!(world.database.count(WAITING).await, 1);
    world.add_worker().await;
    world.database.until_count(WAITING, 0).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients WHERE email <> 'bo@example.com'").await, 0);
}
