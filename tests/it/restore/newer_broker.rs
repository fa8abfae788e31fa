//! The broker is newer than the database: what was committed after the backup is lost, and what waits in the broker is not.

use super::{applied, dump_file, enquiry, leave_in_queue, start_programs, world};
use tests::dedicated_servers::Postgres;
use tests::{Behavior, Receiver, World};

#[tokio::test]
async fn beside_a_newer_broker_what_was_committed_after_the_backup_is_lost_until_it_is_resent() {
    let (receiver, server) = (Receiver::http(), Postgres::start().await);
    let mut world = world(World::with(), &receiver).await;
    world.accept_with_retries(enquiry("ana").id("ana")).await;
    let pending = "SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0";
    world.database.until_count(pending, 1).await;
    let file = dump_file("newer");
    world.database.dump(&file).await;

    let bo = enquiry("bo").id("bo");
    let lost = world.accept_with_retries(bo.clone()).await;
    world.database.until_count(pending, 2).await;
    let webhook = "SELECT event_id::text AS id FROM outbox ORDER BY event_id DESC LIMIT 1";
    let webhook = world.database.rows(webhook, &[]).await.remove(0)["id"].clone();
    leave_in_queue(&mut world, &enquiry("cy").id("cy")).await;
    world.kill_programs();
    let restored = world.database.restored(&file, &server).await;
    world.use_database(restored);
    let last_number = world.database.count("SELECT max(last)::bigint FROM enquiry_counters").await;
    receiver.clear_received();
    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;

    // What waited in the broker is applied. The counter of enquiry numbers is as old as the backup.
    world.database.until_count("SELECT count(*) FROM event_ledger", 2).await;
    assert_eq!(applied(&world).await, ["ana", "cy"], "what was confirmed after the backup is lost");
    let number = "SELECT split_part(enquiry_number, '-', 3)::bigint FROM leads
        JOIN event_ledger USING (tenant_id, lead_id) WHERE event_id = 'cy'";
    assert_eq!(world.database.count(number).await, last_number + 1, "given out again");
    // The webhooks of what is there are delivered. That of the lost enquiry is lost with it.
    let delivered = "SELECT count(*) FROM deliveries WHERE state = 'delivered'";
    world.database.until_count(delivered, 2).await;
    assert!(receiver.received().iter().all(|request| request.json()["eventId"] != webhook), "{webhook}");
    // Resent, it is applied as if it were new.
    let resent = world.accept_with_retries(bo).await;
    assert_eq!(resent["status"], "accepted");
    assert_ne!(resent["leadId"], lost["leadId"]);
    world.database.until_count(delivered, 3).await;
    drop(std::fs::remove_file(file));
}
