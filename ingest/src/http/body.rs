//! Reads request bodies: with a size limit, a timeout, and a budget of memory for all bodies together.
//!
//! A body is read before authentication, because the signature covers it and because an unknown key must take as long as a
//! wrong signature. So these limits protect the memory from unauthenticated callers.

use crate::http::RequestHead;
use crate::http::body_budget::{BodyBudget, BodyCharge};
use crate::refusal::Refusal;
use bytes::{Buf, Bytes};
use common::unread_body;
use futures_util::{FutureExt, Stream, StreamExt};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// The least allocation for a body that arrives in pieces, unless its `Content-Length` is smaller.
const FIRST_CAPACITY: usize = 64 << 10;

/// Reads bodies within the limits.
#[derive(Clone, Debug)]
pub(crate) struct BodyReader {
    max: usize,
    within: Duration,
    budget: BodyBudget,
}

impl BodyReader {
    /// At most `max` bytes for a body, which must arrive `within` that time; at most `budget` bytes for all of them.
    /// The budget counts allocated bytes. A body has at most twice the bytes that have arrived, and twice that while it is copied to a
    /// larger allocation. Nothing is allocated for a `Content-Length` alone. So `budget` must be at least twice `max`.
    pub(crate) fn new(max: usize, within: Duration, budget: usize) -> Self {
        Self { max, within, budget: BodyBudget::new(budget, 2 * max) }
    }

    /// Reads the body of a request. It counts against the budget until the last reference to the bytes is dropped, also when
    /// its caller has hung up.
    ///
    /// 413 when it is too large, 408 when it does not arrive in time, 400 when the connection or its encoding breaks, 503 `overloaded`
    /// when the budget, or the peer's share of it, is spent.
    pub(crate) async fn read<S, B, E>(&self, head: &RequestHead, mut stream: S) -> Result<Bytes, Refusal>
    where
        S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
        B: Buf + Send + 'static,
        E: Send + 'static,
    {
        let refusal = if head.content_length().is_some_and(|length| length > self.max as u64) {
            Refusal::PayloadTooLarge
        } else {
            match timeout(self.within, self.collect(head, &mut stream)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(refusal)) => refusal,
                Err(_) => return Err(Refusal::RequestTimeout),
            }
        };
        discard(head, stream);
        Err(refusal)
    }

    async fn collect<S, B, E>(&self, head: &RequestHead, stream: &mut S) -> Result<Bytes, Refusal>
    where
        S: Stream<Item = Result<B, E>> + Unpin,
        B: Buf,
    {
        let mut arriving = ArrivingBody::of(self, head);
        let mut awaited = None;
        loop {
            // A request without a body does not wait.
            let next = match stream.next().now_or_never() {
                Some(next) => next,
                None => {
                    awaited.get_or_insert_with(|| head.origin.begin_body());
                    stream.next().await
                }
            };
            let Some(chunk) = next else { return Ok(arriving.into_bytes()) };
            let mut chunk = chunk.map_err(|_| Refusal::InvalidRequest("body: cannot be read".to_owned()))?;
            // No copy: what arrives are `Bytes`.
            arriving.add(&chunk.copy_to_bytes(chunk.remaining()))?;
        }
    }
}

/// A body that is arriving. It is copied out of its connection's read buffer, which is reused. The charge covers at least
/// the allocated bytes.
struct ArrivingBody<'r> {
    reader: &'r BodyReader,
    peer: IpAddr,
    /// The largest size that it may reach.
    most: usize,
    bytes: Vec<u8>,
    charge: Option<BodyCharge>,
}

/// A complete body with its charge.
struct ChargedBody {
    bytes: Vec<u8>,
    _charge: Option<BodyCharge>,
}

impl AsRef<[u8]> for ChargedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<'r> ArrivingBody<'r> {
    fn of(reader: &'r BodyReader, head: &RequestHead) -> Self {
        let announced = head.content_length().and_then(|length| usize::try_from(length).ok());
        let most = announced.map_or(reader.max, |length| length.min(reader.max));
        Self { reader, peer: head.origin.peer(), most, bytes: Vec::new(), charge: None }
    }

