//! The feed of a subscription: `GET /webhooks` (D46).

use super::{OutboundWorld, Subscription};
use futures_util::future::join;
use serde_json::{Value, json};
use std::collections::HashMap;
use tests::dedicated_servers::{Postgres, StopMode};
use tests::raw::{RawConnection, head};
use tests::{
    ApiKey, Authority, Behavior, CommandOutput, HttpClient, HttpRequest, HttpResponse, RECORDS, Receiver, World,
    WorldBuilder, text, until, until_equal,
};

impl OutboundWorld {
    /// The shared world, with an ingest of its own.
    async fn join(builder: WorldBuilder) -> Self {
        let authority = Authority::shared();
        Self { world: builder.join().await, receiver: Receiver::https(&authority), authority }
    }

    /// A key that reads the feed of its subscription.
    async fn reader(&self, path: &str) -> (ApiKey, Subscription) {
        let key = self.world.add_key("webhooks:read").await;
        let subscription = self.subscribe(path, &["--key", &key.prefix]).await;
        (key, subscription)
    }

    /// What `key` reads, with these parameters.
    async fn read(&self, key: &ApiKey, parameters: &str) -> HttpResponse {
        read(self.world.http(), key, parameters).await
    }

    /// Begins as many waits as a tenant may have, and more until one is refused. Returns it, with those that wait.
    async fn fill_waits(&self, key: &ApiKey) -> (HttpRequest, Vec<RawConnection>) {
        let mut waiting = Vec::new();
        // One of them may be refused, because the other request has its place.
        for more in [16, 1, 1, 1] {
            for _ in 0..more {
                let mut connection = RawConnection::to(self.world.http().address()).await;
                connection.send_request(&request(key, "wait=30")).await;
                waiting.push(connection);
            }
            self.until_looks().await;
            let another = request(key, "wait=1");
            if self.world.http().send(&another).await.status == 503 {
                return (another, waiting);
            }
        }
        panic!("no request is refused");
    }

    async fn numbers(&self, key: &ApiKey, parameters: &str) -> Vec<i64> {
        numbers(&self.read(key, parameters).await.assert_status(200).json())
    }

    /// Reads a page as soon as its events are fanned out, crashes the server, and checks that the page is still the same. So that
    /// nothing else makes the fan-out durable, no attempt is recorded, and the server writes its log seldom.
    pub(super) async fn assert_a_page_outlives_a_crash(&mut self, postgres: &Postgres) {
        let key = self.world.add_tenant("zeta").await;
        let url = self.receiver.url_by_name("/paused");
        let paused = self.subscribe_of("zeta", &url, &["--key", &key.prefix]).await;
        self.change_subscription("pause", &paused).await;
        postgres.configure("SET wal_writer_delay = '10s'").await;
        let http = HttpClient::new(self.world.http().address());
        let (before, ()) =
            join(read(&http, &key, "wait=30"), self.insert_outbox_events_of("zeta", 3, "lead.assigned")).await;
        postgres.stop(StopMode::Immediate).await;
        self.world.dispatchers.clear();
        postgres.start_again().await;
        self.world.ingests[0].until_ready().await;
        let again = async || read(&http, &key, "").await;
        let after = until("the feed is read again", again, |page| page.status == 200).await;
        let (before, after) = (before.json(), after.json());
        let is_kept = deliveries(&after).starts_with(deliveries(&before));
        assert!(is_kept && !deliveries(&before).is_empty(), "{before} {after}");
    }

    /// Waits until a request that waits has looked again and again.
    async fn until_looks(&self) {
        let reads = async || self.world.ingests[0].metrics().await.sum("connect_record_reads_total", &[]);
        let before = reads().await;
        until("a request looks again and again", reads, |looks| *looks >= before + 3.0).await;
    }
}

fn request(key: &ApiKey, parameters: &str) -> HttpRequest {
    key.records("GET", &format!("{RECORDS}/webhooks?{parameters}"), "")
}

async fn read(http: &HttpClient, key: &ApiKey, parameters: &str) -> HttpResponse {
    http.send(&request(key, parameters)).await
}

fn deliveries(page: &Value) -> &[Value] {
    page["data"].as_array().expect("deliveries")
}

fn numbers(page: &Value) -> Vec<i64> {
    deliveries(page).iter().filter_map(|delivery| delivery["number"].as_i64()).collect()
}

