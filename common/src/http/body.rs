//! Reads request bodies: with a size limit, a timeout, and a budget of memory for all bodies together.
//!
//! A body is read before its caller is known, so these limits protect the memory from everybody.

use super::body_budget::{BodyBudget, BodyCharge};
use bytes::{Buf, Bytes};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use hyper::HeaderMap;
use hyper::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// The least allocation for a body that arrives in pieces, unless its `Content-Length` is smaller.
const FIRST_CAPACITY: usize = 64 << 10;
/// The most bytes that are discarded after a refusal, and the longest time for it.
const DISCARD: (usize, Duration) = (16 << 20, Duration::from_secs(2));

/// A body as it arrives.
pub trait BodyStream: Send + Unpin + 'static {
    /// The next part; `None` at the end. The error says that the connection or the encoding is broken.
    fn next_part(&mut self) -> impl Future<Output = Option<Result<Bytes, ()>>> + Send;
}

impl<S, B, E> BodyStream for S
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send,
    E: Send,
{
    async fn next_part(&mut self) -> Option<Result<Bytes, ()>> {
        // No copy: what arrives are `Bytes`.
        let part = self.next().await?;
        Some(part.map(|mut part| part.copy_to_bytes(part.remaining())).map_err(drop))
    }
}

/// Who sends a body, and what its headers say of it.
#[derive(Clone, Copy, Debug)]
pub struct BodySource {
    peer: IpAddr,
    announced: Option<u64>,
    is_sending: bool,
}

impl BodySource {
    /// The body of a request of `peer` with these headers.
    pub fn new(peer: IpAddr, headers: &HeaderMap) -> Self {
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let has_body = headers.contains_key(TRANSFER_ENCODING) || announced.is_some_and(|length| length > 0);
        // While it waits for `100 Continue` the caller sends nothing.
        Self { peer, announced, is_sending: has_body && !headers.contains_key(EXPECT) }
    }

    /// Whether the caller sends it without being asked to.
    pub const fn is_sending(&self) -> bool {
        self.is_sending
    }
}

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// It has more than this number of bytes.
    TooLarge(usize),
    /// It did not arrive in time.
    Late,
    /// The connection or the encoding is broken.
    Broken,
    /// The memory for bodies, or the caller's share of it, is used up.
    NoMemory,
}

/// Reads bodies within the limits; cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyReader {
    max: usize,
    within: Duration,
    budget: BodyBudget,
}

impl BodyReader {
    /// At most `max` bytes for a body, which must arrive `within` that time; at most `budget` bytes for all of them.
    /// The budget counts allocated bytes. A body has at most twice the bytes that have arrived, and twice that while it is copied to a
    /// larger allocation. Nothing is allocated for a `Content-Length` alone. So `budget` must be at least twice `max`.
    pub fn new(max: usize, within: Duration, budget: usize) -> Self {
        Self { max, within, budget: BodyBudget::new(budget, 2 * max) }
    }

    /// Reads a body. It counts against the budget until the last reference to the bytes is dropped, also when its caller has hung up.
    /// `awaits` is called when the body does not arrive at once, and what it returns is dropped afterwards.
    pub async fn read<G: Send>(
        &self, source: BodySource, mut body: impl BodyStream, awaits: impl Fn() -> G + Send,
    ) -> Result<Bytes, BodyFault> {
        let fault = if source.announced.is_some_and(|length| length > self.max as u64) {
            BodyFault::TooLarge(self.max)
        } else {
            match timeout(self.within, self.collect(source, &mut body, awaits)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(fault)) => fault,
                Err(_) => return Err(BodyFault::Late),
            }
        };
        discard(source, body);
        Err(fault)
    }

    async fn collect<G>(
        &self, source: BodySource, body: &mut impl BodyStream, awaits: impl Fn() -> G,
    ) -> Result<Bytes, BodyFault> {
        let mut arriving = ArrivingBody::new(self, source);
        let mut awaited = None;
        loop {
            // A request without a body does not wait.
            let next = match body.next_part().now_or_never() {
                Some(next) => next,
                None => {
                    awaited.get_or_insert_with(&awaits);
                    body.next_part().await
                }
            };
            let Some(part) = next else { return Ok(arriving.into_bytes()) };
            arriving.add(&part.map_err(|()| BodyFault::Broken)?)?;
        }
    }
}

