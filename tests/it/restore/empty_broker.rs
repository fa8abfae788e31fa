//! The broker is empty, or was lost with its data: what it held is lost, and nothing else.

use super::{applied, dump_file, enquiry, leave_in_queue, start_programs, world};
use tests::dedicated_servers::Postgres;
use tests::{Behavior, Receiver, World, text};

#[tokio::test]
async fn beside_an_empty_broker_webhooks_go_on_and_unapplied_events_are_lost() {
    let (receiver, server) = (Receiver::http(), Postgres::start().await);
    let mut world = world(World::with(), &receiver).await;
    let ana = enquiry("ana").id("ana");
    let confirmed = world.accept_with_retries(ana.clone()).await;
    // Its next attempt waits.
    world
        .database
        .until_count("SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0", 1)
        .await;
    let bo = enquiry("bo").id("bo");
    leave_in_queue(&mut world, &bo).await;
    world.kill_programs();
    let file = dump_file("empty");
    world.database.dump(&file).await;
    let restored = world.database.restored(&file, &server).await;
    world.use_database(restored);
    world.use_empty_queues();
    let first = receiver.received().remove(0);
    receiver.clear_received();
    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;

    // The delivery that waited is sent under the same ids.
    world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'delivered'", 1).await;
    let sent = receiver.received().remove(0);
    assert_eq!(sent.header("x-connect-delivery"), first.header("x-connect-delivery"));
    assert_eq!(sent.body, first.body);
    // What was confirmed is there.
    let again = world.accept_with_retries(ana).await;
    assert_eq!((text(&again["status"]), &again["leadId"]), ("duplicate", &confirmed["leadId"]));
    // What waited to be applied is lost: its partner, who got 503, sends it again.
    assert_eq!(applied(&world).await, ["ana"]);
    assert_eq!(world.accept_with_retries(bo).await["status"], "accepted");
    drop(std::fs::remove_file(file));
}
