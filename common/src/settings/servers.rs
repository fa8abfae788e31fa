//! What the URLs of Postgres and of RabbitMQ have in common: several servers, and options after `?`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which of several servers is tried first; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct PreferredServer(Arc<AtomicUsize>);

impl PreferredServer {
    /// The place of the server to try first, of `count` servers.
    pub(super) fn place(&self, count: usize) -> usize {
        self.0.load(Ordering::Relaxed) % count
    }

    /// The server at `place` responded: it is tried first from now on.
    pub(super) fn prefer(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }

    /// The server at `place` did not respond: if it was tried first, the next one is from now on.
    pub(super) fn avoid(&self, place: usize, count: usize) {
        // A server that another task has preferred meanwhile stays preferred.
        let next = (place + 1) % count;
        let _ = self.0.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// All of `count` places, beginning with `first`.
pub(crate) fn places_from(first: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |next| (first + next) % count)
}

/// Names and values of the options after `?`.
pub(super) fn options(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_that_responded_last_is_tried_first() {
        let preferred = PreferredServer::default();
        assert_eq!(preferred.place(3), 0);
        preferred.avoid(0, 3);
        assert_eq!(preferred.clone().place(3), 1);
        preferred.prefer(2);
        preferred.avoid(0, 3);
        assert_eq!(preferred.place(3), 2);
        preferred.avoid(2, 3);
        assert_eq!(preferred.place(3), 0);
        assert_eq!(places_from(2, 3).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