/// Discards in the background what the caller of a refused request is still sending, so that it can read the response
/// instead of getting a reset connection. Bounded in bytes (16 MiB) and time (2 seconds); a body that exceeds them closes its
/// connection. A connection has at most one such task, because its next request comes after the whole body.
pub fn discard(source: BodySource, mut body: impl BodyStream) {
    if !source.is_sending {
        return;
    }
    let read_on = async move {
        let mut left = DISCARD.0;
        while let Some(Ok(part)) = body.next_part().await {
            left = left.saturating_sub(part.len());
            if left == 0 {
                return;
            }
        }
    };
    tokio::spawn(timeout(DISCARD.1, read_on));
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
    fn new(reader: &'r BodyReader, source: BodySource) -> Self {
        let announced = source.announced.and_then(|length| usize::try_from(length).ok());
        let most = announced.map_or(reader.max, |length| length.min(reader.max));
        Self { reader, peer: source.peer, most, bytes: Vec::new(), charge: None }
    }

    fn add(&mut self, chunk: &[u8]) -> Result<(), BodyFault> {
        let length = self.bytes.len() + chunk.len();
        if length > self.reader.max {
            return Err(BodyFault::TooLarge(self.reader.max));
        }
        if length > self.bytes.capacity() {
            self.grow(length)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Grows the allocation to `length` bytes. The old allocation counts until it is freed.
    fn grow(&mut self, length: usize) -> Result<(), BodyFault> {
        let capacity = if self.bytes.is_empty() {
            // Nearly all bodies arrive in one piece.
            length
        } else {
            (2 * length).max(FIRST_CAPACITY).min(self.most.max(length))
        };
        let charge = self.reader.budget.take(self.peer, capacity).ok_or(BodyFault::NoMemory)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    type Chunk = Result<Bytes, &'static str>;

    fn chunks(texts: &[&'static str]) -> impl Stream<Item = Chunk> + Send + Unpin + use<> {
        stream::iter(texts.iter().map(|text| Ok(Bytes::from_static(text.as_bytes()))).collect::<Vec<Chunk>>())
    }

    fn source(announced: Option<u64>) -> BodySource {
        BodySource { peer: [192, 0, 2, 1].into(), announced, is_sending: false }
    }

    fn reader() -> BodyReader {
        BodyReader::new(8, Duration::from_secs(5), 16)
    }

    #[tokio::test]
    async fn a_body_is_whole_in_however_many_pieces_it_came() {
        for (pieces, whole) in [(vec![], ""), (vec!["abc"], "abc"), (vec!["a", "bc", "defgh"], "abcdefgh")] {
            let body = reader().read(source(None), chunks(&pieces), || ()).await.unwrap();
            assert_eq!(body.as_ref(), whole.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_body_counts_until_the_last_copy_of_it_is_dropped_and_pins_no_read_buffer() {
        let reader = reader();
        let buffer = Bytes::from(vec![b' '; 64]);
        let body = reader.read(source(Some(3)), stream::iter([Chunk::Ok(buffer.slice(..3))]), || ()).await.unwrap();
        assert!(buffer.is_unique(), "the read buffer can be used again");
        let part = body.slice(1..2);
        drop(body);
        assert_eq!(reader.budget.total(), 3);
        drop(part);
        assert_eq!(reader.budget.total(), 0);
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused_as_announced_and_as_sent() {
        let expected = BodyFault::TooLarge(8);
        assert_eq!(reader().read(source(Some(9)), chunks(&[]), || ()).await.unwrap_err(), expected);
        assert_eq!(reader().read(source(None), chunks(&["12345", "6789"]), || ()).await.unwrap_err(), expected);
        assert!(reader().read(source(Some(8)), chunks(&["12345", "678"]), || ()).await.is_ok());
    }

    #[tokio::test]
    async fn the_budget_counts_what_is_held_and_comes_back() {
        let reader = reader();
        let held = reader.read(source(None), chunks(&["12345678"]), || ()).await.unwrap();
        let more = reader.read(source(None), chunks(&["12345"]), || ()).await.unwrap();
        let expected = BodyFault::NoMemory;
        assert_eq!(reader.read(source(None), chunks(&["1234"]), || ()).await.unwrap_err(), expected);
        drop(more);
        drop(held);
        drop(reader.read(source(None), chunks(&["12", "345"]), || ()).await.unwrap());
        assert_eq!(reader.budget.total(), 0);
    }

    #[test]
    fn what_is_charged_is_at_least_what_is_allocated_and_at_most_twice_what_arrived() {
        let most = 4 << 20;
        let reader = BodyReader::new(most, Duration::from_secs(5), 2 * most);
        let piece = vec![b' '; 3_000];
        for announced in [None, Some(4_000_000), Some(70_000)] {
            let whole = announced.map_or(most, |length| length as usize);
            let mut arriving = ArrivingBody::new(&reader, source(announced));
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
        let mut arriving = ArrivingBody::new(&reader, source(None));
        arriving.add(b"1234567890").unwrap();
        assert_eq!(arriving.add(b"1").unwrap_err(), BodyFault::NoMemory);
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_400_and_one_that_never_ends_is_408() {
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Chunk::Err("broken")]);
        assert_eq!(reader().read(source(None), broken, || ()).await, Err(BodyFault::Broken));
        let impatient = BodyReader::new(8, Duration::from_millis(1), 16);
        let found = impatient.read(source(None), stream::pending::<Chunk>(), || ()).await.unwrap_err();
        assert_eq!(found, BodyFault::Late);
    }
}
