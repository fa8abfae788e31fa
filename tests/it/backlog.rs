//! Tenants that send more than is applied, and disconnect: each has a share of the backlog, and the others are served.

use futures_util::future::join_all;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tests::raw::RawConnection;
use tests::{
    ApiKey, Event, HttpClient, HttpRequest, MAX_WAIT, MessageRecorder, RECORDS, World, WorldBuilder, batch, event,
    eventually, until, until_equal,
};

/// Events of a full batch.
const FULL: usize = 100;

fn contacts(key: &ApiKey, count: usize) -> Vec<Event> {
    (0..count).map(|i| event("contact.identified").tenant(&key.tenant).email(&format!("{i}@example.com"))).collect()
}

fn full_batch(key: &ApiKey) -> HttpRequest {
    key.events(batch(&contacts(key, FULL)))
}

fn create_client(key: &ApiKey, number: usize) -> HttpRequest {
    let body = serde_json::json!({"email": format!("client-{number}@example.com")}).to_string();
    let request = key.records("POST", &format!("{RECORDS}/clients"), body);
    request.with("idempotency-key", format!("key-{number}"))
}

/// Counts messages that were published and not replied to yet.
#[derive(Debug)]
struct Unreplied {
    recorder: MessageRecorder,
    published: usize,
    replied: usize,
}

impl Unreplied {
    /// Connects the programs that the world starts from now on to the broker through a recorder.
    fn of(world: &mut World) -> Self {
        let recorder = MessageRecorder::in_front_of(world.queues.url());
        world.set("AMQP_URL", recorder.url());
        Self { recorder, published: 0, replied: 0 }
    }

    fn count(&mut self) -> usize {
        for key in self.recorder.take().published {
            if key.starts_with("amq.rabbitmq.reply-to") {
                self.replied += 1;
            } else {
                self.published += 1;
            }
        }
        self.published.saturating_sub(self.replied)
    }
}

/// Sends a request and doesn't wait for its response.
async fn begin(world: &World, request: &HttpRequest) -> RawConnection {
    let mut connection = RawConnection::to(world.ingests[0].http().address()).await;
    connection.send_request(request).await;
    connection
}

/// The requests that were refused for their tenant's share.
async fn refused_requests(world: &World) -> f64 {
    world.ingests[0].metrics().await.sum("connect_overloaded_total", &[("reason", "tenant")])
}

/// Settings under which at first one full batch may wait, because 16,000 events a second are assumed. Without a worker.
fn few_units() -> WorldBuilder {
    World::with().workers(0).set("CONNECT_BACKLOG_TARGET", "7ms")
}

#[tokio::test]
async fn a_caller_that_disconnects_keeps_its_share_until_its_batch_is_applied() {
    let mut world = few_units().start().await;
    let zeta = world.add_tenant("zeta").await;
    // While nothing is applied, the limit falls to 60.
    let part = |count| world.key.events(batch(&contacts(&world.key, count)));
    let first = part(20);
    let connection = begin(&world, &first).await;
    world.until_depth("events", 1).await;
    world.http().send(&first).await.assert_error(401, "unauthorized");
    let connections = [connection, begin(&world, &part(35)).await];
    world.until_depth("events", 2).await;
    drop(connections);
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 0.0).await;
    let refused = full_batch(&world.key);
    let response = world.http().send(&refused).await;
    response.assert_error(503, "overloaded");
    assert!(response.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds >= 1), "{response:?}");
    assert_eq!(refused_requests(&world).await, 1.0);
    // A known replay gets its 401, and a body that is at fault its 400: they take no share.
    world.http().send(&first).await.assert_error(401, "unauthorized");
    world.http().send(&world.key.events("{}")).await.assert_error(400, "invalid_request");
    let waiting = world.ingests[0].metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
    assert_eq!((waiting, world.queues.depth("events").await), (55.0, 2));
    eventually("the operator sees which tenant it is", MAX_WAIT, async || {
        // Only recent reports count as waiting.
        world.http().send(&refused).await.assert_error(503, "overloaded");
        let pressures = world.connectctl.json(&["pressure"]).await;
        let [pressure] = pressures.as_array().expect("an array").as_slice() else {
            return Err(pressures.to_string());
        };
        assert_eq!((&pressure["tenant"], &pressure["queue"]), (&"acme".into(), &"events".into()));
        assert!(pressure["reportedAt"].is_string(), "{pressure}");
        let is_shown = pressure["waiting"] == 55 && pressure["refused"].as_i64() > Some(0);
        if is_shown { Ok(()) } else { Err(pressure.to_string()) }
    })
    .await;

    // The first event of another tenant passes, whatever waits.
    let theirs = zeta.events(batch(&contacts(&zeta, 1)));
    let _theirs = begin(&world, &theirs).await;
    world.until_depth("events", 3).await;
    // Of two tenants, the first one has more than its part, so that nothing of it is parsed.
    let at_fault = world.key.events("{}");
    world.http().send(&at_fault).await.assert_error(503, "overloaded");

    world.add_worker().await;
    // They were refused before their signatures were used up.
    until_equal("it is accepted", 200, async || world.http().send(&refused).await.status).await;
    world.http().send(&at_fault).await.assert_error(400, "invalid_request");
    world.until_applied(55 + FULL as i64 + 1).await;
}

