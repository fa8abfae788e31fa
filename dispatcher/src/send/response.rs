//! Reads response bodies, with limits on size and time.

use super::failure::bounded;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, SERVER};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of bytes of a body that are read. If a body is longer, or late, its connection is closed.
const READ: usize = 4 << 10;
/// Maximum number of bytes of a failed attempt's body that are kept.
const KEPT: usize = 1 << 10;
/// Longest time to wait for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bodies of delivered webhooks that are read at once.
const CONCURRENT_BODIES_MAX: usize = 256;

/// Those that are read now.
static BODIES: Semaphore = Semaphore::const_new(CONCURRENT_BODIES_MAX);

/// Reads and discards the body of an accepted webhook in the background, so that its connection can be reused.
pub(super) fn discard(mut body: Incoming) {
    let is_short = body.size_hint().lower() <= READ as u64;
    // Most bodies are empty or arrive together with the status.
    if body.is_end_stream() || !is_short {
        return;
    }
    let mut kept = Excerpt::default();
    if kept.read(&mut body).now_or_never().is_some() {
        return;
    }
    if let Ok(permit) = BODIES.try_acquire() {
        tokio::spawn(async move {
            let _permit = permit;
            drop(timeout(BODY_TIMEOUT, kept.read(&mut body)).await);
        });
    }
}

/// The beginning of a failed attempt's body, as text. Waits at most `left` for it.
pub(super) async fn excerpt(mut body: Incoming, left: Duration) -> Option<String> {
    let mut excerpt = Excerpt::default();
    if !body.is_end_stream() {
        drop(timeout(BODY_TIMEOUT.min(left), excerpt.read(&mut body)).await);
    }
    excerpt.into_text()
}

/// The headers of a failed attempt's response that explain it, a line each.
pub(super) fn explaining(headers: &HeaderMap) -> Option<String> {
    let lines = [CONTENT_TYPE, LOCATION, RETRY_AFTER, SERVER].into_iter().filter_map(|name| {
        let value = headers.get(&name)?;
        Some(format!("{name}: {}", bounded(&String::from_utf8_lossy(value.as_bytes()))))
    });
    Some(lines.collect::<Vec<_>>().join("\n")).filter(|lines| !lines.is_empty())
}

#[derive(Debug, Default)]
struct Excerpt {
    bytes: Vec<u8>,
    read: usize,
}

impl Excerpt {
    /// Reads until the body ends, fails, or exceeds the limit. Can be called again after it was canceled.
    async fn read(&mut self, body: &mut Incoming) {
        while self.read <= READ {
            let Some(Ok(frame)) = body.frame().await else { return };
            let data = frame.data_ref().map_or(&[][..], |data| data);
            self.read += data.len();
            // Up to three more bytes, for a character that begins before the limit.
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
            assert!(long.starts_with(&cut) && (KEPT - 3..=KEPT).contains(&cut.len()), "{prefix}: {}", cut.len());
        }
        let invalid = text(&[0xff; 2_000]).unwrap();
        assert!(invalid.len() <= KEPT && invalid.chars().all(|c| c == '\u{fffd}'));
    }
}
