//! What may happen only once at a time for the same key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// What is under way, by key. It is until its guard is dropped.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<HashMap<String, Weak<AsyncMutex<()>>>>);

impl UnderWay {
    /// Waits until nothing else with this key is under way.
    pub(crate) async fn enter(&self, key: &str) -> OwnedMutexGuard<()> {
        let of_key = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, one| one.strong_count() > 0);
            let of_key: Arc<AsyncMutex<()>> = all.get(key).and_then(Weak::upgrade).unwrap_or_default();
            all.insert(key.to_owned(), Arc::downgrade(&of_key));
            of_key
        };
        of_key.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn one_with_each_key_is_under_way_and_the_key_is_forgotten_after_it() {
        let under_way = UnderWay::default();
        let first = under_way.enter("one").await;
        let mut second = pin!(under_way.enter("one"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(under_way.enter("other").await);
        drop(first);
        assert!(second.poll(&mut context).is_ready());
        drop(under_way.enter("other").await);
        assert_eq!(under_way.0.lock().unwrap().len(), 1);
    }
}
