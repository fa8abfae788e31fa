//! What is read of a response beside its status: little, and for a short time.

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The most that is read of a body, in bytes. With more, or when it is late, its connection is closed.
const READ: usize = 4 << 10;
/// The most that is kept of a failed attempt's body, in bytes.
const KEPT: usize = 1 << 10;
/// The longest that a body is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bodies of delivered webhooks that are waited for at once.
const WAITED_FOR: usize = 256;

/// Reads away the bodies of delivered webhooks, so that their connections can be used again.
#[derive(Clone, Debug)]
pub(super) struct Drain(Arc<Semaphore>);

impl Default for Drain {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WAITED_FOR)))
    }
}

impl Drain {
    /// Takes a body that nobody is interested in. Doesn't wait.
    pub(super) fn take(&self, mut body: Incoming) {
        let is_short = body.size_hint().lower() <= READ as u64;
        // Mostly there is none, or it came with the status.
        if body.is_end_stream() || !is_short {
            return;
        }
        let mut kept = Excerpt::default();
        if kept.read(&mut body).now_or_never().is_some() {
            return;
        }
        if let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() {
            tokio::spawn(async move {
                let _permit = permit;
                drop(timeout(PATIENCE, kept.read(&mut body)).await);
            });
        }
    }
}

/// The begin of a failed attempt's body, as text. Waits for it, but not longer than `left`.
pub(super) async fn excerpt(mut body: Incoming, left: Duration) -> Option<String> {
    let mut excerpt = Excerpt::default();
    if !body.is_end_stream() {
        drop(timeout(PATIENCE.min(left), excerpt.read(&mut body)).await);
    }
    excerpt.into_text()
}

#[derive(Debug, Default)]
struct Excerpt {
    bytes: Vec<u8>,
    read: usize,
}

impl Excerpt {
    /// Reads until the body ends, fails, or is longer than anyone wants to know. Can be called again when cut off.
    async fn read(&mut self, body: &mut Incoming) {
        while self.read <= READ {
            let Some(Ok(frame)) = body.frame().await else { return };
            let data = frame.data_ref().map_or(&[][..], |data| data);
            self.read += data.len();
            // A few more, for a character that begins before the limit.
            let room = (KEPT + 3).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&data[..data.len().min(room)]);
        }
    }

    fn into_text(self) -> Option<String> {
        let mut text = String::from_utf8_lossy(&self.bytes).replace('\0', "\u{fffd}");
        text.truncate(text.floor_char_boundary(KEPT));
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Option<String> {
        Excerpt { bytes: bytes[..bytes.len().min(KEPT + 3)].to_vec(), read: bytes.len() }.into_text()
    }

    #[test]
    fn an_excerpt_is_text_that_can_be_stored() {
        assert_eq!(text(b""), None);
        assert_eq!(text("no\0 caf\u{e9}".as_bytes()).unwrap(), "no\u{fffd} caf\u{e9}");
        assert_eq!(text(b"a\xff\xfeb").unwrap(), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn an_excerpt_is_cut_between_characters() {
        for prefix in 0..4 {
            let long = format!("{}{}", "x".repeat(prefix), "\u{1f98b}".repeat(400));
            let cut = text(long.as_bytes()).unwrap();
            assert!(
                long.starts_with(&cut) && (KEPT - 3..=KEPT).contains(&cut.len()),
                "{prefix}: {}",
                cut.len()
            );
        }
        let invalid = text(&[0xff; 2_000]).unwrap();
        assert!(invalid.len() <= KEPT && invalid.chars().all(|c| c == '\u{fffd}'));
    }
}
