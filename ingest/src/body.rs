//! Takes in a request's body: streamed, capped, timed, and counted against what all bodies may hold together.
//!
//! Read before authentication, because the signature covers it and because an unknown key must cost what a wrong
//! signature costs. So this is what protects the memory from callers nobody knows.

use crate::bound::Bound;
use crate::error::Refusal;
use crate::request::RequestHead;
use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Most bytes that are read and thrown away after a refusal, and how long that may take.
const DISCARD: (usize, Duration) = (16 << 20, Duration::from_secs(2));

/// Bytes that are allocated for a body in pieces at least, unless it is announced to be smaller.
const FIRST_CAPACITY: usize = 64 << 10;

/// How bodies are taken in.
#[derive(Clone, Debug)]
pub struct BodyReader {
    max: usize,
    within: Duration,
    budget: Arc<Semaphore>,
}

/// A whole body. Counts against the budget for as long as it lives.
#[derive(Debug)]
pub struct ReceivedBody {
    bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl ReceivedBody {
    /// The bytes as sent.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl BodyReader {
    /// At most `max` bytes for a body, which must arrive `within` that time; at most `budget` bytes for all of them.
    /// What counts is what is allocated. That grows with what arrives, to twice as much at most, and to as much again
    /// while it is copied; an announcement costs a caller nothing. So `budget` is at least twice `max`. A body in one
    /// piece lies in its connection's read buffer, which is bounded with the connections.
    pub fn new(max: usize, within: Duration, budget: usize) -> Self {
        Self { max, within, budget: Arc::new(Semaphore::new(budget)) }
    }

    /// Reads the body of a request.
    ///
    /// 413 when it is too large, 408 when it is late, 400 when the connection or its encoding breaks, 503 `overloaded`
    /// when the budget is spent.
    pub async fn read<S, B, E>(&self, head: &RequestHead, mut stream: S) -> Result<ReceivedBody, Refusal>
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

    async fn collect<S, B, E>(&self, head: &RequestHead, stream: &mut S) -> Result<ReceivedBody, Refusal>
    where
        S: Stream<Item = Result<B, E>> + Unpin,
        B: Buf,
    {
        let mut arriving = ArrivingBody::of(self, head);
        while let Some(chunk) = stream.next().await {
            let mut chunk = chunk.map_err(|_| Refusal::InvalidRequest("body: can't be read".to_owned()))?;
            // No copy: what arrives are `Bytes`.
            arriving.add(chunk.copy_to_bytes(chunk.remaining()))?;
        }
        Ok(ReceivedBody { bytes: arriving.bytes.into_bytes(), _share: arriving.share })
    }

    fn take_share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let bytes = u32::try_from(bytes).map_err(|_| Refusal::PayloadTooLarge)?;
        Arc::clone(&self.budget).try_acquire_many_owned(bytes).map_err(|_| Bound::BodyBudget.refuse())
    }
}

/// A body that is arriving. Its share of the budget is at least what it holds.
struct ArrivingBody<'r> {
    reader: &'r BodyReader,
    /// Bytes that it may have in the end.
    most: usize,
    bytes: Gathered,
    share: Option<OwnedSemaphorePermit>,
}

impl<'r> ArrivingBody<'r> {
    fn of(reader: &'r BodyReader, head: &RequestHead) -> Self {
        let announced = head.content_length().and_then(|length| usize::try_from(length).ok());
        let most = announced.map_or(reader.max, |length| length.min(reader.max));
        Self { reader, most, bytes: Gathered::Nothing, share: None }
    }

