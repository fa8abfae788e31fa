//! What one agency, or one address, uses of the console leaves some to the others.

use super::{ConsoleWorld, body};
use admin::console::new_form_id;
use futures_util::future::{join, join_all};
use tests::raw::RawConnection;
use tests::{World, until_equal};

#[tokio::test]
async fn the_slow_pages_of_two_agencies_leave_connections_to_another_one() {
    let console = ConsoleWorld::start().await;
    console.world.add_tenant("second").await;
    console.world.add_tenant("other").await;
    let slow = console.admin().await;
    let second = console.signed_in(&["--role", "admin", "--tenant", "second"]).await;
    let other = console.signed_in(&["--role", "admin", "--tenant", "other"]).await;
    let locked = console.world.database.begin("LOCK TABLE audit_records").await;
    let pages = [(&slow, "/agencies/acme/audit"), (&second, "/agencies/second/audit")];
    let waiting = join_all((0..40).map(|n: usize| pages[n % 2].0.get(pages[n % 2].1)));
    let others = async {
        console.world.database.until_sessions("wait_event_type = 'Lock'", 2).await;
        for _ in 0..10 {
            assert_eq!(other.get("/agencies/other").await.status, 200, "a page of a third agency");
            assert_eq!(slow.get("/agencies/other").await.status, 404, "a session is found and refused");
        }
        locked.batch_execute("COMMIT").await.expect("no lock");
    };
    let (waiting, ()) = join(waiting, others).await;
    assert!(waiting.iter().any(|page| page.status == 200), "{waiting:?}");
}

#[tokio::test]
async fn operations_that_wait_for_the_broker_hold_no_connection_to_the_database() {
    let console = ConsoleWorld::of(World::with().ingests(0).workers(0).through_proxies()).await;
    let operator = console.operator().await;
    let (_, token) = operator.cookie.as_deref().and_then(|cookie| cookie.split_once('=')).expect("a session");
    let forms = ["crm", "records"].map(|queue| (format!("/queues/{queue}/requeue"), new_form_id(token)));
    // Longer than what passes to the broker when they are sent to their queues again.
    for queue in ["crm.dead", "records.dead"] {
        console.world.queues.publish(queue, &[b'x'; 300_000]).await;
    }
    console.world.proxies().broker.stall_after(100_000);
    let requeue = || join_all(forms.iter().map(async |(path, id)| operator.post(path, &[("form", id)]).await));
    let others = async {
        let begun = "SELECT count(*) FROM audit_records WHERE action = 'queue.requeue'";
        until_equal("both have begun", 2, async || console.world.database.count(begun).await).await;
        for _ in 0..10 {
            assert_eq!(operator.get("/agencies/acme").await.status, 200);
        }
        assert_eq!(operator.get("/queues").await.status, 503, "the wait for the broker ends");
        console.world.proxies().broker.reset_connections();
    };
    let (stopped, ()) = join(requeue(), others).await;
    assert!(stopped.iter().all(|response| response.status == 503), "{stopped:?}");
    console.world.proxies().broker.restore();
    let requeued = requeue().await;
    assert!(requeued.iter().all(|response| response.status == 303), "the same forms: {requeued:?}");
    assert_eq!((console.world.queues.depth("crm").await, console.world.queues.depth("records").await), (1, 1));
}

/// Sends a request from `source` without the end of its body.
async fn begin(console: &ConsoleWorld, source: [u8; 4], length: usize, header: &str) -> RawConnection {
    let mut connection = RawConnection::from(source, console.http().address()).await;
    let head = format!(
        "POST /sign-in HTTP/1.1\r\nhost: connect\r\nsec-fetch-site: same-origin\r\ncontent-length: {length}\r\n\
         content-type: application/x-www-form-urlencoded\r\n{header}\r\n"
    );
    connection.send([head.into_bytes(), vec![b'x'; length - 1]].concat()).await;
    connection
}

#[tokio::test]
async fn forms_that_need_no_session_leave_memory_to_the_others() {
    let console = ConsoleWorld::start().await;
    let admin = console.admin().await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut long = begin(&console, [127, 0, 0, 1], 1 << 20, "").await;
        assert_eq!(long.response().await.expect("a response").status, 413);
        slow.push(begin(&console, [127, 0, 0, 1], 8 << 10, "").await);
    }
    admin.change("/agencies/acme/members", &[("email", "m@example.com"), ("name", "Mo")]).await;
    let refused = console.visitor().post("/sign-in", &[("token", "cl_none")]).await;
    assert_eq!(refused.status, 410, "{}", body(&refused));
}

#[tokio::test]
async fn peers_behind_a_trusted_proxy_have_shares_of_their_own() {
    const PROXY: [u8; 4] = [127, 0, 0, 9];
    let builder = World::with().ingests(0).workers(0).set("CONNECT_TRUSTED_PROXIES", "127.0.0.9");
    let console = ConsoleWorld::of(builder).await;
    let status = async |peer: &str| {
        let mut connection = RawConnection::from(PROXY, console.http().address()).await;
        let get = format!("GET /sign-in HTTP/1.1\r\nhost: connect\r\nx-forwarded-for: {peer}\r\n\r\n");
        connection.send(get).await;
        connection.response().await.map(|response| response.status)
    };
    let mut slow = Vec::new();
    // More than the 128 of one address: one that arrives while another is asked for is refused.
    for _ in 0..140 {
        slow.push(begin(&console, PROXY, 100, "x-forwarded-for: 192.0.2.1\r\n").await);
    }
    until_equal("the share is used up", Some(503), async || status("198.51.100.1, 192.0.2.1").await).await;
    assert_eq!(status("192.0.2.2").await, Some(200));
    drop(slow);
    until_equal("the share is free", Some(200), async || status("192.0.2.1").await).await;
}
