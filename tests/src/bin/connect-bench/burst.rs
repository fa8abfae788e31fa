//! Another agency that sends full batches of events without pause.

use crate::traffic;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::{ApiKey, World};

/// Callers of that agency at once.
const SENDERS: usize = 8;

/// Does `work` meanwhile.
pub(crate) async fn during_burst<T>(world: &World, other: &ApiKey, work: impl Future<Output = T>) -> T {
    let is_over = AtomicBool::new(false);
    let sender = || async {
        while !is_over.load(Ordering::Relaxed) {
            let body = traffic::body(&traffic::next("burst", 100)).replace("\"acme\"", "\"burst\"");
            let answer = world.http().send(&other.events(body)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    let work = async {
        let done = work.await;
        is_over.store(true, Ordering::Relaxed);
        done
    };
    futures_util::join!(join_all((0..SENDERS).map(|_| sender())), work).1
}
