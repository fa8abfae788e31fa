//! Takes in a request's body: streamed, capped, timed, and counted against what all bodies may hold together.
//!
//! Read before authentication, because the signature covers it and because an unknown key must cost what a wrong
//! signature costs. So this is what protects the memory from callers nobody knows.

use crate::bound::Bound;
use crate::error::Refusal;
use crate::request::RequestHead;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Most bytes that are read and thrown away after a refusal, and how long that may take.
const DISCARD: (usize, Duration) = (16 << 20, Duration::from_secs(2));

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
    /// What counts is what has arrived, not what was announced: an announcement costs a caller nothing.
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
            match timeout(self.within, self.collect(&mut stream)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(refusal)) => refusal,
                Err(_) => return Err(Refusal::RequestTimeout),
            }
        };
        discard(head, stream);
        Err(refusal)
    }

    async fn collect<S, B, E>(&self, stream: &mut S) -> Result<ReceivedBody, Refusal>
    where
        S: Stream<Item = Result<B, E>> + Unpin,
        B: Buf,
    {
        let mut bytes = Gathered::Nothing;
        let mut share: Option<OwnedSemaphorePermit> = None;
        while let Some(chunk) = stream.next().await {
            let mut chunk = chunk.map_err(|_| Refusal::InvalidRequest("body: can't be read".to_owned()))?;
            // No copy: what arrives are `Bytes`.
            let chunk = chunk.copy_to_bytes(chunk.remaining());
            if bytes.len() + chunk.len() > self.max {
                return Err(Refusal::PayloadTooLarge);
            }
            let more = self.take_share(chunk.len())?;
            match &mut share {
                Some(share) => share.merge(more),
                None => share = Some(more),
            }
            bytes = bytes.with(chunk);
        }
        Ok(ReceivedBody { bytes: bytes.into_bytes(), _share: share })
    }

    fn take_share(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let bytes = u32::try_from(bytes).map_err(|_| Refusal::PayloadTooLarge)?;
        Arc::clone(&self.budget).try_acquire_many_owned(bytes).map_err(|_| Bound::BodyBudget.refuse())
    }
}

/// What has arrived. Nearly all bodies arrive in one piece, which is then used where it lies.
enum Gathered {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Gathered {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.len(),
        }
    }

    fn with(self, chunk: Bytes) -> Self {
        let mut bytes = match self {
            Self::Nothing => return Self::One(chunk),
            // Several times the first piece: most bodies in pieces have many.
            Self::One(first) => {
                let mut bytes = BytesMut::with_capacity(4 * (first.len() + chunk.len()));
                bytes.extend_from_slice(&first);
                bytes
            }
            Self::Many(bytes) => bytes,
        };
        bytes.extend_from_slice(&chunk);
        Self::Many(bytes)
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
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
        BodyReader::new(8, Duration::from_secs(5), 12)
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
        assert_eq!(
            reader.read(&head(None), chunks(&["12345"])).await.unwrap_err(),
            Refusal::Overloaded { retry_after: 1 }
        );
        drop(held);
        drop(reader.read(&head(None), chunks(&["12", "345"])).await.unwrap());
        assert_eq!(reader.budget.available_permits(), 12);
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_400_and_one_that_never_ends_is_408() {
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Chunk::Err("broken")]);
        assert!(matches!(reader().read(&head(None), broken).await, Err(Refusal::InvalidRequest(_))));
        let impatient = BodyReader::new(8, Duration::from_millis(1), 12);
        assert_eq!(
            impatient.read(&head(None), stream::pending::<Chunk>()).await.unwrap_err(),
            Refusal::RequestTimeout
        );
    }
}
