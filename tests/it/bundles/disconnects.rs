//! Callers that disconnect while their request waits.

use super::{
    identified, identified_each, results, stallable, take_messages, until_published, until_submitted,
};
use futures_util::future::{AbortHandle, abortable, join_all};
use tests::event::batch;
use tests::raw::RawConnection;
use tests::{HttpClient, HttpRequest, HttpResponse, MAX_WAIT, World, event, eventually, text, until_equal};

/// More requests than may wait to be published, of one tenant.
const MORE_THAN_MAY_WAIT: usize = 1_100;
/// How many of them are sent at once.
const AT_ONCE: usize = 100;

/// Sends a request until it is not refused as overloaded.
async fn send_when_there_is_a_place(world: &World, email: &str) -> HttpResponse {
    let http = HttpClient::new(world.http().address());
    eventually("there is a place", MAX_WAIT, async || {
        let response = http.send(&identified(&world.key, email)).await;
        if response.status == 503 { Err(format!("{response:?}")) } else { Ok(response) }
    })
    .await
}

#[tokio::test]
async fn a_request_whose_caller_disconnects_while_waiting_is_not_published() {
    let mut world = stallable().workers(0).set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "3").start().await;
    let http = HttpClient::new(world.http().address());
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let ([kept_request, gone_request], first_request) = (
        ["kept", "gone"].map(|name| identified(&world.key, &format!("{name}@example.com"))),
        identified(&world.key, "first@example.com"),
    );
    let (gone, hang_up) =
        abortable(async { HttpClient::new(world.http().address()).send(&gone_request).await });
    let after = async |published: usize, submitted: usize| {
        until_published(ingest, published).await;
        until_submitted(ingest, submitted).await;
    };
    let kept = async {
        after(1, 1).await;
        http.send(&kept_request).await
    };
    let gone = async {
        after(1, 2).await;
        gone.await.expect_err("its caller disconnects");
    };
    let late = async {
        after(1, 3).await;
        AbortHandle::abort(&hang_up);
        // Its place is free once ingest has noticed the disconnect.
        send_when_there_is_a_place(&world, "late@example.com").await
    };
    let driving = async {
        after(1, 4).await;
        world.proxies().broker.restore();
        let messages = take_messages(&world, 3).await;
        world.queues.publish_all("events", &messages).await;
        tests::Program::worker(world.settings()).await
    };
    let (first, kept, (), late, worker) =
        futures_util::join!(http.send(&first_request), kept, gone, late, driving);
    world.workers.push(worker);
    for response in [&first, &kept, &late] {
        assert_eq!(results(response)[0]["status"], "accepted");
    }
    let emails = world.database.rows("SELECT email FROM clients ORDER BY email", &[]).await;
    let emails: Vec<&str> = emails.iter().map(|row| text(&row["email"])).collect();
    assert_eq!(emails, ["first@example.com", "kept@example.com", "late@example.com"]);
}

/// Sends requests, and disconnects once all of them wait behind `before` earlier ones.
async fn send_and_hang_up(world: &World, requests: &[HttpRequest], before: usize) {
    let connections = join_all(requests.iter().map(async |request| {
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send_request(request).await;
        connection
    }));
    let connections = connections.await;
    until_submitted(&world.ingests[0], before + requests.len()).await;
    drop(connections);
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 0.0).await;
}

#[tokio::test]
async fn disconnected_requests_on_a_slow_broker_do_not_lock_out_another_tenant() {
    let world = stallable()
        .heartbeat(120)
        .set("CONNECT_BACKLOG_TARGET", "60s")
        .set("CONNECT_PUBLISH_TIMEOUT", "100s")
        .set("CONNECT_REPLY_TIMEOUT", "110s")
        .start()
        .await;
    let other = world.add_tenant("other").await;
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let requests = identified_each(&world.key, MORE_THAN_MAY_WAIT);
    for (number, some) in requests.chunks(AT_ONCE).enumerate() {
        send_and_hang_up(&world, some, number * AT_ONCE).await;
    }
    let waiting = async || ingest.metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
    assert_eq!(waiting().await, MORE_THAN_MAY_WAIT as f64, "a disconnect releases no share");
    let quiet = event("contact.identified").tenant(&other.tenant).email("quiet@example.com");
    let quiet = other.events(batch(&[quiet]));
    let driving = async {
        until_submitted(ingest, MORE_THAN_MAY_WAIT + 1).await;
        world.proxies().broker.restore();
    };
    let (response, ()) = futures_util::join!(world.http().send(&quiet), driving);
    assert_eq!(results(&response)[0]["status"], "accepted");
    until_equal("the shares are released", 0.0, async || waiting().await).await;
}
