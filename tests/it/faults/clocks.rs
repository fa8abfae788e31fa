//! Machines that show different times.

use crate::advisor::act;
use crate::auth::valid;
use crate::records::post;
use chrono::{DateTime, Utc};
use common::clock;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::json;
use std::path::PathBuf;
use tests::{Program, Receiver, World, event, text, until_equal};

/// Settings of a program whose clock is wrong by so many seconds. Durations are measured by a clock that stays as it is.
fn shift(by: &str) -> [(&str, &str); 3] {
    [("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("FAKETIME", by)]
}

/// Starts a program of the world whose clock is wrong by so many seconds.
pub(crate) async fn shifted(world: &World, name: &str, by: &str) -> Program {
    start(world, name, &shift(by)).await
}

async fn start(world: &World, name: &str, more: &[(&str, &str)]) -> Program {
    let mut settings = world.settings().to_vec();
    settings.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Program::listening(name, &settings).await
}

/// The thread of a program with that name.
fn thread(program: &Program, name: &str) -> Pid {
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.id())).expect("it runs");
    let named = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
    let thread = threads.map(|thread| thread.expect("a thread").path()).find(named).expect("a thread of that name");
    Pid::from_raw(thread.file_name().and_then(|id| id.to_str()?.parse().ok()).expect("a number"))
}

/// A thread that stands still until this is dropped, which a test that fails must do before it waits for the program's end.
struct HeldThread(Pid);

impl HeldThread {
    fn hold(thread: Pid) -> Self {
        ptrace::attach(thread).expect("a descendant's thread");
        Self(thread)
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        let _ = waitpid(self.0, Some(WaitPidFlag::__WALL)).and_then(|_| ptrace::detach(self.0, None));
    }
}

/// A worker of the world, and how to put all its clocks forward, those for durations as well.
async fn with_clocks(world: &World) -> (Program, impl Fn(u32)) {
    let offset = std::env::temp_dir().join(format!("connect-offset-{}", world.queues.prefix()));
    let put_forward = move |by: u32| std::fs::write(&offset, format!("+{by}")).expect("a file");
    put_forward(0);
    let offset = std::env::temp_dir().join(format!("connect-offset-{}", world.queues.prefix()));
    let [preload, ..] = shift("");
    let file = ("FAKETIME_TIMESTAMP_FILE", offset.to_str().expect("text"));
    (start(world, "connect-worker", &[preload, ("FAKETIME_NO_CACHE", "1"), file]).await, put_forward)
}

/// The clocks are put forward by less than a minute, so that no lane that waits for messages seems to stand still.
#[tokio::test]
async fn a_worker_of_which_one_lane_has_stood_still_for_a_minute_is_not_alive() {
    let world = World::with().set("CONNECT_WORKER_LANES", "1").workers(0).start().await;
    let (worker, put_forward) = with_clocks(&world).await;
    let alive = async || worker.operator_get("/livez").await.expect("a response").status;
    act(&world, "open-lead", json!({"email": "ana@example.com"})).await;
    for (lane, by) in [("events lane", 50), ("actions lane", 100)] {
        assert_eq!(alive().await, 200, "{lane}");
        let held = HeldThread::hold(thread(&worker, lane));
        put_forward(by);
        until_equal("it is not alive", 503, alive).await;
        drop(held);
        until_equal("it is alive again", 200, alive).await;
    }
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    act(&world, "open-lead", json!({"email": "ben@example.com"})).await;
}

#[tokio::test]
async fn a_worker_is_alive_during_an_outage_of_more_than_a_minute() {
    let world = World::with().through_proxies().workers(0).start().await;
    let (worker, put_forward) = with_clocks(&world).await;
    act(&world, "open-lead", json!({"email": "ana@example.com"})).await;
    world.proxies().postgres.reset_connections();
    let action = json!({"action": "open-lead", "tenant": "acme", "email": "ben@example.com"});
    world.queues.publish("crm", action.to_string().as_bytes()).await;
    let failures = [("operation", "apply advisor actions")];
    let until_failed = async |times: f64| {
        let sum = async || worker.metrics().await.sum("connect_outage_failures_total", &failures) >= times;
        until_equal("the operation fails", true, sum).await;
    };
    until_failed(1.0).await;
    put_forward(50);
    // Two tasks fail four times a second each.
    until_failed(150.0).await;
    assert_eq!(worker.operator_get("/livez").await.expect("a response").status, 200);
    world.proxies().postgres.restore();
    until_equal("the action is applied", 0, async || world.queues.depth("crm").await).await;
}

#[tokio::test]
async fn a_worker_a_minute_ahead_and_a_dispatcher_ten_minutes_behind_lose_nothing_and_say_so() {
    let receiver = Receiver::http();
    let world = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").workers(0);
    let world = world.set("CONNECT_RETENTION_NOTIFICATIONS", "off").start().await;
    let subscription = world.subscribe(&receiver.url("/")).await;
    let worker = shifted(&world, "connect-worker", "+60").await;
    worker.until_ready().await;
    let dispatcher = shifted(&world, "connect-dispatcher", "-600").await;
    until_equal("its clock", false, async || dispatcher.until_unready().await["checks"]["clock"].clone()).await;

    // Whatever the clock of an operator's machine shows, a link can be used for as long as it says.
    let elsewhere = shift("-600").into_iter().fold(world.connectctl.clone(), |all, (name, value)| all.and(name, value));
    let link = elsewhere.json(&["console", "login", "--role", "operator"]).await;
    let left = text(&link["expiresAt"]).parse::<DateTime<Utc>>().expect("a time") - clock::now();
    assert!((3..=5).contains(&left.num_minutes()), "{link}");
    let notification = "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
        SELECT tenant_id, gen_random_uuid(), now() - interval '90 days 5 minutes', 'ada@acme.test', 'lead_assigned', 'x'
        FROM tenants WHERE slug = 'acme'";
    world.database.execute(notification).await;
    let plan = elsewhere.and("CONNECT_RETENTION_NOTIFICATIONS", "90d").list(&["retention", "plan"]).await;
    assert!(plan.iter().any(|row| row["what"] == "notifications" && row["due"] == 1), "{plan:?}");

    post(&world, "/leads", json!({"contact": {"email": "ana@example.com", "name": "Ana"}})).await.assert_status(201);
    let webhook = &receiver.wait_for(1).await[0];
    assert_eq!(webhook.verify(text(&subscription["secret"])), Ok(()), "receivers refuse old signatures");
    for (program, difference) in [(&worker, 60.0), (&dispatcher, -600.0)] {
        let shown = program.metrics().await.sum("connect_clock_difference_seconds", &[]);
        assert!((shown - difference).abs() < 5.0, "{} shows {shown}", program.name());
    }
    let lag = worker.metrics().await.sum("connect_queue_lag_seconds_sum", &[("queue", "records")]);
    assert!(lag < 30.0, "the write waited {lag} s");

    let expired = world.add_key("events:ingest").await;
    let expire =
        format!("UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE prefix = '{}'", expired.prefix);
    world.database.execute(&expire).await;
    let ingest = shifted(&world, "connect-ingest", "-100").await;
    ingest.until_ready().await;
    let refused = ingest.http().send(&expired.events(valid())).await;
    assert_eq!(refused.status, 401, "by the clock of the database it has expired: {refused:?}");
}