    fn add(&mut self, chunk: &[u8]) -> Result<(), Refusal> {
        let length = self.bytes.len() + chunk.len();
        if length > self.reader.max {
            return Err(Refusal::PayloadTooLarge);
        }
        if length > self.bytes.capacity() {
            self.grow(length)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Grows the allocation to `length` bytes. The old allocation counts until it is freed.
    fn grow(&mut self, length: usize) -> Result<(), Refusal> {
        let capacity = if self.bytes.is_empty() {
            // Nearly all bodies arrive in one piece.
            length
        } else {
            (2 * length).max(FIRST_CAPACITY).min(self.most.max(length))
        };
        let charge = self.reader.budget.take(self.peer, capacity)?;
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(&self.bytes);
        self.bytes = larger;
        self.charge = Some(charge);
        Ok(())
    }

    fn into_bytes(self) -> Bytes {
        if self.bytes.is_empty() {
            return Bytes::new();
        }
        Bytes::from_owner(ChargedBody { bytes: self.bytes, _charge: self.charge })
    }
}

/// Discards what the caller of a refused request is still sending, see [`unread_body::discard`].
pub(crate) fn discard<S, B, E>(head: &RequestHead, stream: S)
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    if head.is_sending_body() {
        unread_body::discard(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::RequestOrigin;
    use common::trace::{RequestContext, TraceContext};
    use futures_util::stream;
    use hyper::header::{CONTENT_LENGTH, HeaderValue};
    use hyper::{Method, Uri};
    use uuid::Uuid;

    type Chunk = Result<Bytes, &'static str>;

    fn chunks(texts: &[&'static str]) -> impl Stream<Item = Chunk> + Send + Unpin + use<> {
        stream::iter(texts.iter().map(|text| Ok(Bytes::from_static(text.as_bytes()))).collect::<Vec<Chunk>>())
    }

    fn head(announced: Option<&'static str>) -> RequestHead {
        let length = announced.map(|length| (CONTENT_LENGTH, HeaderValue::from_static(length)));
        RequestHead {
            method: Method::POST,
            uri: Uri::default(),
            headers: length.into_iter().collect(),
            origin: RequestOrigin::of([192, 0, 2, 1].into()),
            request_context: RequestContext { request_id: Uuid::nil(), context: TraceContext::begin(false) },
        }
    }

    fn reader() -> BodyReader {
        BodyReader::new(8, Duration::from_secs(5), 16)
    }

    #[tokio::test]
    async fn a_body_is_whole_in_however_many_pieces_it_came() {
        for (pieces, whole) in [(vec![], ""), (vec!["abc"], "abc"), (vec!["a", "bc", "defgh"], "abcdefgh")] {
            let body = reader().read(&head(None), chunks(&pieces)).await.unwrap();
            assert_eq!(body.as_ref(), whole.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_body_counts_until_the_last_copy_of_it_is_dropped_and_pins_no_read_buffer() {
        let reader = reader();
        let buffer = Bytes::from(vec![b' '; 64]);
        let body = reader.read(&head(Some("3")), stream::iter([Chunk::Ok(buffer.slice(..3))])).await.unwrap();
        assert!(buffer.is_unique(), "the read buffer can be used again");
        let part = body.slice(1..2);
        drop(body);
        assert_eq!(reader.budget.total(), 3);
        drop(part);
        assert_eq!(reader.budget.total(), 0);
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused_as_announced_and_as_sent() {
        assert_eq!(reader().read(&head(Some("9")), chunks(&[])).await.unwrap_err(), Refusal::PayloadTooLarge);
        assert_eq!(
            reader().read(&head(None), chunks(&["12345", "6789"])).await.unwrap_err(),
            Refusal::PayloadTooLarge
        );
        assert!(reader().read(&head(Some("8")), chunks(&["12345", "678"])).await.is_ok());
    }

    #[tokio::test]
    async fn the_budget_counts_what_is_held_and_comes_back() {
        let reader = reader();
        let held = reader.read(&head(None), chunks(&["12345678"])).await.unwrap();
        let more = reader.read(&head(None), chunks(&["12345"])).await.unwrap();
        assert_eq!(
            reader.read(&head(None), chunks(&["1234"])).await.unwrap_err(),
            Refusal::Overloaded { retry_after: 1 }
        );
        drop(more);
        drop(held);
        drop(reader.read(&head(None), chunks(&["12", "345"])).await.unwrap());
        assert_eq!(reader.budget.total(), 0);
    }

    #[test]
    fn what_is_charged_is_at_least_what_is_allocated_and_at_most_twice_what_arrived() {
        let most = 4 << 20;
        let reader = BodyReader::new(most, Duration::from_secs(5), 2 * most);
        let piece = vec![b' '; 3_000];
        for announced in [None, Some("4000000"), Some("70000")] {
            let whole = announced.map_or(most, |length| length.parse().unwrap());
            let mut arriving = ArrivingBody::of(&reader, &head(announced));
            while arriving.bytes.len() + piece.len() <= whole {
                arriving.add(&piece).unwrap();
                let charged = reader.budget.total();
                let (held, arrived) = (arriving.bytes.capacity(), arriving.bytes.len());
                assert!(charged >= held.max(arrived), "{charged} for {held} and {arrived}");
                assert!(charged <= (2 * arrived).max(FIRST_CAPACITY).min(whole), "{charged} for {arrived}");
            }
        }
        assert_eq!(reader.budget.total(), 0);
    }

    #[test]
    fn while_it_is_copied_a_body_is_charged_twice() {
        let reader = BodyReader::new(64, Duration::from_secs(5), 64 + 9);
        let mut arriving = ArrivingBody::of(&reader, &head(None));
        arriving.add(b"1234567890").unwrap();
        assert_eq!(arriving.add(b"1").unwrap_err(), Refusal::Overloaded { retry_after: 1 });
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_400_and_one_that_never_ends_is_408() {
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Chunk::Err("broken")]);
        assert!(matches!(reader().read(&head(None), broken).await, Err(Refusal::InvalidRequest(_))));
        let impatient = BodyReader::new(8, Duration::from_millis(1), 16);
        assert_eq!(
            impatient.read(&head(None), stream::pending::<Chunk>()).await.unwrap_err(),
            Refusal::RequestTimeout
        );
    }
}
