//! Every command of operators that reads or changes the database.

use super::workload::{Subscriber, act};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use serde_json::{Value, json};
use tests::receiver::Behavior;
use tests::{MAX_WAIT, Receiver, World, event, eventually, text};

/// Runs each command once, for the person with that number and for deliveries of their tenant.
pub(super) async fn run_all(world: &World, subscriber: &Subscriber, number: usize) {
    views(world, number).await;
    changes(world, number).await;
    deliveries(world, subscriber).await;
    failed_deliveries(world, number).await;
    jobs(world, subscriber).await;
}

/// The commands that read rows of all tenants, as they say in their help.
pub(super) async fn of_all_tenants(world: &World) {
    let create = ["subscription", "create", "--tenant", "acme", "--url", "http://127.0.0.1:9/"];
    let id = world.connectctl.json(&create).await["id"].clone();
    let unsealed = format!(
        "UPDATE subscriptions SET url = 'https://example.com/old', url_sealed = NULL WHERE subscription_id = '{}'",
        text(&id)
    );
    world.database.execute(&unsealed).await;
    world.connectctl.json(&["subscription", "seal-urls"]).await;
    world.connectctl.json(&["subscription", "remove", text(&id)]).await;
    world.connectctl.list(&["tenant", "list"]).await;
    world.connectctl.json(&["secrets", "rotate"]).await;
    world.connectctl.json(&["secrets", "list"]).await;
    world.connectctl.list(&["delivery", "summary"]).await;
    erasure(world).await;
}

/// Reads what the tenant has written since the client was created. Events are looked up among erased people afterwards.
async fn erasure(world: &World) {
    let sent = event("contact.identified").email("erased@example.com");
    let client = world.accept(sent.clone()).await["clientId"].clone();
    let of = ["--tenant", "acme", "--client", text(&client)];
    world.connectctl.json(&[&["client", "export"], &of[..]].concat()).await;
    for _ in 0..2 {
        world.connectctl.json(&[&["client", "erase", "--yes"], &of[..]].concat()).await;
    }
    assert_eq!(world.result(sent).await["error"], "contact_erased");
}

async fn views(world: &World, number: usize) {
    let query = "SELECT client_id, lead_id FROM leads WHERE external_id = $1";
    let found = world.database.rows(query, &[&format!("lead-{number}")]).await.remove(0);
    let (client, lead) = (text(&found["client_id"]), text(&found["lead_id"]));
    let looks: [&[&str]; 13] = [
        &["timeline", "--tenant", "acme", "--client", client],
        &["inbox", "--tenant", "acme", "--lead", lead],
        &["discovery", "--tenant", "acme", "--client", client],
        &["invoice", "--tenant", "acme", "--lead", lead],
        &["usage", "--tenant", "acme"],
        &["pipeline", "--tenant", "acme", "--limit", "5"],
        &["notifications", "--tenant", "acme", "--limit", "5"],
        &["pressure"],
        &["key", "list", "--tenant", "acme"],
        &["member", "list", "--tenant", "acme"],
        &["subscription", "list", "--tenant", "acme"],
        &["audit", "--limit", "5"],
        &["audit", "--tenant", "acme", "--limit", "5"],
    ];
    for look in looks {
        world.connectctl.json(look).await;
    }
}

/// Changes of a tenant, its members and keys.
async fn changes(world: &World, number: usize) {
    let (slug, email) = (format!("changed-{number}"), format!("member{number}@example.com"));
    let tenant = ["--tenant", slug.as_str()];
    let run = async |command: &[&str], rest: &[&str]| world.connectctl.json(&[command, rest].concat()).await;
    run(&["tenant", "create", "--slug", &slug, "--name", "Changed"], &[]).await;
    run(&["tenant", "set", "--monthly-quota", "5"], &tenant).await;
    run(&["member", "add", "--email", &email, "--name", "Ana"], &tenant).await;
    run(&["member", "remove", "--email", &email], &tenant).await;
    let key = run(&["key", "create", "--name", "site", "--scopes", "events:ingest"], &tenant).await;
    let prefix = text(&key["prefix"]);
    run(&["key", "scopes", prefix, "--set", "clients:read"], &[]).await;
    let create = ["subscription", "create", "--url", "http://127.0.0.1:9/", "--key", prefix];
    let subscription = run(&create, &tenant).await;
    let id = text(&subscription["id"]);
    run(&["subscription", "rotate-secret", id, "--overlap", "1h"], &[]).await;
    run(&["subscription", "pause", id], &[]).await;
    run(&["subscription", "resume", id], &[]).await;
    run(&["subscription", "remove", id], &[]).await;
    for refused in ["pause", "remove"] {
        world.connectctl.refusal(&["subscription", refused, id]).await;
    }
    run(&["key", "rotate-secret", prefix, "--overlap", "1h"], &[]).await;
    run(&["key", "end-overlap", prefix], &[]).await;
    run(&["key", "revoke", prefix], &[]).await;
    world.connectctl.refusal(&["key", "scopes", prefix, "--set", "clients:read"]).await;
}

