//! `connectctl doctor`: each check finds what is wrong, and finds it no longer after the fix.

mod schema;
mod server;

use serde_json::Value;
use tests::dedicated_servers::{Broker, Postgres};
use tests::roles::ROLE_PREFIX;
use tests::{Connectctl, MAX_WAIT, World, event, eventually, text, until};

/// The findings of a run, whose exit code says whether one is an error.
async fn findings(connectctl: &Connectctl, options: &[&str]) -> Vec<Value> {
    let ran = connectctl.run(&[&["doctor", "--json", "--role-prefix", ROLE_PREFIX], options].concat()).await;
    let report = ran.json();
    let findings = report["findings"].as_array().unwrap_or_else(|| panic!("{ran:?}")).clone();
    let has_error = findings.iter().any(|finding| finding["level"] == "error");
    assert_eq!((ran.code, &report["ok"]), (Some(i32::from(has_error)), &Value::from(!has_error)), "{ran:?}");
    for finding in &findings {
        for part in ["check", "message", "fix"] {
            assert!(!text(&finding[part]).is_empty(), "{finding}");
        }
    }
    findings
}

/// The finding of a check that contains `part`.
fn of<'f>(findings: &'f [Value], check: &str, part: &str) -> Option<&'f Value> {
    findings.iter().find(|finding| finding["check"] == check && text(&finding["message"]).contains(part))
}

/// Waits until a check has a finding of that level which contains `part`, and returns it. Some states are seen a moment later.
pub(crate) async fn until_found(
    connectctl: &Connectctl, options: &[&str], level: &str, check: &str, part: &str,
) -> Value {
    eventually(&format!("{check}: {part}"), MAX_WAIT, async || {
        let found = findings(connectctl, options).await;
        match of(&found, check, part) {
            Some(finding) if finding["level"] == level => Ok(finding.clone()),
            _ => Err(format!("{found:?}")),
        }
    })
    .await
}

/// Waits until a check has no such finding.
pub(crate) async fn until_fixed(connectctl: &Connectctl, options: &[&str], check: &str, part: &str) {
    let found = async || findings(connectctl, options).await;
    until(&format!("{check} is fixed: {part}"), found, |found| of(found, check, part).is_none()).await;
}

/// A world without programs on a server of its own, whose settings a test may change.
async fn world_without_programs() -> (Postgres, World) {
    let postgres = Postgres::start().await;
    let world = World::with().on_postgres(postgres.url()).ingests(0).workers(0).start().await;
    (postgres, world)
}

#[tokio::test]
async fn a_healthy_installation_has_no_findings() {
    let postgres = Postgres::start().await;
    let broker = Broker::start().await;
    let world = World::with().on_postgres(postgres.url()).on_broker(broker.url()).dispatchers(1).start().await;
    world.until_ready().await;
    assert_eq!(findings(&world.connectctl, &[]).await, Vec::<Value>::new());
    let shown = world.connectctl.run(&["doctor", "--role-prefix", ROLE_PREFIX]).await;
    assert_eq!((shown.code, shown.output.trim()), (Some(0), "22 checks, no findings."), "{shown:?}");
    assert_eq!(shown.errors, "");
}

