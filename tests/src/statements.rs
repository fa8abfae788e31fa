//! A proxy in front of Postgres that records which statements are sent together, without waiting for each other's results.
//!
//! A reply is held back until the client has sent nothing for a while, so that everything it can send before it has the
//! reply arrives first, also on a busy machine: what is recorded together is one round trip.

use crate::url::{address, with_address};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How long the client must have sent nothing before a reply is forwarded.
const REPLY_DELAY: Duration = Duration::from_millis(120);

/// How a recorder treats what goes through it.
#[derive(Clone, Copy, Debug)]
struct Treatment {
    /// How long the client must have sent nothing before it is given a reply.
    reply_delay: Duration,
    /// Whether sessions begin without the `options` that the client asks for, as behind a pooler that drops them.
    drops_options: bool,
}

/// Statements of the programs' readiness checks and reports, of the first connection of each pool, and of gauges.
const READINESS: [&str; 7] = [
    "session.is_read_only",
    "session.settings",
    "api_key_requests.add",
    "api_key_uses.record",
    "refused_requests.add",
    "master_key_canary.read",
    "sealed_values.of_worker",
];

/// Statements that a client sent in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The connection's `application_name`, which names the pool.
    pub pool: String,
    /// The statements in their order: the name in the first line (`-- clients.load`), else the text. A statement that is
    /// only prepared is `PREPARE <name>`.
    pub statements: Vec<String>,
}

impl RoundTrip {
    /// Whether it is a readiness check of a program, which may run at any time.
    pub fn is_readiness(&self) -> bool {
        let is_check = |statement: &String| {
            let name = statement.strip_prefix("PREPARE ").unwrap_or(statement);
            READINESS.contains(&name)
        };
        self.statements.iter().all(is_check)
    }
}

/// A proxy that records statements. It runs until the test's process ends.
#[derive(Debug)]
pub struct StatementRecorder {
    url: String,
    round_trips: Arc<Mutex<Vec<RoundTrip>>>,
}

impl StatementRecorder {
    /// A recorder in front of the server of `database_url`. It runs on its own thread.
    pub fn in_front_of(database_url: &str) -> Self {
        Self::treating(database_url, Treatment { reply_delay: REPLY_DELAY, drops_options: false })
    }

    /// A recorder that delays no reply: it records which statements were sent, but not which of them together.
    pub fn without_delay(database_url: &str) -> Self {
        Self::treating(database_url, Treatment { reply_delay: Duration::ZERO, drops_options: false })
    }

    /// The same, and sessions have the settings of the server instead of those that the programs ask for.
    pub fn of_names_without_options(database_url: &str) -> Self {
        Self::treating(database_url, Treatment { reply_delay: Duration::ZERO, drops_options: true })
    }

    fn treating(database_url: &str, treatment: Treatment) -> Self {
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the recorder");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let own: SocketAddr = listener.local_addr().expect("the port's number");
        let (server, round_trips) = (address(database_url, 5432), Arc::new(Mutex::new(Vec::new())));
        let recorded = Arc::clone(&round_trips);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(accept(listener, server, recorded, treatment));
        });
        Self { url: with_address(database_url, own), round_trips }
    }

    /// `DATABASE_URL` through the recorder.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The round trips of a pool since the last call, in the order in which they began.
    pub fn take(&self, pool: &str) -> Vec<RoundTrip> {
        let mut round_trips = lock(&self.round_trips);
        let (taken, rest) =
            std::mem::take(&mut *round_trips).into_iter().partition(|round_trip| round_trip.pool == pool);
        *round_trips = rest;
        taken
    }

    /// The names of all statements that were executed since the last call, in any pool, one for each execution.
    pub fn take_names(&self) -> Vec<String> {
        let round_trips = std::mem::take(&mut *lock(&self.round_trips));
        let statements = round_trips.into_iter().flat_map(|round_trip| round_trip.statements);
        statements.filter(|statement| !statement.starts_with("PREPARE ")).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: std::net::TcpListener,
    server: String,
    round_trips: Arc<Mutex<Vec<RoundTrip>>>,
    treatment: Treatment,
) {
    let listener = TcpListener::from_std(listener).expect("a listener of this runtime");
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let session = Arc::new(Mutex::new(Session::new(Arc::clone(&round_trips))));
        tokio::spawn(requests(from_client, to_server, Arc::clone(&session), treatment));
        tokio::spawn(replies(from_server, to_client, session, treatment));
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    session: Arc<Mutex<Session>>,
    treatment: Treatment,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..read]);
        let sent = lock(&session).requests(&mut pending, treatment.drops_options);
        let sent = sent.as_deref().unwrap_or(&buffer[..read]);
        if to.write_all(sent).await.is_err() {
            return;
        }
    }
}