/// Lists, a delivery by its id, and replays, of which two have something to do.
async fn deliveries(world: &World, subscriber: &Subscriber) {
    let list = async |options: &[&str]| {
        let list = ["delivery", "list", "--tenant", "acme", "--limit", "5"];
        world.connectctl.list(&[&list, options].concat()).await
    };
    assert_eq!(list(&[]).await.len(), 5);
    for state in ["delivered", "pending", "dead", "dropped"] {
        let listed = list(&["--state", state]).await;
        assert!(listed.iter().all(|delivery| delivery["state"] == state), "{listed:?}");
        assert!(!listed.is_empty() || state != "delivered", "{state}");
        list(&["--subscription", &subscriber.id, "--state", state]).await;
    }
    let own = list(&["--subscription", &subscriber.id]).await;
    let newest = own.last().expect("one is delivered in each round");
    world.connectctl.json(&["delivery", "show", text(&newest["id"])]).await;
    replay(world, &[text(&newest["id"])]).await;
    let since = text(&newest["createdAt"]);
    let replayed =
        replay(world, &["--tenant", "acme", "--from", since, "--to", "2100-01-01T00:00:00Z"]).await;
    assert!(replayed["replayed"].as_u64() > Some(0), "{replayed}");
    assert_eq!(replay(world, &["--dead", "--tenant", "acme"]).await, json!({"matched": 0, "replayed": 0}));
}

async fn replay(world: &World, options: &[&str]) -> Value {
    world.connectctl.json(&[&["delivery", "replay"], options].concat()).await
}

/// A delivery that its receiver refuses, a replay of its dead letter, and the removal of its subscription while deliveries wait.
async fn failed_deliveries(world: &World, number: usize) {
    let receiver = Receiver::http();
    receiver.respond_to_next("/refused", [Behavior::status(500)]);
    let create = ["subscription", "create", "--tenant", "acme", "--url", &receiver.url("/refused")];
    let created = world.connectctl.json(&create).await;
    let id = text(&created["id"]);
    let open = json!({"action": "open-lead", "email": format!("refused{number}@example.com"), "name": "Al"});
    let lead = act(world, open).await["leadId"].clone();
    let until = async |state: &str| {
        eventually(&format!("the delivery is {state}"), MAX_WAIT, async || {
            let list = [
                "delivery",
                "list",
                "--tenant",
                "acme",
                "--limit",
                "1",
                "--subscription",
                id,
                "--state",
                state,
            ];
            if world.connectctl.list(&list).await.is_empty() { Err("it is not".to_owned()) } else { Ok(()) }
        })
        .await;
    };
    until("dead").await;
    eventually("its dead letter is requeued", MAX_WAIT, async || {
        let requeued = world.connectctl.json(&["queue", "requeue", "webhooks", "--dead"]).await;
        if requeued["requeued"] == 1 { Ok(()) } else { Err(requeued.to_string()) }
    })
    .await;
    until("delivered").await;
    world.connectctl.json(&["subscription", "pause", id]).await;
    act(world, json!({"action": "stage", "lead": lead, "stage": "follow_up"})).await;
    until("pending").await;
    world.connectctl.json(&["subscription", "remove", id]).await;
    until("dropped").await;
}

/// Test events, and replays by jobs of the dispatcher.
async fn jobs(world: &World, subscriber: &Subscriber) {
    let id = subscriber.id.as_str();
    world.connectctl.json(&["subscription", "events", id, "--all"]).await;
    let tested = world.connectctl.json(&["subscription", "test", id]).await;
    assert_eq!(tested["state"], "delivered", "{tested}");
    // The event occurred before its delivery was created.
    let created: DateTime<Utc> = text(&tested["createdAt"]).parse().expect("a time");
    let since = &clock::to_text(created - TimeDelta::seconds(2));
    let replayed = replay(world, &["--tenant", "acme", "--subscription", id, "--from", since]).await;
    assert!(replayed["replayed"].as_u64() > Some(0), "{replayed}");
    let typed = ["--tenant", "acme", "--event-type", "booking.cancelled", "--from", since, "--rate", "1000"];
    replay(world, &typed).await;
    let job =
        replay(world, &["--tenant", "acme", "--state", "delivered", "--from", since, "--no-wait"]).await;
    let job = text(&job["id"]);
    world.connectctl.run(&["replay", "stop", job]).await;
    world.connectctl.json(&["replay", "show", job]).await;
    world.connectctl.list(&["replay", "list", "--tenant", "acme", "--limit", "2"]).await;
    eventually("the job has ended", MAX_WAIT, async || {
        let shown = world.connectctl.json(&["replay", "show", job]).await;
        if shown["endedAt"].is_null() { Err(shown.to_string()) } else { Ok(()) }
    })
    .await;
}
