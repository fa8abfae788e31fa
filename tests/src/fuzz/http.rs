//! The HTTP server: streams of bytes sent to a running ingest.

use super::random::Random;
use super::request_form::{Expected, RequestForm};
use crate::event::{batch, event};
use crate::eventually::until;
use crate::http::HttpRequest;
use crate::raw::head;
use crate::{World, now};
use bytes::Bytes;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LEADS: &str = "/api/v1/crm/connect/leads";
/// States of a connection that this end has not closed: established, and closed by the other end only.
const OPEN_STATES: [&str; 2] = ["01", "08"];
/// Number of connections that send at the same time.
const CONCURRENCY: usize = 16;
/// How long to wait for the response to a stream before the connection is closed.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum time that a connection may take to get its responses and be closed.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);
/// Prefix of the `eventId`s of damaged streams, whose events may have arrived intact.
const DAMAGED: &str = "damaged-";

/// An ingest and a worker that are sent streams of bytes.
#[derive(Debug)]
pub struct HttpFuzz {
    world: World,
    /// Connections that ingest holds before the first stream: the harness's own.
    held_at_first: usize,
    /// Events that were accepted in responses, and so must be all that the ledger has, but for those of damaged streams.
    accepted: AtomicI64,
}

struct SentStream {
    /// An event of the stream that cannot have been applied.
    refused: Option<String>,
    /// What has gone wrong with its response.
    fault: Option<String>,
}

impl HttpFuzz {
    /// Starts the programs and counts the harness's own connections.
    pub async fn start() -> Self {
        let world = World::start().await;
        let fuzz = Self { world, held_at_first: 0, accepted: AtomicI64::new(0) };
        fuzz.check_batch(0).await.expect("a batch is applied before the first stream");
        let held_at_first = fuzz.held();
        Self { held_at_first, ..fuzz }
    }

    /// Sends `count` streams, of the seeds from `first` on, and then checks that a signed batch is still accepted, only
    /// accepted events were applied, nothing has panicked, and no connection is held.
    pub async fn run(&self, first: u64, count: u64) -> Result<(), String> {
        let seeds: Vec<u64> = (0..count).map(|place| first.wrapping_add(place)).collect();
        let mut refused = Vec::new();
        for seeds in seeds.chunks(CONCURRENCY) {
            for (seed, sent) in seeds.iter().zip(join_all(seeds.iter().map(|seed| self.send(*seed))).await) {
                if let Some(fault) = sent.fault {
                    return Err(format!("Http, seed {seed}: {fault}"));
                }
                refused.extend(sent.refused);
            }
        }
        let seeds = format!("Http, seeds {first} to {}", first.wrapping_add(count - 1));
        self.check_batch(first).await.map_err(|what| format!("{seeds}: {what}"))?;
        self.check_ledger(&refused).await.map_err(|what| format!("{seeds}: {what}"))?;
        if self.world.ingests[0].logs().contains("panicked") {
            return Err(format!("{seeds}: something has panicked"));
        }
        let held = async || self.held();
        until("ingest holds no connection of a stream", held, |&held| held <= self.held_at_first).await;
        Ok(())
    }

    /// Checks that the ledger contains all accepted events and no refused ones.
    async fn check_ledger(&self, refused: &[String]) -> Result<(), String> {
        let query = "SELECT event_id FROM event_ledger WHERE event_id = ANY($1)";
        let applied = self.world.database.rows(query, &[&refused]).await;
        if !applied.is_empty() {
            return Err(format!("applied although refused: {applied:?}"));
        }
        let query = format!("SELECT count(*) FROM event_ledger WHERE event_id NOT LIKE '{DAMAGED}%'");
        let (applied, accepted) = (self.world.database.count(&query).await, self.accepted.load(Ordering::Relaxed));
        if applied == accepted { Ok(()) } else { Err(format!("{applied} events applied, {accepted} accepted")) }
    }

    async fn send(&self, seed: u64) -> SentStream {
        let random = &mut Random::new(seed);
        if random.once_in(2) { self.send_form(random, seed).await } else { self.send_damaged(random, seed).await }
    }

    /// Sends a signed batch in some form of request, and at times another one behind it, whole or in two pieces. The
    /// responses must be those of the form, and nothing behind a request that is refused with its connection is read.
    async fn send_form(&self, random: &mut Random, seed: u64) -> SentStream {
        let is_followed = random.once_in(2);
        let batches = [self.batch(&format!("form-{seed}")), self.batch(&format!("behind-{seed}"))];
        let first = RequestForm::new(random, &batches[0], !is_followed);
        let mut stream = first.bytes.clone();
        let mut expected = vec![first.expected];
        if is_followed {
            stream.extend(RequestForm::plain(&batches[1]).bytes);
            let is_last = matches!(first.expected, Expected::Last | Expected::Closed);
            expected.extend((!is_last).then_some(Expected::Served));
        }
        let cut = random.below(stream.len() + 1);
        let exchanged = timeout(EXCHANGE_TIMEOUT, self.exchange(&stream, cut)).await;
        let statuses = exchanged.as_ref().map_or(&[][..], Vec::as_slice);
        let served = statuses.iter().filter(|status| **status == 200).count();
        self.accepted.fetch_add(i64::try_from(served).expect("two"), Ordering::Relaxed);
        let is_right = exchanged.is_ok() && is_expected(&expected, statuses);
        let fault = (!is_right)
            .then(|| format!("{exchanged:?} where {expected:?} is expected: {:?}", String::from_utf8_lossy(&stream)));
        let is_refused = matches!(first.expected, Expected::Refused | Expected::Closed);
        let refused = is_refused.then(|| format!("form-{seed}"));
        SentStream { refused, fault }
    }