/// Waits until the client has sent nothing for a while.
async fn until_client_pauses(session: &Mutex<Session>, reply_delay: Duration) {
    loop {
        let wait = reply_delay.saturating_sub(lock(session).last_request.elapsed());
        if wait.is_zero() {
            return;
        }
        sleep(wait).await;
    }
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    session: Arc<Mutex<Session>>,
    treatment: Treatment,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        until_client_pauses(&session, treatment.reply_delay).await;
        pending.extend_from_slice(&buffer[..read]);
        lock(&session).replies(&mut pending);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// The state of one connection between a client and the server.
struct Session {
    round_trips: Arc<Mutex<Vec<RoundTrip>>>,
    has_started: bool,
    last_request: Instant,
    pool: String,
    /// Prepared statements by the client's names for them.
    names: HashMap<String, String>,
    /// Requests to which the server has not replied yet.
    open: usize,
    /// Where the round trip under way is recorded.
    current: Vec<String>,
}

impl Session {
    fn new(round_trips: Arc<Mutex<Vec<RoundTrip>>>) -> Self {
        Self {
            round_trips,
            has_started: false,
            last_request: Instant::now(),
            pool: String::new(),
            names: HashMap::new(),
            open: 0,
            current: Vec::new(),
        }
    }

    /// Takes whole messages of the client out of `pending`. Returns what is to be sent instead of what was read, if it is
    /// something else.
    fn requests(&mut self, pending: &mut Vec<u8>, drops_options: bool) -> Option<Vec<u8>> {
        self.last_request = Instant::now();
        let mut instead = None;
        if !self.has_started {
            // All of the first message is sent at once, or nothing.
            let Some(length) = length(pending, 0) else { return Some(Vec::new()) };
            let startup: Vec<u8> = pending.drain(..length).collect();
            let texts: Vec<&[u8]> = startup[8..].split(|byte| *byte == 0).collect();
            let at = texts.iter().position(|text| *text == b"application_name");
            self.pool = at.map(|at| String::from_utf8_lossy(texts[at + 1]).into_owned()).unwrap_or_default();
            self.has_started = true;
            let startup = if drops_options { without_options(&startup) } else { startup };
            instead = Some([startup.as_slice(), pending].concat());
        }
        while let Some(length) = pending.get(1..).and_then(|rest| self::length(rest, 0)) {
            let message: Vec<u8> = pending.drain(..=length).collect();
            self.request(message[0], &message[5..]);
        }
        instead
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
                    lock(&self.round_trips).push(RoundTrip { pool: self.pool.clone(), statements });
                }
            }
        }
    }
}

/// The first message of a session without its parameter `options`.
fn without_options(startup: &[u8]) -> Vec<u8> {
    let texts: Vec<&[u8]> = startup[8..].split(|byte| *byte == 0).collect();
    let mut kept = startup[4..8].to_vec();
    for pair in texts.chunks_exact(2).take_while(|pair| !pair[0].is_empty()) {
        if pair[0] != b"options" {
            kept.extend([pair[0], b"\0", pair[1], b"\0"].concat());
        }
    }
    kept.push(0);
    let length = u32::try_from(kept.len() + 4).expect("a short message");
    [length.to_be_bytes().as_slice(), &kept].concat()
}

/// The length that stands at `at`, if that many bytes are there.
fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..at + 4)?.try_into().map(u32::from_be_bytes).ok()? as usize;
    (bytes.len() >= at + length).then_some(length)
}

/// The name of a statement.
fn label(sql: &str) -> String {
    let first = sql.trim().lines().next().unwrap_or_default();
    first.strip_prefix("-- ").unwrap_or(first).trim().to_owned()
}