#[tokio::test]
async fn the_feed_has_what_webhooks_have_under_numbers_that_no_attempt_or_replay_changes() {
    let outbound = OutboundWorld::shared().await;
    let (key, subscription) = outbound.reader("/hooks").await;
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(500)]);
    for _ in 0..3 {
        outbound.open_lead().await;
    }
    outbound.until_deliveries("delivered", 3).await;
    // One that is dead-lettered after six attempts, a test event that fails and is dropped, and one more.
    outbound.receiver.respond_to_next("/hooks", vec![Behavior::status(500); 7]);
    outbound.open_lead_until("dead", 1).await;
    outbound.world.connectctl.run(&["subscription", "test", &subscription.id]).await;
    outbound.open_lead_until("delivered", 4).await;
    outbound.world.database.until_count("SELECT count(*) FROM deliveries WHERE needs_notice", 0).await;
    let rows = async || outbound.world.database.rows("SELECT * FROM deliveries ORDER BY number", &[]).await;
    let before = rows().await;
    let response = outbound.read(&key, "").await;
    let page = response.json();
    assert_eq!((numbers(&page), &page["oldest"]), (vec![1, 2, 3, 4, 5, 6], &json!(1)));
    assert_eq!(rows().await, before, "reading changes nothing");
    for replayed in [0, 3] {
        let id = text(&deliveries(&page)[replayed]["deliveryId"]);
        outbound.world.connectctl.json(&["delivery", "replay", id]).await;
    }

    // Attempts: 4 of the first three, 6 of the dead one, 1 each of the dropped and the last one, and 2 replays.
    let received = outbound.receiver.wait_for(14).await;
    let by_id: HashMap<&str, &Value> =
        deliveries(&page).iter().map(|delivery| (text(&delivery["deliveryId"]), delivery)).collect();
    let as_sent = String::from_utf8_lossy(&response.body);
    for webhook in &received {
        let delivery = by_id[webhook.header("x-connect-delivery")];
        assert_eq!(webhook.header("x-connect-sequence"), delivery["number"].to_string());
        assert!(as_sent.contains(&format!("\"envelope\":{}", String::from_utf8_lossy(&webhook.body))));
    }
    let states: Vec<_> = deliveries(&page).iter().map(|delivery| text(&delivery["state"])).collect();
    assert_eq!(states, ["delivered", "delivered", "delivered", "dead", "dropped", "delivered"]);
    outbound.until_deliveries("delivered", 5).await;
    assert_eq!(outbound.numbers(&key, "after=0&limit=2").await, [1, 2]);
    assert_eq!(outbound.numbers(&key, "after=2").await, [3, 4, 5, 6]);
    for beyond in ["after=6", "after=9223372036854775807"] {
        assert_eq!(outbound.numbers(&key, beyond).await, [0; 0]);
    }

    // What retention and erasure leave.
    outbound.world.database.execute("DELETE FROM deliveries WHERE number = 1; DELETE FROM outbox").await;
    let page = outbound.read(&key, "").await.json();
    assert_eq!((numbers(&page), &page["oldest"]), (vec![2, 3, 4, 5, 6], &json!(2)));
    assert!(deliveries(&page).iter().all(|delivery| delivery["envelope"].is_null()), "{page}");
}

#[tokio::test]
async fn a_key_reads_its_own_subscription_and_as_often_as_other_reads() {
    let outbound = OutboundWorld::shared().await;
    let (key, own) = outbound.reader("/own").await;
    let (other, others) = outbound.reader("/others").await;
    let stranger = outbound.world.add_tenant("zeta").await;
    let not_found = async |key: &ApiKey, parameters: &str| {
        outbound.read(key, parameters).await.assert_error(404, "not_found");
    };
    let of = |subscription: &Subscription| format!("subscription={}", subscription.id);
    not_found(&key, &of(&others)).await;
    not_found(&stranger, &of(&own)).await;
    not_found(&stranger, "").await;
    not_found(&key, "subscription=x").await;
    outbound.open_lead_until("delivered", 2).await;
    assert_eq!(outbound.numbers(&key, &of(&own)).await, [1]);

    let second = outbound.subscribe("/second", &["--key", &key.prefix]).await;
    let message = outbound.read(&key, "").await.assert_error(400, "invalid_request");
    assert!(message.starts_with("subscription: "), "{message}");
    assert_eq!(outbound.numbers(&key, &of(&own)).await, [1]);
    assert_eq!(outbound.numbers(&key, &of(&second)).await, [0; 0]);
    for removed in [&own, &second] {
        outbound.change_subscription("remove", removed).await;
        not_found(&key, &of(removed)).await;
    }
    not_found(&key, "wait=30").await;

    for wrong in ["after=-1", "limit=0", "limit=101", "wait=31", "wait=x", "after=1&after=2"] {
        outbound.read(&other, wrong).await.assert_error(400, "invalid_request");
    }
    let all = outbound.read(&other, "after=%zz&limit=0&wait=x").await.assert_error(400, "invalid_request");
    assert!(["after: must", "; limit: must", "; wait: must"].iter().all(|fault| all.contains(fault)), "{all}");
    outbound.world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1"]).await;
    let read = async || outbound.read(&other, "").await.status;
    until("the key reads too often", read, |status| *status == 429).await;
}

