//! The broker is older than the database: it delivers messages again that were processed.

use super::{applied, enquiry, leave_in_queue, received, start_programs, world};
use serde_json::json;
use tests::dedicated_servers::{Broker, StopMode};
use tests::{Behavior, QueuedMessage, Receiver, World};

/// Queues that have messages at some time of the test.
const QUEUES: [&str; 2] = ["events", "crm"];

fn open_lead(name: &str) -> QueuedMessage {
    let body = json!({"action": "open-lead", "tenant": "acme", "email": format!("{name}@example.com")});
    QueuedMessage::new(body.to_string().as_bytes())
}

async fn leads_of(world: &World, name: &str) -> i64 {
    let query = format!(
        "SELECT count(*) FROM leads JOIN clients USING (tenant_id, client_id) WHERE email = '{name}@example.com'"
    );
    world.database.count(&query).await
}

#[tokio::test]
async fn beside_an_older_broker_nothing_is_repeated_except_actions_without_a_message_id() {
    let (broker, receiver) = (Broker::start().await, Receiver::http());
    let mut world = world(World::with().on_broker(broker.url()), &receiver).await;
    world.accept_with_retries(enquiry("ana").id("ana")).await;
    world
        .database
        .until_count("SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0", 1)
        .await;
    world.dispatchers.clear();
    leave_in_queue(&mut world, &enquiry("bo").id("bo")).await;
    world.queues.publish_message("crm", &open_lead("cy").with_id("cy")).await;
    world.queues.publish_message("crm", &open_lead("di")).await;
    world.kill_programs();
    broker.stop(StopMode::Fast).await;
    broker.back_up();
    broker.start_again().await;

    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;
    let settled = "SELECT count(*) FROM deliveries WHERE state = 'delivered'";
    world.database.until_count(settled, 4).await;
    let (first_applied, first_received) = (applied(&world).await, received(&receiver));
    assert_eq!((first_applied.len(), first_received.len()), (4, 4));
    world.kill_programs();
    broker.stop(StopMode::Fast).await;
    broker.restore();
    broker.start_again().await;
    receiver.clear_received();
    start_programs(&mut world).await;

    for queue in QUEUES {
        world.until_depth(queue, 0).await;
    }
    // The action without an id is performed again, and its event is sent.
    world.database.until_count(settled, 5).await;
    world.end_workers().await;
    let second = applied(&world).await;
    assert_eq!(second.len(), 5, "{second:?}");
    assert!(first_applied.iter().all(|id| second.contains(id)), "{second:?}");
    for (name, leads) in [("ana", 1), ("bo", 1), ("cy", 1), ("di", 2)] {
        assert_eq!(leads_of(&world, name).await, leads, "{name}");
    }
    let again = received(&receiver);
    assert_eq!(again.len(), 1, "only the new event is sent");
    assert!(!first_received.contains(&again[0]), "{again:?}");
}
