//! The rest of a refused request's body.

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// The most bytes that are discarded after a refusal, and the longest time for it.
const DISCARD: (usize, Duration) = (16 << 20, Duration::from_secs(2));

/// Discards in the background what the caller of a refused request is still sending, so that it can read the response
/// instead of getting a reset connection. Bounded in bytes (16 MiB) and time (2 seconds); a body that exceeds them closes its
/// connection. A connection has at most one such task, because its next request comes after the whole body.
pub fn discard<S, B, E>(mut stream: S)
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let read_on = async move {
        let mut left = DISCARD.0;
        while let Some(Ok(chunk)) = stream.next().await {
            left = left.saturating_sub(chunk.remaining());
            if left == 0 {
                return;
            }
        }
    };
    tokio::spawn(timeout(DISCARD.1, read_on));
}
