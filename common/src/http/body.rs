//! Reads request bodies: with a size limit, a timeout, and a budget of memory for all bodies together.
//!
//! A body is read before its caller is known, so these limits protect the memory from everybody.
//!
//! A caller may send its body slowly. So an address may have a quarter of the memory, or one body of the largest size if that is
//! more. A network may have half of the memory, and half of what is left when more than half is taken, so that any number of
//! networks leave some for the next one. While more than an eighth is left, a network may have at least one body of the largest
//! size. If an eighth of the memory is less than such a body, this holds however little is left.

use crate::limited;
use crate::log_limit::LogLimit;
use crate::shares::{Network, PeerCounts};
use bytes::{Buf, Bytes};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use hyper::HeaderMap;
use hyper::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The least allocation for a body that arrives in pieces, unless its `Content-Length` is smaller.
const FIRST_CAPACITY: usize = 64 << 10;
/// The most bytes that are discarded after a refusal, and the longest time for it.
const DISCARD: (usize, Duration) = (16 << 20, Duration::from_secs(2));

/// Limits the log lines of refusals for a peer's share.
static REFUSED: LogLimit<1> = LogLimit::new();

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
    /// It is larger than a body may be.
    TooLarge,
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
        &self,
        source: BodySource,
        mut body: impl BodyStream,
        awaits: impl Fn() -> G + Send,
    ) -> Result<Bytes, BodyFault> {
        let fault = if source.announced.is_some_and(|length| length > self.max as u64) {
            BodyFault::TooLarge
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
        &self,
        source: BodySource,
        body: &mut impl BodyStream,
        awaits: impl Fn() -> G,
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
            return Err(BodyFault::TooLarge);
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

/// The memory for bodies; cheap to clone.
#[derive(Clone, Debug)]
struct BodyBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    all: usize,
    /// The most bytes for one body.
    one_body: usize,
    charged: Mutex<Charged>,
}

/// Charged bytes.
#[derive(Debug, Default)]
struct Charged {
    total: usize,
    peers: PeerCounts,
}

/// Memory charged for a body; released when dropped.
#[derive(Debug)]
struct BodyCharge {
    budget: BodyBudget,
    peer: IpAddr,
    bytes: usize,
}

impl BodyBudget {
    /// `all` bytes, of which one body takes at most `one_body`.
    fn new(all: usize, one_body: usize) -> Self {
        Self(Arc::new(Budget { all, one_body, charged: Mutex::default() }))
    }

    /// Takes `bytes` for a body that `peer` sends; `None` when the budget or the peer's share is exhausted.
    fn take(&self, peer: IpAddr, bytes: usize) -> Option<BodyCharge> {
        let mut charged = self.charged();
        if charged.total + bytes > self.0.all {
            return None;
        }
        if self.0.is_share_exhausted(&charged, peer, bytes) {
            drop(charged);
            let network = Network::of(peer);
            limited!(REFUSED[0], warn, %network, "request refused: its peer holds its share of the memory for bodies");
            return None;
        }
        charged.total += bytes;
        charged.peers.add(peer, bytes);
        Some(BodyCharge { budget: self.clone(), peer, bytes })
    }

    fn charged(&self) -> MutexGuard<'_, Charged> {
        self.0.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    fn is_share_exhausted(&self, charged: &Charged, peer: IpAddr, bytes: usize) -> bool {
        let (own, of_network) = charged.peers.of(peer);
        let (left, last_eighth) = (self.all - charged.total, self.all / 8);
        // One body of the largest size is guaranteed to a network until only the last eighth is left; always, if an eighth is less
        // than such a body.
        let guaranteed = if left > last_eighth || last_eighth < self.one_body { self.one_body } else { 0 };
        let is_scarce = charged.total + bytes > self.all / 2;
        let network_share = if is_scarce { left / 2 } else { self.all / 2 };
        own + bytes > (self.all / 4).max(self.one_body) || of_network + bytes > network_share.max(guaranteed)
    }
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        let mut charged = self.budget.charged();
        charged.total -= self.bytes;
        charged.peers.subtract(self.peer, self.bytes);
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

    impl BodyBudget {
        fn total(&self) -> usize {
            self.charged().total
        }
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
        let body =
            reader.read(source(Some(3)), stream::iter([Chunk::Ok(buffer.slice(..3))]), || ()).await.unwrap();
        assert!(buffer.is_unique(), "the read buffer can be used again");
        let part = body.slice(1..2);
        drop(body);
        assert_eq!(reader.budget.total(), 3);
        drop(part);
        assert_eq!(reader.budget.total(), 0);
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused_as_announced_and_as_sent() {
        let expected = BodyFault::TooLarge;
        assert_eq!(reader().read(source(Some(9)), chunks(&[]), || ()).await.unwrap_err(), expected);
        assert_eq!(
            reader().read(source(None), chunks(&["12345", "6789"]), || ()).await.unwrap_err(),
            BodyFault::TooLarge
        );
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

    fn take(budget: &BodyBudget, peer: [u8; 4]) -> Vec<BodyCharge> {
        std::iter::from_fn(|| budget.take(peer.into(), 10)).collect()
    }

    #[test]
    fn an_address_has_a_quarter_and_a_network_half_and_all_of_it_comes_back() {
        let budget = BodyBudget::new(1_600, 20);
        let first = take(&budget, [192, 0, 2, 1]);
        let network: Vec<_> = (2..5).flat_map(|last| take(&budget, [192, 0, 2, last])).collect();
        assert_eq!((first.len(), network.len()), (40, 40));
        drop((first, network));
        let charged = budget.charged();
        assert!(charged.total == 0 && charged.peers.is_empty());
    }

    #[test]
    fn networks_that_take_all_that_they_get_leave_memory_for_another() {
        let budget = BodyBudget::new(1_600, 20);
        let mut held = Vec::new();
        for network in 1..=10 {
            held.extend((1..=4).flat_map(|last| take(&budget, [192, 0, network, last])));
        }
        assert!(!take(&budget, [198, 51, 100, 1]).is_empty(), "{} are taken", budget.total());
    }

    #[test]
    fn a_single_body_fits_however_small_the_budget_is() {
        let budget = BodyBudget::new(16, 16);
        let whole = budget.take([192, 0, 2, 1].into(), 16).unwrap();
        assert!(budget.take([192, 0, 3, 1].into(), 1).is_none());
        drop(whole);
        assert!(budget.take([192, 0, 3, 1].into(), 16).is_some());
    }
}