#[tokio::test]
async fn releases_a_share_whose_reply_was_lost_once_its_message_left_the_queue() {
    let mut world = few_units().set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    world.http().send(&full_batch(&world.key)).await.assert_error(503, "processing_timeout");
    let counted = world.ingests[0].metrics().await;
    assert_eq!(counted.sum("connect_publish_total", &[("outcome", "no_reply")]), 1.0);
    // Ingest releases the share when it sees the queue empty, so the message stays in the queue while the share is to be held.
    let next = full_batch(&world.key);
    world.http().send(&next).await.assert_error(503, "overloaded");
    world.queues.take("events").await.expect("the first batch");
    world.add_worker().await;
    // It was refused before its signature was used up.
    until_equal("it is accepted", 200, async || world.http().send(&next).await.status).await;
}

#[tokio::test]
async fn a_quiet_tenant_is_served_while_others_burst_and_disconnect() {
    let mut world = World::with().ingests(0).workers(0).set("CONNECT_BACKLOG_TARGET", "60ms").start().await;
    let mut unreplied = Unreplied::of(&mut world);
    for _ in 0..2 {
        world.add_ingest().await;
    }
    world.add_worker().await;
    let (loud, quiet) = ([world.add_tenant("loud").await, world.add_tenant("noisy").await], world.key.clone());
    let flood = join_all(loud.iter().cycle().take(8).map(async |key| {
        let mut open = VecDeque::new();
        loop {
            open.push_back(begin(&world, &full_batch(key)).await);
            // The oldest callers disconnect.
            if open.len() > 4 {
                open.pop_front();
            }
        }
    }));
    let served = async {
        let mut deepest = 0;
        for number in 0..10 {
            let ingest = &world.ingests[number % 2];
            let event = quiet.events(batch(&contacts(&quiet, 1)));
            for (request, status) in [(event, 200), (create_client(&quiet, number), 201)] {
                deepest = deepest.max(unreplied.count());
                let response = HttpClient::new(ingest.http().address()).send(&request).await;
                if response.status != status {
                    let counted = ingest.metrics().await;
                    let refused: Vec<_> = counted.of("connect_overloaded_total").collect();
                    panic!("{response:?}: {refused:?}");
                }
            }
        }
        deepest
    };
    let deepest = tokio::select! {
        deepest = served => deepest,
        _ = flood => unreachable!("it goes on"),
    };
    // 16,000 events a second for 60 ms in each of two ingests, for the first tenant, and half of it for the second one; the limit
    // falls from there on. Prefetched messages count as well.
    assert!(deepest <= 30, "{deepest} batches waited before those of the quiet tenant");
    assert!(refused_requests(&world).await > 0.0, "no request of the others was refused");
}

#[tokio::test]
async fn a_broken_broker_connection_releases_no_share() {
    // After a reconnect, a share is held for as long as its message had waited. The newest message must have waited for
    // longer than it takes to reconnect and to check.
    let waited_for = Duration::from_secs(6);
    let (batches, units) = (120, 120.0 * FULL as f64);
    let world = World::with()
        .workers(0)
        .through_proxies()
        .set("CONNECT_BACKLOG_TARGET", "60s")
        .set("CONNECT_REPLY_TIMEOUT", "500ms")
        .start()
        .await;
    let waiting = async || world.ingests[0].metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
    let requests: Vec<HttpRequest> = (0..batches).map(|_| full_batch(&world.key)).collect();
    for some in requests.chunks(20) {
        join_all(some.iter().map(|request| world.http().send(request))).await;
    }
    let sent = Instant::now();
    world.until_depth("events", batches).await;
    assert_eq!(waiting().await, units);
    world.proxies().broker.reset_connections();
    world.ingests[0].until_unready().await;
    assert_eq!(waiting().await, units, "the batches are still in the queue");
    let waited = async || sent.elapsed();
    until("the newest batch has waited for long", waited, |&waited| waited >= waited_for).await;
    world.proxies().broker.restore();
    world.ingests[0].until_ready().await;
    assert_eq!(waiting().await, units, "nobody has applied them");
    eventually("their shares are released in time", MAX_WAIT * 4, async || match waiting().await {
        0.0 => Ok(()),
        held => Err(format!("{held} units are held")),
    })
    .await;
}

#[tokio::test]
async fn releases_the_share_of_a_message_returned_after_its_caller_timed_out() {
    let world = World::with()
        .workers(0)
        .through_proxies()
        .set("CONNECT_PUBLISH_TIMEOUT", "500ms")
        .set("CONNECT_REPLY_TIMEOUT", "1s")
        .start()
        .await;
    let waiting = async || world.ingests[0].metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
    // The broker returns a message for a deleted queue. A deleted queue is never seen empty.
    world.queues.delete("events").await;
    world.proxies().broker.stall_replies();
    world.http().send(&full_batch(&world.key)).await.assert_error(503, "processing_timeout");
    assert_eq!(waiting().await, FULL as f64, "the message may be in the queue");
    world.proxies().broker.restore();
    world.ingests[0].until_sum("connect_backlog_units", &[("queue", "events")], 0.0).await;
}

#[tokio::test]
async fn the_lanes_of_events_yield_their_processor_to_the_others() {
    let world = World::start().await;
    let threads = std::fs::read_dir(format!("/proc/{}/task", world.workers[0].id())).expect("its threads");
    let stats = threads.map(|thread| std::fs::read_to_string(thread.expect("a thread").path().join("stat")));
    let lanes: Vec<String> = stats.filter_map(Result::ok).filter(|stat| stat.contains(" lane)")).collect();
    assert!(lanes.len() > 2, "{lanes:?}");
    for lane in lanes {
        // The niceness is the seventeenth field after the name (proc_pid_stat(5)).
        let niceness = lane.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(16));
        assert_eq!(niceness, Some(if lane.contains("events lane") { "5" } else { "0" }), "{lane}");
    }
}