#[tokio::test]
async fn a_request_waits_for_a_place_until_a_delivery_comes_its_key_or_subscription_goes_or_ingest_ends() {
    // Less than the longest wait.
    let builder = World::with().set("CONNECT_SHUTDOWN_TIMEOUT", "5s");
    let mut outbound = OutboundWorld::join(builder).await;
    let (key, _) = outbound.reader("/hooks").await;
    let used = request(&key, "wait=1");
    for status in [200, 401] {
        assert_eq!(outbound.world.http().send(&used).await.status, status);
    }
    let (refused, waiting) = outbound.fill_waits(&key).await;
    // Also while no place is free.
    outbound.world.http().send(&used).await.assert_error(401, "unauthorized");
    drop(waiting);
    let send = async || outbound.world.http().send(&refused).await.status;
    until_equal("its signature is not used up, and it waits", 200, send).await;
    let open = async {
        outbound.until_looks().await;
        outbound.open_lead().await;
    };
    let (response, ()) = join(outbound.read(&key, "wait=30s"), open).await;
    assert_eq!(numbers(&response.json()), [1]);
    let revoke = async {
        outbound.until_looks().await;
        outbound.world.connectctl.json(&["key", "revoke", &key.prefix]).await;
    };
    let (response, ()) = join(outbound.read(&key, "after=1&wait=30"), revoke).await;
    response.assert_error(401, "unauthorized");
    let (key, _) = outbound.reader("/rotated").await;
    let rotate = async {
        outbound.until_looks().await;
        outbound.world.connectctl.json(&["key", "rotate-secret", &key.prefix, "--overlap", "1h"]).await;
        outbound.until_looks().await;
        outbound.open_lead().await;
    };
    let (response, ()) = join(outbound.read(&key, "wait=30"), rotate).await;
    let last = numbers(&response.assert_status(200).json()).pop().expect("a delivery, during the overlap");
    let end_overlap = async {
        outbound.until_looks().await;
        outbound.world.connectctl.json(&["key", "end-overlap", &key.prefix]).await;
    };
    let (response, ()) = join(outbound.read(&key, &format!("after={last}&wait=30")), end_overlap).await;
    response.assert_error(401, "unauthorized");
    let (key, subscription) = outbound.reader("/removed").await;
    let remove = async {
        outbound.until_looks().await;
        outbound.change_subscription("remove", &subscription).await;
    };
    let (response, ()) = join(outbound.read(&key, "wait=30"), remove).await;
    response.assert_error(404, "not_found");

    let (key, _) = outbound.reader("/others").await;
    let http = HttpClient::new(outbound.world.http().address());
    // Its body arrives once the drain has begun.
    let mut late = RawConnection::to(http.address()).await;
    let head = head(&key.records("GET", &format!("{RECORDS}/webhooks?wait=30"), "x"));
    late.send([head.as_slice(), b"content-length: 1\r\n\r\n"].concat()).await;
    let responses = async {
        let first = read(&http, &key, "wait=30").await;
        late.send("x").await;
        (first, late.response().await.expect("a response"))
    };
    let end = async {
        outbound.until_looks().await;
        assert_eq!(outbound.world.ingests[0].terminate().await.code(), Some(0));
    };
    let ((response, late), ()) = join(responses, end).await;
    assert_eq!((response.status, numbers(&response.json())), (200, vec![]));
    assert!(late.status == 200 && late.body.contains("\"data\":[]"), "{late:?}");
}

