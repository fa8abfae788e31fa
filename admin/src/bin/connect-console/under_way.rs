//! What may happen only once, or a few times, at a time for the same key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is under way, by key. It is until its permit is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    of_one: usize,
    by_key: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl UnderWay {
    /// With the same key `of_one` may be under way at a time.
    pub(crate) fn new(of_one: usize) -> Self {
        Self { of_one, by_key: Mutex::default() }
    }

    /// Waits until fewer with this key are under way, behind others with this key.
    pub(crate) async fn enter(&self, key: &str) -> OwnedSemaphorePermit {
        let of_key = {
            let mut all = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, one| one.strong_count() > 0);
            let of_key = all.get(key).and_then(Weak::upgrade);
            let of_key = of_key.unwrap_or_else(|| Arc::new(Semaphore::new(self.of_one)));
            all.insert(key.to_owned(), Arc::downgrade(&of_key));
            of_key
        };
        of_key.acquire_owned().await.expect("it is never closed")
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
    async fn a_few_with_each_key_are_under_way_and_the_key_is_forgotten_after_them() {
        let under_way = UnderWay::new(2);
        let (first, _other) = (under_way.enter("one").await, under_way.enter("one").await);
        let mut second = pin!(under_way.enter("one"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(under_way.enter("other").await);
        drop(first);
        assert!(second.poll(&mut context).is_ready());
        drop(under_way.enter("other").await);
        assert_eq!(under_way.by_key.lock().unwrap().len(), 1);
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
