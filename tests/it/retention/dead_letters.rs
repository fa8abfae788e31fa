//! Messages of dead-letter queues expire only if that is set, and never those of webhooks, which can be replayed.

use tests::{QueuedMessage, World};

#[tokio::test]
async fn dead_letters_expire_only_if_that_is_set_and_never_those_of_webhooks() {
    let world = World::with().dispatchers(1).set("CONNECT_RETENTION_DEAD_LETTERS", "1s").start().await;
    let mut kept = World::start().await;
    for (world, queue) in [(&kept, "events.dead"), (&world, "webhooks.dead"), (&world, "events.dead")] {
        world.until_ready().await;
        world.queues.publish_all(queue, &[QueuedMessage::new(b"a message")]).await;
    }
    world.until_depth("events.dead", 0).await;
    // What the broker dead-letters expires as well.
    world.queues.publish("records", b"unreadable").await;
    world.until_depth("records", 0).await;
    world.workers[0].until_logged("message dead-lettered").await;
    world.until_depth("records.dead", 0).await;
    assert_eq!((world.queues.depth("webhooks.dead").await, kept.queues.depth("events.dead").await), (1, 1));
    // A queue that exists is used as it is.
    kept.set("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    kept.add_worker().await;
    kept.workers[1].until_ready().await;
    kept.workers[1].until_logged("queue exists with other arguments; using it as it is").await;
}