/// Reads the feed until it has shown that many deliveries, each with the next number. Returns their envelopes.
async fn follow(http: &HttpClient, key: &ApiKey, count: usize) -> Vec<Value> {
    let mut shown = Vec::new();
    let mut reads = 0;
    while shown.len() < count {
        let response = read(http, key, &format!("after={}&limit=30&wait=1&nonce={reads}", shown.len())).await;
        assert_eq!(response.status, 200, "{response:?}");
        for delivery in deliveries(&response.json()) {
            shown.push(delivery["envelope"].clone());
            assert_eq!(delivery["number"], shown.len(), "the next number");
        }
        reads += 1;
    }
    shown
}

#[tokio::test]
async fn late_commits_killed_dispatchers_and_moved_slots_make_the_feed_neither_skip_nor_reorder() {
    let mut outbound = OutboundWorld::start().await;
    let (key, subscription) = outbound.reader("/hooks").await;
    let http = HttpClient::new(outbound.world.http().address());
    let faults = async {
        for round in 0..4 {
            // With an id that is lower than those of all other events, and a commit that is later.
            let mut client = outbound.world.database.connect().await;
            let late = client.transaction().await.expect("a transaction");
            let insert = format!(
                "WITH new AS (
                    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
                    SELECT tenant_id, '00000000-0000-7000-8000-00000000000{round}', 'lead.assigned', 'crm', '{{\"n\": 0}}', now()
                    FROM tenants RETURNING tenant_id, event_id, created_at
                )
                INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new"
            );
            late.batch_execute(&insert).await.expect("an event");
            outbound.insert_outbox_events(100, "lead.assigned").await;
            outbound.world.add_dispatcher().await;
            outbound.receiver.wait_for_at("/hooks", 101 * round + 20).await;
            outbound.world.dispatchers.remove(0).kill();
            late.commit().await.expect("the commit");
            outbound.world.database.execute("NOTIFY connect_outbox").await;
        }
    };
    let (shown, ()) = join(follow(&http, &key, 404), faults).await;
    let query = "SELECT o.envelope FROM deliveries d JOIN outbox o USING (tenant_id, event_id)
         WHERE d.subscription_id::text = $1 ORDER BY d.number";
    let stored = outbound.world.database.rows(query, &[&subscription.id]).await;
    assert_eq!(shown, stored.iter().map(|row| row["envelope"].clone()).collect::<Vec<_>>());
    outbound.assert_numbers_have_no_holes().await;
}

#[tokio::test]
async fn the_small_receiver_follows_a_feed() {
    let outbound = OutboundWorld::shared().await;
    let (key, _) = outbound.reader("/hooks").await;
    outbound.open_lead_until("delivered", 1).await;
    let settings = [
        ("CONNECT_URL", format!("http://{}/", outbound.world.http().address())),
        ("CONNECT_TENANT", key.tenant.clone()),
        ("CONNECT_KEY", key.prefix.clone()),
        ("CONNECT_SECRET", key.secret.clone()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let script = "out=$(mktemp); connect-receiver --follow >$out & follower=$!
        until [ $(wc -l <$out) -ge 2 ]; do sleep 0.1; done
        kill $follower; cat $out; rm $out; CONNECT_SECRET=other connect-receiver --follow";
    let (ran, _) = join(CommandOutput::bash(script, &settings), outbound.open_lead()).await;
    let lines: Vec<&str> = ran.output.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    for (number, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{} ", number + 1)) && line.contains(" lead.assigned, delivery "), "{line}");
    }
    assert!(ran.code == Some(1) && ran.errors.contains("401") && ran.errors.contains("X-Request-Id: "), "{ran:?}");
    let other = outbound.world.add_key("webhooks:read").await;
    let script = format!("CONNECT_KEY={} CONNECT_SECRET={} connect-receiver --follow", other.prefix, other.secret);
    let ran = CommandOutput::bash(&script, &settings).await;
    assert!(ran.code == Some(1) && ran.errors.contains("no subscription names this key"), "{ran:?}");

    let ran = CommandOutput::example("read-feed.py", &["1"], &settings, b"").await;
    assert_eq!((ran.code, ran.output.lines().count(), ran.errors.as_str()), (Some(0), 1, ""), "{ran:?}");
    assert!(ran.output.starts_with("2 {"), "{ran:?}");
    let ran = CommandOutput::example("read-feed.py", &["x"], &settings[..3], b"").await;
    assert!(ran.code == Some(2) && ran.errors.ends_with("missing or wrong: AFTER CONNECT_SECRET\n"), "{ran:?}");
}
