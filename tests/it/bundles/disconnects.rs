//! Callers that disconnect while their request waits.

use super::{identified, identified_each, results, stallable, take_messages, until_published, until_submitted};
use futures_util::future::{AbortHandle, abortable, join_all};
use tests::raw::RawConnection;
use tests::{HttpClient, HttpRequest, World, batch, event, text, until_equal};

#[tokio::test]
async fn a_request_whose_caller_disconnects_while_waiting_is_not_published() {
    let mut world = stallable().workers(0).start().await;
    let http = HttpClient::new(world.http().address());
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let ([kept_request, gone_request], first_request) = (
        ["kept", "gone"].map(|name| identified(&world.key, &format!("{name}@example.com"))),
        identified(&world.key, "first@example.com"),
    );
    let (gone, hang_up) = abortable(async { HttpClient::new(world.http().address()).send(&gone_request).await });
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
        // Ingest has noticed the disconnect.
        ingest.until_sum("connect_http_connections", &[("state", "active")], 2.0).await;
        http.send(&identified(&world.key, "late@example.com")).await
    };
    let driving = async {
        after(1, 4).await;
        world.proxies().broker.restore();
        let messages = take_messages(&world, 3).await;
        world.queues.publish_all("events", &messages).await;
        tests::Program::worker(world.settings()).await
    };
    let (first, kept, (), late, worker) = futures_util::join!(http.send(&first_request), kept, gone, late, driving);
    world.workers.push(worker);
    for response in [&first, &kept, &late] {
        assert_eq!(results(response)[0]["status"], "accepted");
    }
    let emails = world.database.rows("SELECT email FROM clients ORDER BY email", &[]).await;
    let emails: Vec<&str> = emails.iter().map(|row| text(&row["email"])).collect();
    assert_eq!(emails, ["first@example.com", "kept@example.com", "late@example.com"]);
}

/// Sends requests, and disconnects once all of them wait.
async fn send_and_hang_up(world: &World, requests: &[HttpRequest]) {
    let connections = join_all(requests.iter().map(async |request| {
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send_request(request).await;
        connection
    }));
    let connections = connections.await;
    until_submitted(&world.ingests[0], requests.len()).await;
    drop(connections);
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 0.0).await;
}

#[tokio::test]
async fn disconnected_requests_on_a_slow_broker_keep_their_shares_and_another_tenant_is_served() {
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
    let requests = identified_each(&world.key, 100);
    send_and_hang_up(&world, &requests).await;
    let waiting = async || ingest.metrics().await.sum("connect_backlog_units", &[("queue", "events")]);
    assert_eq!(waiting().await, requests.len() as f64, "a disconnect releases no share");
    let quiet = event("contact.identified").tenant(&other.tenant).email("quiet@example.com");
    let quiet = other.events(batch(&[quiet]));
    let driving = async {
        until_submitted(ingest, requests.len() + 1).await;
        world.proxies().broker.restore();
    };
    let (response, ()) = futures_util::join!(world.http().send(&quiet), driving);
    assert_eq!(results(&response)[0]["status"], "accepted");
    until_equal("the shares are released", 0.0, async || waiting().await).await;
}
