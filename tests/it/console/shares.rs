//! What one agency, or one address, uses of the console leaves some to the others.

use super::ConsoleWorld;
use futures_util::future::{join, join_all};

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
