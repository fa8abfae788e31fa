//! A rotation of the master key while requests run: the programs are replaced one by one, in the order that
//! docs/operators.md gives, and no request fails.

use super::{CURRENT, NEW_MASTER_KEY, PREVIOUS, counts, remove_previous, swap, swapped, with_new_key};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tests::{ApiKey, HttpClient, Receiver, World, batch, event, text, until};
use tokio::sync::RwLock;

/// Sends enquiries one after the other until it is stopped; each must be accepted.
struct Load {
    /// The ingest that is sent to. Written only while no request is under way.
    target: RwLock<HttpClient>,
    accepted: AtomicUsize,
    is_stopped: AtomicBool,
}

impl Load {
    async fn send(&self, key: &ApiKey) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let email = format!("{}@example.com", uuid::Uuid::now_v7().simple());
            let enquiry = event("enquiry.submitted").email(&email).name("Ana");
            let response = self.target.read().await.send(&key.events(batch(&[enquiry]))).await.assert_status(200);
            assert_eq!(response.json()["results"][0]["status"], "accepted", "{response:?}");
            self.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until requests that began from now on were accepted.
    async fn until_more_accepted(&self) {
        let before = self.accepted.load(Ordering::Relaxed);
        let now = async || self.accepted.load(Ordering::Relaxed);
        until("more requests are accepted", now, |&now| now > before + 4).await;
    }
}

/// Replaces every program by one with the current settings, one after the other.
async fn roll(world: &mut World, load: &Load) {
    world.add_worker().await;
    world.workers[world.workers.len() - 1].until_ready().await;
    // The new worker beside the old one, and both beside an old ingest.
    load.until_more_accepted().await;
    world.workers.remove(0).terminate().await;
    world.add_dispatcher().await;
    world.dispatchers.remove(0).terminate().await;
    world.add_ingest().await;
    *load.target.write().await = HttpClient::new(world.ingests[1].http().address());
    load.until_more_accepted().await;
    world.ingests.remove(0).terminate().await;
}

#[tokio::test]
async fn a_rotation_of_the_master_key_fails_no_request() {
    let mut world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let receiver = Receiver::http();
    let subscription = world.subscribe(&receiver.url("/hooks")).await;
    let rotate = ["subscription", "rotate-secret", text(&subscription["id"]), "--overlap", "1h"];
    let subscription_secret = world.connectctl.json(&rotate).await;
    world.until_ready().await;
    let (key, target) = (world.key.clone(), RwLock::new(HttpClient::new(world.http().address())));
    let load = Load { target, accepted: AtomicUsize::default(), is_stopped: AtomicBool::default() };
    let rotation = async {
        load.until_more_accepted().await;
        world.set(PREVIOUS, NEW_MASTER_KEY);
        roll(&mut world, &load).await;
        swap(&mut world);
        roll(&mut world, &load).await;
        let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
        assert_eq!((&rotated["remaining"], &rotated["unreadable"]), (&0.into(), &0.into()), "{rotated}");
        load.until_more_accepted().await;
        remove_previous(&mut world);
        roll(&mut world, &load).await;
        load.is_stopped.store(true, Ordering::Relaxed);
    };
    futures_util::join!(load.send(&key), load.send(&key), rotation);
    let accepted = load.accepted.into_inner();
    let leads = world.database.count("SELECT count(*) FROM leads").await;
    assert_eq!(usize::try_from(leads).ok(), Some(accepted), "each enquiry is one lead");
    let webhooks = receiver.wait_for(accepted).await;
    for secret in [&subscription["secret"], &subscription_secret["secret"]] {
        assert!(webhooks.iter().all(|webhook| webhook.verify(text(secret)).is_ok()), "both secrets sign");
    }
    for queue in ["events.dead", "records.dead", "webhooks.dead"] {
        assert_eq!(world.queues.depth(queue).await, 0, "{queue}");
    }
    let counted = counts(&with_new_key(&world)).await;
    assert_eq!(counted["previous"], 0, "{counted}");
}

#[tokio::test]
async fn messages_that_were_signed_before_the_swap_are_applied_after_it() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    let contact = |email: &str| event("contact.identified").email(email);
    world.send(&[contact("queued@example.com")]).await.assert_error(503, "processing_timeout");
    // Without the previous key nothing is consumed, so the message is not taken for a forged one.
    world.set(CURRENT, NEW_MASTER_KEY);
    world.add_worker().await;
    assert_eq!(world.workers[0].until_unready().await["checks"]["master_key"], false);
    world.until_depth("events", 1).await;
    swap(&mut world);
    world.add_worker().await;
    world.until_applied(1).await;
    assert_eq!(world.queues.depth("events.dead").await, 0);
}
