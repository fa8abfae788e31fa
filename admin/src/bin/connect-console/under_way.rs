//! What may happen only once, or a few times, at a time for the same key.

use crate::failure::Failure;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// What is under way, by key. It is until its permit is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    of_one: usize,
    waiting: usize,
    by_key: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl UnderWay {
    /// With the same key `of_one` may be under way at a time, and `waiting` more may wait, each with a connection to the console.
    pub(crate) fn new(of_one: usize, waiting: usize) -> Self {
        Self { of_one, waiting, by_key: Mutex::default() }
    }

    /// Waits until fewer with this key are under way, behind others with this key. Too many others fail at once.
    pub(crate) async fn enter(&self, key: &str) -> Result<OwnedSemaphorePermit, Failure> {
        let of_key = {
            let mut all = self.by_key.lock();
            all.retain(|_, one| one.strong_count() > 0);
            let of_key = all.get(key).and_then(Weak::upgrade);
            let of_key = of_key.unwrap_or_else(|| Arc::new(Semaphore::new(self.of_one)));
            all.insert(key.to_owned(), Arc::downgrade(&of_key));
            of_key
        };
        // Each that is under way or waits has it, and so has this one.
        if Arc::strong_count(&of_key) > self.of_one + self.waiting {
            return Err(Failure::Overloaded);
        }
        Ok(of_key.acquire_owned().await.expect("it is never closed"))
    }
}

/// What may happen only a few times at once, by key.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Vec<Arc<Taken>>>);

#[derive(Debug)]
struct Taken {
    key: String,
    lost: CancellationToken,
}

/// One of them, until it is dropped, or lost to another key.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>, Arc<Taken>);

impl Places {
    /// Takes a place, unless this key has `of_key` of them. When `all` are taken, the key with the most places loses the one that it
    /// took first, but nobody loses their only one.
    pub(crate) fn take(self: &Arc<Self>, key: &str, all: usize, of_key: usize) -> Option<Place> {
        let mut places = self.0.lock();
        let count = |key: &str| places.iter().filter(|taken| taken.key == key).count();
        if count(key) >= of_key {
            return None;
        }
        if places.len() >= all {
            let most = places.iter().map(|taken| count(&taken.key)).max().filter(|most| *most > 1)?;
            let first = places.iter().position(|taken| count(&taken.key) == most)?;
            places.remove(first).lost.cancel();
        }
        let taken = Arc::new(Taken { key: key.to_owned(), lost: CancellationToken::new() });
        places.push(Arc::clone(&taken));
        Some(Place(Arc::clone(self), taken))
    }
}

impl Place {
    /// Waits until the place is lost.
    pub(crate) async fn lost(&self) {
        self.1.lost.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.0.0.lock();
        places.retain(|taken| !Arc::ptr_eq(taken, &self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn a_few_with_each_key_are_under_way_and_the_key_is_forgotten_after_them() {
        let under_way = UnderWay::new(2, 4);
        let (first, other) = (under_way.enter("one").await, under_way.enter("one").await);
        let mut second = pin!(under_way.enter("one"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let mut more: Vec<_> = (0..4).map(|_| Box::pin(under_way.enter("one"))).collect();
        let waiting = more.iter_mut().map(|one| one.as_mut().poll(&mut context).is_pending());
        assert_eq!(waiting.collect::<Vec<_>>(), [true, true, true, false], "no more may wait");
        drop(more);
        drop(under_way.enter("other").await);
        drop((first, other));
        assert!(second.poll(&mut context).is_ready());
        drop(under_way.enter("other").await);
        assert_eq!(under_way.by_key.lock().len(), 1);
    }

    #[test]
    fn a_key_that_has_more_places_than_others_loses_its_first_one() {
        let places = Arc::new(Places::default());
        let take = |key| places.take(key, 4, 2);
        let is_lost = |place: &Option<Place>| place.as_ref().unwrap().1.lost.is_cancelled();
        let mut taken = Vec::from(["a", "b", "a", "b"].map(take));
        assert!(take("a").is_none(), "it has as many as a key may have");
        taken.extend(["c", "d"].map(take));
        assert_eq!(taken.iter().map(is_lost).collect::<Vec<_>>(), [true, true, false, false, false, false]);
        assert!(take("a").is_none() && take("e").is_none(), "nobody loses their only place");
        drop(taken.remove(2));
        assert!(take("e").is_some());
        drop(taken);
        assert!(places.0.lock().is_empty());
    }
}
