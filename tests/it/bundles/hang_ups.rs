//! Callers that hang up while their request waits.

use super::{identified, results, stallable, take_messages, until_published, until_submitted};
use futures_util::future::{AbortHandle, abortable};
use tests::{Answer, Http, PATIENCE, World, eventually, text};

/// Sends a request until it isn't refused for want of a place.
async fn send_when_there_is_a_place(world: &World, email: &str) -> Answer {
    let http = Http::new(world.http().address());
    eventually("there is a place", PATIENCE, async || {
        let answer = http.send(&identified(&world.key, email)).await;
        if answer.status == 503 { Err(format!("{answer:?}")) } else { Ok(answer) }
    })
    .await
}

#[tokio::test]
async fn a_request_whose_caller_hangs_up_while_it_waits_is_not_published() {
    let mut world = stallable().workers(0).set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "3").start().await;
    let http = Http::new(world.http().address());
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let ([kept_request, gone_request], first_request) = (
        ["kept", "gone"].map(|name| identified(&world.key, &format!("{name}@example.com"))),
        identified(&world.key, "first@example.com"),
    );
    let (gone, hang_up) = abortable(async { Http::new(world.http().address()).send(&gone_request).await });
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
        gone.await.expect_err("its caller hangs up");
    };
    let late = async {
        after(1, 3).await;
        AbortHandle::abort(&hang_up);
        // Its place is free once ingest has noticed.
        send_when_there_is_a_place(&world, "late@example.com").await
    };
    let driving = async {
        after(1, 4).await;
        world.proxies().broker.restore();
        let messages = take_messages(&world, 3).await;
        world.queues.put_all("events", &messages).await;
        tests::Program::worker(world.settings()).await
    };
    let (first, kept, (), late, worker) =
        futures_util::join!(http.send(&first_request), kept, gone, late, driving);
    world.workers.push(worker);
    for answer in [&first, &kept, &late] {
        assert_eq!(results(answer)[0]["status"], "accepted");
    }
    let emails = world.database.rows("SELECT email FROM clients ORDER BY email", &[]).await;
    let emails: Vec<&str> = emails.iter().map(|row| text(&row["email"])).collect();
    assert_eq!(emails, ["first@example.com", "kept@example.com", "late@example.com"]);
}