    /// Sends a stream and returns the status codes of the responses to it, up to the end of the connection.
    async fn exchange(&self, stream: &[u8], cut: usize) -> Vec<u16> {
        let mut socket = TcpStream::connect(self.world.http().address()).await.expect("ingest listens");
        let (before, after) = stream.split_at(cut);
        drop(socket.write_all(before).await);
        tokio::task::yield_now().await;
        drop(socket.write_all(after).await);
        let mut received = Vec::new();
        // Closed or reset: what came before can be read.
        drop(socket.read_to_end(&mut received).await);
        let text = String::from_utf8_lossy(&received);
        let heads = text.split("HTTP/1.1 ").skip(1);
        heads.filter_map(|head| head.get(..3)?.parse().ok()).collect()
    }

    /// Opens a connection, sends a damaged stream, and sometimes reads for a moment.
    async fn send_damaged(&self, random: &mut Random, seed: u64) -> SentStream {
        let id = format!("{DAMAGED}{seed}");
        let (stream, body) = self.stream(random, &id);
        // A signed body is accepted only if it arrives unchanged.
        let is_whole = stream.windows(body.len()).any(|window| window == body);
        let sent = SentStream { refused: (!is_whole).then_some(id), fault: None };
        let Ok(mut socket) = TcpStream::connect(self.world.http().address()).await else { return sent };
        let cut = random.below(stream.len() + 1);
        let (before, after) = stream.split_at(cut);
        // It may get its response and be closed before all of it is sent.
        drop(socket.write_all(before).await);
        tokio::task::yield_now().await;
        drop(socket.write_all(after).await);
        if random.once_in(2) {
            drop(socket.shutdown().await);
        }
        let mut response = vec![0; 1024];
        if random.once_in(4) {
            drop(timeout(RESPONSE_TIMEOUT, socket.read(&mut response)).await);
        }
        sent
    }

    /// A signed batch of one event.
    fn batch(&self, id: &str) -> HttpRequest {
        let contact = event("contact.identified").id(id).email("eve@example.com");
        self.world.key.events_at(now(), batch(&[contact]))
    }

    /// A signed request, damaged, with a body that may not be as long as it says; or anything. Returns the body of the signed
    /// batch, too.
    fn stream(&self, random: &mut Random, id: &str) -> (Vec<u8>, Bytes) {
        let signed = self.batch(id);
        let body = signed.body.clone();
        if random.once_in(8) {
            return (random.bytes(2_000), body);
        }
        let (key, now) = (&self.world.key, now());
        let request = match random.below(3) {
            0 => key.records_at(now, "GET", LEADS, ""),
            1 => key.records_at(now, "POST", LEADS, "{}").with("idempotency-key", "k"),
            _ => signed,
        };
        let mut stream = head(&request);
        let length = match random.below(4) {
            0 => "content-length: 18446744073709551616\r\n\r\n".to_owned(),
            1 => "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_owned(),
            2 => format!("content-length: {}\r\n\r\n", request.body.len() + random.below(9)),
            _ => format!("content-length: {}\r\n\r\n", request.body.len()),
        };
        stream.extend_from_slice(length.as_bytes());
        stream.extend_from_slice(&request.body);
        random.damage(&mut stream);
        if random.once_in(4) {
            // Random bytes after the request, as if pipelined.
            stream.extend(random.bytes(200));
        }
        (stream, body)
    }

    /// Sends a signed batch, which must be accepted.
    async fn check_batch(&self, seed: u64) -> Result<(), String> {
        let contact = event("contact.identified").email(&format!("ana-{seed}@example.com"));
        let response = self.world.send(&[contact]).await;
        if response.status != 200 || response.json()["accepted"] != 1 {
            return Err(format!("{response:?}"));
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Connections to ingest that it has not closed, as the kernel lists them.
    fn held(&self) -> usize {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("a list of sockets");
        let port = format!(":{:04X}", self.world.http().address().port());
        let is_held = |line: &&str| {
            let mut columns = line.split_whitespace().skip(1);
            let is_ingests = columns.next().is_some_and(|address| address.ends_with(&port));
            is_ingests && columns.nth(1).is_some_and(|state| OPEN_STATES.contains(&state))
        };
        sockets.lines().filter(is_held).count()
    }
}

/// Whether the status codes of a connection's responses are the expected ones. A request that is refused with its connection
/// may get no response, also because the reset has overtaken it. If no header announces a body, the body is refused as
/// a request of its own.
fn is_expected(expected: &[Expected], statuses: &[u16]) -> bool {
    let responses = expected.iter().filter(|expected| **expected != Expected::Closed).count();
    let is_served = |place| matches!(expected.get(place), Some(Expected::Served | Expected::Last));
    let is_right = |(place, status): (usize, &u16)| {
        if is_served(place) { *status == 200 } else { (400..500).contains(status) }
    };
    let most = if responses < expected.len() { expected.len() + 1 } else { responses };
    (responses..=most).contains(&statuses.len()) && statuses.iter().enumerate().all(is_right)
}
