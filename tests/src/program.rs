//! The programs as child processes.

use crate::binaries::binary;
use crate::eventually::{PATIENCE, eventually};
use crate::http::{Answer, Http, HttpError};
use crate::prometheus::Samples;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lines of a program's log that a failed test shows.
const LINES_SHOWN: usize = 60;

/// A running program; killed with its value.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    logs: Logs,
    http: Option<Http>,
    operator: Option<Http>,
}

/// What a program has written to standard error so far.
#[derive(Clone, Debug, Default)]
struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
    /// Whether nothing is read for now.
    is_stalled: Arc<(Mutex<bool>, Condvar)>,
}

impl Program {
    /// Starts `connect-ingest` with these settings and no others, and waits until it is ready.
    pub async fn ingest(settings: &[(String, String)]) -> Self {
        let mut program = Self::spawn("connect-ingest", settings);
        program.until_listening().await;
        program.until_ready().await;
        program
    }

    /// Starts `connect-worker`. It gets ready by and by: what is sent meanwhile waits in the queue.
    pub async fn worker(settings: &[(String, String)]) -> Self {
        let mut program = Self::spawn("connect-worker", settings);
        program.until_listening().await;
        program
    }

    /// Starts `connect-dispatcher` and waits until it is ready.
    pub async fn dispatcher(settings: &[(String, String)]) -> Self {
        let mut program = Self::spawn("connect-dispatcher", settings);
        program.until_listening().await;
        program.until_ready().await;
        program
    }

    /// Starts a program that may not become ready, or may end at once.
    pub fn spawn(name: &str, settings: &[(String, String)]) -> Self {
        let mut command = Command::new(binary(name));
        command.env_clear().envs(settings.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let logs = Logs::default();
        logs.follow(child.stderr.take().expect("standard error is a pipe"));
        Self { name: name.to_owned(), child, logs, http: None, operator: None }
    }

    /// Waits until the program has told on which ports it listens.
    pub async fn until_listening(&mut self) {
        let wants_http = self.name == "connect-ingest";
        let (operator, http) = eventually(&format!("{} listens", self.name), PATIENCE, async || {
            if let Some(status) = self.ended() {
                panic!("{} ended: {status}\n{}", self.name, self.logs.tail());
            }
            let operator = self.logs.address("metrics").ok_or("no address of metrics")?;
            let http = self.logs.address("http");
            if wants_http && http.is_none() {
                Err("no address of http".to_owned())
            } else {
                Ok((operator, http))
            }
        })
        .await;
        self.operator = Some(Http::of_another(operator));
        self.http = http.map(Http::new);
    }

    /// Waits until `/readyz` says so.
    pub async fn until_ready(&self) {
        eventually(&format!("{} is ready", self.name), PATIENCE, async || {
            self.readiness(200).await.map(drop)
        })
        .await;
    }

    /// Waits until `/readyz` says no, and gives what it says.
    pub async fn until_unready(&self) -> Value {
        eventually(&format!("{} isn't ready", self.name), PATIENCE, async || self.readiness(503).await).await
    }

    async fn readiness(&self, status: u16) -> Result<Value, String> {
        let answer = self.operator_get("/readyz").await.map_err(|HttpError(error)| error)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if answer.status == status { Ok(answer.json()) } else { Err(text) }
    }

    /// A GET at the operator's port.
    pub async fn operator_get(&self, path: &str) -> Result<Answer, HttpError> {
        self.operator.as_ref().expect("a program that listens").get(path).await
    }

    /// The operator's port.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.as_ref().expect("a program that listens").address()
    }

    /// A scrape of `/metrics`.
    pub async fn metrics(&self) -> Samples {
        let answer = self.operator_get("/metrics").await.expect("metrics");
        assert_eq!(answer.status, 200);
        Samples::parse(&String::from_utf8_lossy(&answer.body))
    }

    /// A client of its routes.
    pub fn http(&self) -> &Http {
        self.http.as_ref().unwrap_or_else(|| panic!("{} serves no routes", self.name))
    }

    /// Everything it has logged.
    pub fn logs(&self) -> String {
        self.logs.lines().join("\n")
    }

    /// Reads nothing more of what it logs, from the next line on, until `is_stalled` is false again.
    pub fn stall_logs(&self, is_stalled: bool) {
        let (stalled, changed) = &*self.logs.is_stalled;
        *stalled.lock().unwrap_or_else(PoisonError::into_inner) = is_stalled;
        changed.notify_all();
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        self.child.wait().expect("a child that was killed ends");
    }

    /// Sends a signal such as `TERM`, `STOP` or `CONT`.
    pub fn signal(&self, signal: &str) {
        // The standard library can only kill; every shell can do the rest.
        let script = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
        assert!(status.success(), "{script}");
    }

    /// Asks it to end and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.until_ended(PATIENCE).await
    }

    /// Waits until it has ended by itself.
    pub async fn until_ended(&mut self, within: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        eventually(&what, within, async || self.ended().ok_or_else(|| "it runs".to_owned())).await
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- {} logged\n{}", self.name, self.logs.tail());
        }
    }
}

impl Logs {
    /// Reads until the program ends.
    fn follow(&self, stderr: impl std::io::Read + Send + 'static) {
        let logs = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                logs.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                let (stalled, changed) = &*logs.is_stalled;
                let stalled = stalled.lock().unwrap_or_else(PoisonError::into_inner);
                drop(changed.wait_while(stalled, |is_stalled| *is_stalled));
            }
        });
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }

    /// The address that the program listens on for `what`.
    fn address(&self, what: &str) -> Option<SocketAddr> {
        self.lines().iter().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let matches = line["message"] == "listening" && line["what"] == what;
            matches.then(|| line["addr"].as_str()?.parse().ok())?
        })
    }
}
