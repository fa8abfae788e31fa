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

/// What may happen only a few times at once, by key.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Vec<String>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>, String);

impl Places {
    /// Takes a place, unless `all` are taken, or `of_key` by this key.
    pub(crate) fn take(self: &Arc<Self>, key: &str, all: usize, of_key: usize) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= all || taken.iter().filter(|other| *other == key).count() >= of_key {
            return None;
        }
        taken.push(key.to_owned());
        Some(Place(Arc::clone(self), key.to_owned()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|key| *key == self.1) {
            taken.swap_remove(at);
        }
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

    #[test]
    fn each_key_and_all_together_have_a_few_places() {
        let places = Arc::new(Places::default());
        let mut taken: Vec<_> = ["a", "a", "a", "b", "c"].map(|key| places.take(key, 3, 2)).into();
        assert_eq!(taken.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true, false]);
        drop(taken.remove(0));
        assert!(places.take("a", 3, 2).is_some());
    }
}
