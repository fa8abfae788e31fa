//! The HTTP entry: streams of bytes against a running ingest.

use super::random::Random;
use crate::event::{batch, event};
use crate::eventually::{PATIENCE, eventually};
use crate::raw::head;
use crate::{World, now};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LEADS: &str = "/api/v1/crm/connect/leads";
/// States of a connection that this end has not closed: established, and closed by the other end only.
const HELD: [&str; 2] = ["01", "08"];
/// Connections at once.
const AT_ONCE: usize = 16;
/// How long the answer to a stream is waited for before the connection is closed.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);

/// An ingest and a worker that are sent streams of bytes.
#[derive(Debug)]
pub struct HttpFuzz {
    world: World,
    /// Connections that ingest holds before the first stream: the harness's own.
    held_at_first: usize,
}

impl HttpFuzz {
    /// Starts them.
    pub async fn start() -> Self {
        let world = World::start().await;
        let fuzz = Self { world, held_at_first: 0 };
        fuzz.check_batch(0).await.expect("a batch is answered before the first stream");
        let held_at_first = fuzz.held();
        Self { held_at_first, ..fuzz }
    }

    /// Sends `count` streams, of the seeds from `first` on, and then looks at what they have left behind: a signed batch
    /// is answered as ever, nothing has panicked, and no connection is held.
    pub async fn run(&self, first: u64, count: u64) -> Result<(), String> {
        let seeds: Vec<u64> = (first..first + count).collect();
        for seeds in seeds.chunks(AT_ONCE) {
            join_all(seeds.iter().map(|seed| self.send(*seed))).await;
        }
        let last = first + count - 1;
        let checked = self.check_batch(first).await;
        checked.map_err(|what| format!("Http, seeds {first} to {last}: {what}"))?;
        if self.world.ingests[0].logs().contains("panicked") {
            return Err(format!("Http, seeds {first} to {last}: something has panicked"));
        }
        eventually("ingest holds no connection of a stream", PATIENCE, async || {
            let held = self.held();
            if held <= self.held_at_first { Ok(()) } else { Err(format!("{held} connections")) }
        })
        .await;
        Ok(())
    }

    /// Opens a connection, sends the stream of a seed, and reads what comes for a moment.
    async fn send(&self, seed: u64) {
        let random = &mut Random::new(seed);
        let stream = self.stream(random);
        let Ok(mut socket) = TcpStream::connect(self.world.http().address()).await else { return };
        let cut = random.below(stream.len() + 1);
        let (before, after) = stream.split_at(cut);
        // It may be answered and closed before all of it is sent.
        drop(socket.write_all(before).await);
        tokio::task::yield_now().await;
        drop(socket.write_all(after).await);
        if random.once_in(2) {
            drop(socket.shutdown().await);
        }
        let mut answer = vec![0; 1024];
        if random.once_in(4) {
            drop(timeout(ANSWER_WITHIN, socket.read(&mut answer)).await);
        }
    }

    /// A signed request, damaged, with a body that may not be as long as it says; or anything.
    fn stream(&self, random: &mut Random) -> Vec<u8> {
        if random.once_in(8) {
            return random.bytes(2_000);
        }
        let key = &self.world.key;
        let body = batch(&[event("contact.identified").email("eve@example.com")]);
        let now = now();
        let request = match random.below(3) {
            0 => key.records_at(now, "GET", LEADS, ""),
            1 => key.records_at(now, "POST", LEADS, "{}").with("idempotency-key", "k"),
            _ => key.events_at(now, body),
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
            // Something after it, as if pipelined.
            stream.extend(random.bytes(200));
        }
        stream
    }

    /// Sends a signed batch, which must be accepted.
    async fn check_batch(&self, seed: u64) -> Result<(), String> {
        let contact = event("contact.identified").email(&format!("ana-{seed}@example.com"));
        let answer = self.world.send(&[contact]).await;
        let accepted = &answer.json()["accepted"];
        if answer.status == 200 && *accepted == 1 { Ok(()) } else { Err(format!("{answer:?}")) }
    }

    /// Connections to ingest that it has not closed, as the kernel lists them.
    fn held(&self) -> usize {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("a list of sockets");
        let port = format!(":{:04X}", self.world.http().address().port());
        let is_held = |line: &&str| {
            let mut columns = line.split_whitespace().skip(1);
            let is_ingests = columns.next().is_some_and(|address| address.ends_with(&port));
            is_ingests && columns.nth(1).is_some_and(|state| HELD.contains(&state))
        };
        sockets.lines().filter(is_held).count()
    }
}
