//! A proxy before Postgres that records which statements are sent together, without waiting for each other's results.
//!
//! A reply is held back until the client has sent nothing for a while, so that everything it can send before it has the
//! reply arrives first, also on a busy machine: one flight is one round trip.

use crate::url::{address, with_address};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How long the client must have sent nothing before it is given a reply.
const SILENCE: Duration = Duration::from_millis(120);

/// What programs ask to know whether they are ready.
const READINESS: [&str; 2] = ["SELECT 1", "master_key_canary.read"];

/// Statements that a client sent in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The connection's `application_name`.
    pub pool: String,
    /// The statements in their order: the name in the first line (`-- clients.load`), else the text. A statement that is
    /// only prepared is `PREPARE <name>`.
    pub statements: Vec<String>,
}

impl Flight {
    /// Whether it is a program's check of its readiness, which comes at any time.
    pub fn is_readiness(&self) -> bool {
        let is_check = |statement: &String| {
            let name = statement.strip_prefix("PREPARE ").unwrap_or(statement);
            READINESS.contains(&name)
        };
        self.statements.iter().all(is_check)
    }
}

/// Records what goes through it. Ends with the test's process.
#[derive(Debug)]
pub struct StatementRecorder {
    url: String,
    flights: Arc<Mutex<Vec<Flight>>>,
}

impl StatementRecorder {
    /// A recorder before the server of `database_url`. It runs beside the test's runtime.
    pub fn before(database_url: &str) -> Self {
        Self::with_silence(database_url, SILENCE)
    }

    /// One that holds no reply back: it tells which statements were sent, and not which of them together.
    pub fn of_names(database_url: &str) -> Self {
        Self::with_silence(database_url, Duration::ZERO)
    }

    /// `silence` is how long the client must have sent nothing before it is given a reply.
    fn with_silence(database_url: &str, silence: Duration) -> Self {
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the recorder");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let own: SocketAddr = listener.local_addr().expect("the port's number");
        let (server, flights) = (address(database_url, 5432), Arc::new(Mutex::new(Vec::new())));
        let recorded = Arc::clone(&flights);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(accept(listener, server, recorded, silence));
        });
        Self { url: with_address(database_url, own), flights }
    }

    /// `DATABASE_URL` through the recorder.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The flights of a pool since this was last asked, in the order in which they began.
    pub fn take(&self, pool: &str) -> Vec<Flight> {
        let mut flights = lock(&self.flights);
        let (taken, rest) = std::mem::take(&mut *flights).into_iter().partition(|flight| flight.pool == pool);
        *flights = rest;
        taken
    }

    /// The names of all statements that were executed since this was last asked, in whatever pool.
    pub fn take_names(&self) -> BTreeSet<String> {
        let flights = std::mem::take(&mut *lock(&self.flights));
        let statements = flights.into_iter().flat_map(|flight| flight.statements);
        statements.filter(|statement| !statement.starts_with("PREPARE ")).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: std::net::TcpListener,
    server: String,
    flights: Arc<Mutex<Vec<Flight>>>,
    silence: Duration,
) {
    let listener = TcpListener::from_std(listener).expect("a listener of this runtime");
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let session = Arc::new(Mutex::new(Session::new(Arc::clone(&flights))));
        tokio::spawn(requests(from_client, to_server, Arc::clone(&session)));
        tokio::spawn(replies(from_server, to_client, session, silence));
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, session: Arc<Mutex<Session>>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        pending.extend_from_slice(&buffer[..read]);
        lock(&session).requests(&mut pending);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Waits until the client has sent nothing for a while.
async fn until_silent(session: &Mutex<Session>, silence: Duration) {
    loop {
        let wait = silence.saturating_sub(lock(session).last_request.elapsed());
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
    silence: Duration,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        until_silent(&session, silence).await;
        pending.extend_from_slice(&buffer[..read]);
        lock(&session).replies(&mut pending);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// One connection.
struct Session {
    flights: Arc<Mutex<Vec<Flight>>>,
    has_started: bool,
    last_request: Instant,
    pool: String,
    /// Prepared statements by the client's names for them.
    names: HashMap<String, String>,
    /// Requests to which the server has not replied yet.
    open: usize,
    /// Where the flight under way is recorded.
    current: Vec<String>,
}

impl Session {
    fn new(flights: Arc<Mutex<Vec<Flight>>>) -> Self {
        Self {
            flights,
            has_started: false,
            last_request: Instant::now(),
            pool: String::new(),
            names: HashMap::new(),
            open: 0,
            current: Vec::new(),
        }
    }

    /// Takes whole messages of the client out of `pending`.
    fn requests(&mut self, pending: &mut Vec<u8>) {
        self.last_request = Instant::now();
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

    /// Takes whole messages of the server out of `pending`. A flight ends when all of it is replied to.
    fn replies(&mut self, pending: &mut Vec<u8>) {
        while let Some(length) = pending.get(1..).and_then(|rest| self::length(rest, 0)) {
            let message: Vec<u8> = pending.drain(..=length).collect();
            if message[0] == b'Z' {
                self.open = self.open.saturating_sub(1);
                if self.open == 0 && !self.current.is_empty() {
                    let statements = std::mem::take(&mut self.current);
                    lock(&self.flights).push(Flight { pool: self.pool.clone(), statements });
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

/// The name of a statement.
fn label(sql: &str) -> String {
    let first = sql.trim().lines().next().unwrap_or_default();
    first.strip_prefix("-- ").unwrap_or(first).trim().to_owned()
}