#[tokio::test]
async fn checks_that_cannot_run_are_findings_and_the_others_run() {
    let (_postgres, world) = world_without_programs().await;
    // Without the broker, the master key and a replica.
    let broken = world
        .connectctl
        .clone()
        .and("AMQP_URL", "amqp://guest:hunter2@127.0.0.1:1/%2f")
        .and("CONNECT_MASTER_KEY", "short")
        .and("CONNECT_RETENTION_LEDGER", "1d")
        .and("CONNECT_WORKER_LANE", "3")
        .and("CONNECT_REPLY_TIMEOUT", "10")
        .and("RUST_LOG", "worker=debgu")
        .and("DATABASE_READ_URL", "postgres://connect:hunter2@127.0.0.1:1/connect");
    let found = eventually("programs are missed", MAX_WAIT, async || {
        let found = findings(&broken, &[]).await;
        of(&found, "attention", "No copy of").is_some().then_some(found).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    for (check, part) in [
        ("settings", "nothing reads CONNECT_WORKER_LANE"),
        ("settings", "setting CONNECT_REPLY_TIMEOUT: must be a duration"),
        ("settings", "setting RUST_LOG: level \"debgu\" must be off, error"),
        ("broker.connection", "127.0.0.1:1"),
        ("master_key", "setting CONNECT_MASTER_KEY"),
        ("retention", "setting CONNECT_RETENTION_LEDGER"),
        ("postgres.connection", "no connection to the server of DATABASE_READ_URL: 127.0.0.1:1"),
        ("attention", "No copy of connect-ingest, or of connect-worker, or of connect-dispatcher works"),
    ] {
        assert!(of(&found, check, part).is_some(), "{check}: {found:?}");
    }
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    assert_eq!(found.len(), 8, "the other checks found nothing: {found:?}");

    // Without Postgres, and without any setting.
    let broken = world.connectctl.clone().and("DATABASE_URL", "postgres://connect@127.0.0.1:1/connect");
    let found = findings(&broken, &[]).await;
    assert!(of(&found, "postgres.connection", "127.0.0.1:1").is_some(), "{found:?}");
    assert!(of(&found, "broker.queues", "nobody consumes the queue").is_some(), "{found:?}");
    let found = findings(&Connectctl::with(Vec::new()), &[]).await;
    for check in ["postgres.connection", "broker.connection"] {
        assert!(of(&found, check, "is required").is_some(), "{found:?}");
    }

    // With too few privileges.
    let ingest = tests::roles::as_program("connect-ingest", world.database.url());
    let found = findings(&world.connectctl.clone().and("DATABASE_URL", &ingest), &[]).await;
    let denied = of(&found, "master_key", "the check could not run").expect("the check of the master key");
    assert!(text(&denied["message"]).contains("permission denied"), "{denied}");
    assert_eq!(denied["level"], "error", "{denied}");
    assert!(of(&found, "postgres.connections", "does not see the transactions of other roles").is_some(), "{found:?}");
    let owner = "GRANT pg_monitor TO connect_test_ingest_user";
    world.database.execute(owner).await;
    let connectctl = world.connectctl.clone().and("DATABASE_URL", &ingest);
    until_fixed(&connectctl, &[], "postgres.connections", "does not see").await;
}

#[tokio::test]
async fn a_check_without_a_response_is_an_error() {
    let world = World::with().ingests(0).workers(0).start().await;
    let client = world.database.begin("LOCK TABLE failure_minutes IN ACCESS EXCLUSIVE MODE").await;
    let finding = until_found(&world.connectctl, &[], "error", "attention", "the check could not run: ").await;
    assert!(text(&finding["message"]).contains("lock timeout"), "{finding}");
    assert!(text(&finding["fix"]).contains("run the command again"), "{finding}");
    client.batch_execute("ROLLBACK").await.expect("the end of the lock");
    until_fixed(&world.connectctl, &[], "attention", "the check could not run").await;
}

#[tokio::test]
async fn queues_without_consumers_that_differ_or_fill_up_are_found() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let ctl = world.connectctl.clone();
    let missing = ctl.clone().and("CONNECT_QUEUE_PREFIX", &format!("{}x", world.queues.prefix()));
    let found = findings(&missing, &[]).await;
    for queue in ["events", "events.dead", "records", "crm", "webhooks.dead"] {
        let part = format!("{}x.{queue} does not exist", world.queues.prefix());
        assert!(of(&found, "broker.queues", &part).is_some(), "{part}: {found:?}");
    }
    assert!(of(&findings(&ctl, &[]).await, "broker.queues", "does not exist").is_none());

    for queue in ["events", "records", "crm"] {
        let part = format!("nobody consumes the queue {}.{queue}", world.queues.prefix());
        until_found(&ctl, &[], "error", "broker.queues", &part).await;
    }
    for (queue, fix) in [("records", "requeue or drop them"), ("webhooks", "requeue them: those")] {
        world.queues.publish(&format!("{queue}.dead"), b"{}").await;
        let finding = until_found(&ctl, &[], "warning", "broker.queues", "1 messages wait in").await;
        let fix = format!("queue show {queue} --dead, fix their cause, and {fix}");
        assert!(text(&finding["fix"]).contains(&fix), "{finding}");
        ctl.json(&["queue", "drop", queue, "--dead", "--yes"]).await;
        until_fixed(&ctl, &[], "broker.queues", "messages wait in").await;
    }
    world.add_worker().await;
    world.until_ready().await;
    until_fixed(&ctl, &[], "broker.queues", "").await;

    let other = ctl.clone().and("CONNECT_QUEUE_MAX_LENGTH", "7");
    let finding = until_found(&other, &[], "warning", "broker.queues", "has other arguments").await;
    assert!(finding["message"].as_str().is_some_and(|text| text.contains("x-max-length")), "{finding}");
    assert!(of(&findings(&ctl, &[]).await, "broker.queues", "has other arguments").is_none());
}

#[tokio::test]
async fn a_queue_that_fills_up_is_found() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "10").start().await;
    for (messages, level) in [(5, "warning"), (4, "error")] {
        for _ in 0..messages {
            world.queues.publish("events", b"{}").await;
        }
        until_found(&world.connectctl, &[], level, "broker.queues", "of at most 10 messages wait").await;
    }
    world.queues.take_all("events").await;
    until_fixed(&world.connectctl, &[], "broker.queues", "of at most 10").await;
}

