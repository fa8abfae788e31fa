//! What one agency, or one address, uses of the console leaves some to the others.

use super::ConsoleWorld;
use admin::console::new_form_id;
use futures_util::future::{join, join_all};
use tests::{World, until_equal};

#[tokio::test]
async fn the_slow_pages_of_an_agency_leave_connections_to_another_one() {
    let console = ConsoleWorld::start().await;
    console.world.add_tenant("other").await;
    let slow = console.admin().await;
    let other = console.signed_in(&["--role", "admin", "--tenant", "other"]).await;
    let locked = console.world.database.connect().await;
    locked.batch_execute("BEGIN; LOCK TABLE audit_records").await.expect("a lock");
    let waiting = join_all((0..20).map(|_| slow.get("/agencies/acme/audit")));
    let others = async {
        console.world.database.until_sessions("wait_event_type = 'Lock'", 2).await;
        for _ in 0..10 {
            assert_eq!(other.get("/agencies/other").await.status, 200, "a page of another agency");
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
    let requeue =
        || join_all(forms.iter().map(async |(path, id)| operator.post(path, &[("form", id)]).await));
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
    assert_eq!(
        (console.world.queues.depth("crm").await, console.world.queues.depth("records").await),
        (1, 1)
    );
}
