//! A proxy in front of Postgres that records which statements are sent together, without waiting for each other's results.
//!
//! A program that sends several statements may be interrupted between two of them, and the server may already have replied to the
//! first. A test that asks what is sent in one round trip says what it expects: the replies to the beginning of an expected
//! round trip are held back until all of it has arrived. A program that waits for one of these replies waits forever.

use crate::threads::serve;
use crate::url::{address, with_address};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Statements that a client sent in one round trip, in their order: the name in the first line (`-- clients.load`), else the text.
/// A statement that is only prepared is `PREPARE <name>`.
type RoundTrip = Vec<String>;

/// What the sessions of a recorder share.
#[derive(Debug, Default)]
struct Shared {
    /// Each with the `application_name` of its connection, which names the pool.
    recorded: Vec<(String, RoundTrip)>,
    expected: Vec<RoundTrip>,
}

/// A proxy that records statements. It runs until the test's process ends.
#[derive(Debug)]
pub struct StatementRecorder {
    url: String,
    shared: Arc<Mutex<Shared>>,
}

impl StatementRecorder {
    /// A recorder in front of the server of `database_url`. It runs on its own thread.
    pub fn in_front_of(database_url: &str) -> Self {
        let (server, shared) = (address(database_url, 5432), Arc::<Mutex<Shared>>::default());
        let of_sessions = Arc::clone(&shared);
        let own = serve(|listener| accept(listener, server, of_sessions));
        Self { url: with_address(database_url, own), shared }
    }

    /// `DATABASE_URL` through the recorder.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Holds replies back from now on until one of these round trips, once it has begun, has arrived as a whole.
    pub fn expect(&self, round_trips: &[RoundTrip]) {
        self.shared.lock().expected = round_trips.to_vec();
    }

    /// The round trips of a pool since the last call, in the order in which they ended.
    pub fn take(&self, pool: &str) -> Vec<RoundTrip> {
        let recorded = &mut self.shared.lock().recorded;
        let (taken, rest) = std::mem::take(recorded).into_iter().partition(|(of, _)| of == pool);
        *recorded = rest;
        taken.into_iter().map(|(_, statements)| statements).collect()
    }
}

async fn accept(listener: TcpListener, server: String, shared: Arc<Mutex<Shared>>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let session =
            Arc::new((Mutex::new(Session { shared: Arc::clone(&shared), ..Session::default() }), Notify::new()));
        tokio::spawn(requests(from_client, to_server, Arc::clone(&session)));
        tokio::spawn(replies(from_server, to_client, session));
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, session: Arc<(Mutex<Session>, Notify)>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..read]);
        session.0.lock().requests(&mut pending);
        session.1.notify_one();
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, session: Arc<(Mutex<Session>, Notify)>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        while session.0.lock().is_incomplete() {
            session.1.notified().await;
        }
        pending.extend_from_slice(&buffer[..read]);
        session.0.lock().replies(&mut pending);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// The state of one connection between a client and the server.
#[derive(Default)]
struct Session {
    shared: Arc<Mutex<Shared>>,
    has_started: bool,
    pool: String,
    /// Prepared statements by the client's names for them.
    names: HashMap<String, String>,
    /// Requests to which the server has not replied yet.
    open: usize,
    /// Where the round trip under way is recorded.
    current: RoundTrip,
}

impl Session {
    /// Whether an expected round trip has begun and has not arrived as a whole.
    fn is_incomplete(&self) -> bool {
        let is_begin = |whole: &RoundTrip| self.current.len() < whole.len() && whole.starts_with(&self.current);
        !self.current.is_empty() && self.shared.lock().expected.iter().any(is_begin)
    }

    /// Takes whole messages of the client out of `pending`.
    fn requests(&mut self, pending: &mut Vec<u8>) {
        if !self.has_started {
            let Some(length) = length(pending, 0) else { return };
            let startup: Vec<u8> = pending.drain(..length).collect();
            let texts: Vec<&[u8]> = startup[8..].split(|byte| *byte == 0).collect();
            let at = texts.iter().position(|text| *text == b"application_name");
            self.pool = at.map(|at| String::from_utf8_lossy(texts[at + 1]).into_owned()).unwrap_or_default();
            self.has_started = true;
        }
        while let Some(length) = pending.get(1..).and_then(|rest| self::length(rest, 0)) {
            let message: Vec<u8> = pending.drain(..=length).collect();
            self.request(message[0], &message[5..]);
        }
    }

    fn request(&mut self, kind: u8, body: &[u8]) {
        let mut texts = body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        match kind {
            b'P' => {
                let (name, sql) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
                self.current.push(format!("PREPARE {}", label(&sql)));
                self.names.insert(name, label(&sql));
            }
            b'B' => {
                let statement = texts.nth(1).unwrap_or_default();
                self.current.push(self.names.get(&statement).cloned().unwrap_or(statement));
            }
            b'Q' => {
                self.current.push(label(&texts.next().unwrap_or_default()));
                self.open += 1;
            }
            b'S' => self.open += 1,
            _ => {}
        }
    }

    /// Takes whole messages of the server out of `pending`. A round trip ends when all of it is replied to.
    fn replies(&mut self, pending: &mut Vec<u8>) {
        while let Some(length) = pending.get(1..).and_then(|rest| self::length(rest, 0)) {
            let message: Vec<u8> = pending.drain(..=length).collect();
            if message[0] == b'Z' {
                self.open = self.open.saturating_sub(1);
                if self.open == 0 && !self.current.is_empty() {
                    let statements = std::mem::take(&mut self.current);
                    self.shared.lock().recorded.push((self.pool.clone(), statements));
                }
            }
        }
    }
}

/// The length that stands at `at`, if that many bytes are there.
fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..at + 4)?.try_into().map(u32::from_be_bytes).ok()? as usize;
    (bytes.len() >= at + length).then_some(length)
}

fn label(sql: &str) -> String {
    let first = sql.trim().lines().next().unwrap_or_default();
    first.strip_prefix("-- ").unwrap_or(first).trim().to_owned()
}