#[tokio::test]
async fn a_worker_that_hangs_is_found() {
    let world = World::with().set("CONNECT_REPLY_TIMEOUT", "500ms").start().await;
    world.until_ready().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    let consumed = format!("nobody consumes the queue {}.events", world.queues.prefix());
    until_fixed(&world.connectctl, &[], "broker.queues", &consumed).await;
    world.workers[0].signal("STOP");
    let unreplied = world.send(&[event("contact.identified").email("ben@example.com")]).await;
    unreplied.assert_error(503, "processing_timeout");
    // A busy machine may be late with the first event, too.
    let part = " got 503 in the last 10 minutes: processing_timeout (";
    let finding = until_found(&world.connectctl, &[], "warning", "attention", part).await;
    assert!(text(&finding["fix"]).contains("/readyz of each worker"), "{finding}");
    world.workers[0].signal("CONT");
}

#[tokio::test]
async fn slots_without_a_dispatcher_and_webhooks_that_are_long_due_are_found() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let ctl = world.connectctl.clone();
    // The secret cannot be opened, so that nothing is sent.
    let due = "INSERT INTO subscriptions
            (tenant_id, subscription_id, display_url, url_sealed, secret_sealed, created_at)
        SELECT tenant_id, tenant_id, 'https://example.com', '', '', now() FROM tenants;
        INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number, next_attempt_at)
        SELECT tenant_id, tenant_id, tenant_id, tenant_id, 'pending', now(), 1, now() - interval '1 minute' FROM tenants";
    world.database.execute(due).await;
    until_found(&ctl, &[], "error", "attention", "or of connect-dispatcher works").await;
    world.add_dispatcher().await;
    until_fixed(&ctl, &[], "attention", "connect-dispatcher").await;
    until_fixed(&ctl, &[], "attention", "No dispatcher holds").await;
    let older = "UPDATE deliveries SET next_attempt_at = now() - interval '9 minutes'";
    world.database.execute(older).await;
    until_found(&ctl, &[], "warning", "attention", "minutes and was not sent").await;
    world.database.execute("UPDATE subscriptions SET paused_at = now()").await;
    until_fixed(&ctl, &[], "attention", "was not sent").await;
}