    fn add(&mut self, chunk: Bytes) -> Result<(), Refusal> {
        let length = self.bytes.len() + chunk.len();
        if length > self.reader.max {
            return Err(Refusal::PayloadTooLarge);
        }
        if matches!(self.bytes, Gathered::Nothing) {
            self.share = Some(self.reader.take_share(chunk.len())?);
            self.bytes = Gathered::One(chunk);
            return Ok(());
        }
        if length > self.bytes.capacity() {
            self.grow(length)?;
        }
        if let Gathered::Many(bytes) = &mut self.bytes {
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Makes room for `length` bytes. What it held before counts until it is freed.
    fn grow(&mut self, length: usize) -> Result<(), Refusal> {
        let capacity = (2 * length).max(FIRST_CAPACITY).min(self.most.max(length));
        let share = self.reader.take_share(capacity)?;
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(self.bytes.as_slice());
        self.bytes = Gathered::Many(larger);
        self.share = Some(share);
        Ok(())
    }
}

/// What has arrived. Nearly all bodies arrive in one piece, which is then used where it lies.
enum Gathered {
    Nothing,
    One(Bytes),
    Many(Vec<u8>),
}

impl Gathered {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Bytes that it can have without another allocation.
    fn capacity(&self) -> usize {
        match self {
            // Nothing can be added to what lies in a read buffer.
            Self::Nothing | Self::One(_) => 0,
            Self::Many(bytes) => bytes.capacity(),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            // No copy, and the capacity stays.
            Self::Many(bytes) => Bytes::from(bytes),
        }
    }
}

/// Reads on in the background what a request that was refused is still sending, so that its caller gets to read the
/// answer instead of a reset connection. Bounded in bytes and time, and at most one for a connection.
pub fn discard<S, B, E>(head: &RequestHead, mut stream: S)
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    if !head.is_sending_body() {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use common::trace::{TraceContext, Trail};
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
            trail: Trail { request_id: Uuid::nil(), context: TraceContext::begin(false) },
        }
    }

    fn reader() -> BodyReader {
        BodyReader::new(8, Duration::from_secs(5), 16)
    }

    #[tokio::test]
    async fn a_body_is_whole_in_however_many_pieces_it_came() {
        for (pieces, whole) in [(vec![], ""), (vec!["abc"], "abc"), (vec!["a", "bc", "defgh"], "abcdefgh")] {
            let body = reader().read(&head(None), chunks(&pieces)).await.unwrap();
            assert_eq!(body.bytes().as_ref(), whole.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_body_in_one_piece_is_not_copied() {
        let sent = Bytes::from_static(b"abc");
        let body = reader().read(&head(Some("3")), stream::iter([Chunk::Ok(sent.clone())])).await.unwrap();
        assert_eq!(body.bytes().as_ptr(), sent.as_ptr());
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
        assert_eq!(reader.budget.available_permits(), 16);
    }

    #[test]
    fn what_is_charged_is_at_least_what_is_allocated_and_at_most_twice_what_arrived() {
        let most = 4 << 20;
        let reader = BodyReader::new(most, Duration::from_secs(5), 2 * most);
        let piece = Bytes::from(vec![b' '; 3_000]);
        for announced in [None, Some("4000000"), Some("70000")] {
            let whole = announced.map_or(most, |length| length.parse().unwrap());
            let mut arriving = ArrivingBody::of(&reader, &head(announced));
            while arriving.bytes.len() + piece.len() <= whole {
                arriving.add(piece.clone()).unwrap();
                let charged = 2 * most - reader.budget.available_permits();
                let (held, arrived) = (arriving.bytes.capacity(), arriving.bytes.len());
                assert!(charged >= held.max(arrived), "{charged} for {held} and {arrived}");
                assert!(charged <= (2 * arrived).max(FIRST_CAPACITY).min(whole), "{charged} for {arrived}");
            }
        }
        assert_eq!(reader.budget.available_permits(), 2 * most);
    }

    #[test]
    fn while_it_is_copied_a_body_is_charged_twice() {
        let reader = BodyReader::new(64, Duration::from_secs(5), 64 + 9);
        let mut arriving = ArrivingBody::of(&reader, &head(None));
        arriving.add(Bytes::from_static(b"1234567890")).unwrap();
        assert_eq!(
            arriving.add(Bytes::from_static(b"1")).unwrap_err(),
            Refusal::Overloaded { retry_after: 1 }
        );
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
