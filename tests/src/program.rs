//! The programs as child processes.

use crate::binaries::binary;
use crate::eventually::{MAX_WAIT, eventually, until_equal};
use crate::http::{HttpClient, HttpError, HttpResponse};
use crate::prometheus::Samples;
use crate::roles;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Log lines of each program that a failed test prints.
const LOG_LINES_SHOWN: usize = 60;

/// A running program; killed with its value.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    logs: Logs,
    http: Option<HttpClient>,
    operator: Option<HttpClient>,
}

/// What a program has written to standard error so far.
#[derive(Clone, Debug, Default)]
struct Logs {
    lines: Arc<Mutex<Vec<String>>>,
    /// Whether reading is suspended.
    is_stalled: Arc<(Mutex<bool>, Condvar)>,
}

impl Program {
    /// Starts `connect-ingest` with these settings and no others, and waits until it is ready.
    pub async fn ingest(settings: &[(String, String)]) -> Self {
        Self::ready("connect-ingest", settings).await
    }

    /// Starts `connect-worker`. Does not wait until it is ready: messages wait in the queue meanwhile.
    pub async fn worker(settings: &[(String, String)]) -> Self {
        Self::listening("connect-worker", settings).await
    }

    /// Starts `connect-dispatcher` and waits until it is ready.
    pub async fn dispatcher(settings: &[(String, String)]) -> Self {
        Self::ready("connect-dispatcher", settings).await
    }

    /// Starts `connect-console` and waits until it is ready.
    pub async fn console(settings: &[(String, String)]) -> Self {
        Self::ready("connect-console", settings).await
    }

    async fn ready(name: &str, settings: &[(String, String)]) -> Self {
        let program = Self::listening(name, settings).await;
        program.until_ready().await;
        program
    }

    /// Starts a program that may not become ready, and waits until it listens.
    pub async fn listening(name: &str, settings: &[(String, String)]) -> Self {
        let mut program = Self::spawn(name, settings);
        program.until_listening().await;
        program
    }

    /// Starts a program that may not become ready, or may end at once. On the servers it has a user of its own, see
    /// [`roles`].
    pub fn spawn(name: &str, settings: &[(String, String)]) -> Self {
        Self::spawn_command(Command::new(binary(name)), name, settings)
    }

    /// [`spawn`](Self::spawn) with another `/etc/resolv.conf`. Only root may do that.
    pub fn spawn_with_resolv_conf(name: &str, settings: &[(String, String)], file: &Path) -> Self {
        let mut command = Command::new("/usr/bin/unshare");
        let mount = r#"/usr/bin/mount --bind "$0" /etc/resolv.conf && exec "$1""#;
        command.args(["--mount", "/bin/sh", "-c", mount]).arg(file).arg(binary(name));
        Self::spawn_command(command, name, settings)
    }

    fn spawn_command(mut command: Command, name: &str, settings: &[(String, String)]) -> Self {
        command.env_clear().envs(roles::of_program(name, settings));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let logs = Logs::default();
        logs.follow(child.stderr.take().expect("standard error is a pipe"));
        Self { name: name.to_owned(), child, logs, http: None, operator: None }
    }

    /// Waits until the program has logged the addresses that it listens on.
    pub async fn until_listening(&mut self) {
        let is_console = self.name == "connect-console";
        let wants_http = is_console || self.name == "connect-ingest";
        let (operator, http) = eventually(&format!("{} listens", self.name), MAX_WAIT, async || {
            if let Some(status) = self.ended() {
                panic!("{} ended: {status}\n{}", self.name, self.logs.tail());
            }
            let operator = self.logs.address("metrics and health requests").ok_or("no address of metrics")?;
            let http = self.logs.address(if is_console { "console requests" } else { "API requests" });
            if wants_http && http.is_none() { Err("no address of http".to_owned()) } else { Ok((operator, http)) }
        })
        .await;
        self.operator = Some(HttpClient::for_other_server(operator));
        self.http = http.map(if is_console { HttpClient::for_other_server } else { HttpClient::new });
    }

    /// Waits until `/readyz` responds with 200.
    pub async fn until_ready(&self) {
        eventually(&format!("{} is ready", self.name), MAX_WAIT, async || self.readiness(200).await.map(drop)).await;
    }

    /// Waits until `/readyz` responds with 503, and returns its body.
    pub async fn until_unready(&self) -> Value {
        eventually(&format!("{} isn't ready", self.name), MAX_WAIT, async || self.readiness(503).await).await
    }

    async fn readiness(&self, status: u16) -> Result<Value, String> {
        let response = self.operator_get("/readyz").await.map_err(|HttpError(error)| error)?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        if response.status == status { Ok(response.json()) } else { Err(text) }
    }

    /// A GET at the operator's port.
    pub async fn operator_get(&self, path: &str) -> Result<HttpResponse, HttpError> {
        self.operator.as_ref().expect("a program that listens").get(path).await
    }

    /// The address of the operator's port: metrics and health.
    pub fn operator_address(&self) -> SocketAddr {
        self.operator.as_ref().expect("a program that listens").address()
    }

    /// A scrape of `/metrics`.
    pub async fn metrics(&self) -> Samples {
        let response = self.operator_get("/metrics").await.expect("metrics");
        assert_eq!(response.status, 200);
        Samples::parse(&String::from_utf8_lossy(&response.body))
    }

    /// Waits until the sum of all samples of a metric that have these labels is `expected`.
    pub async fn until_sum(&self, metric: &str, labels: &[(&str, &str)], expected: f64) {
        until_equal(metric, expected, async || self.metrics().await.sum(metric, labels)).await;
    }

    /// A client of the API or of the pages that the program serves.
    pub fn http(&self) -> &HttpClient {
        self.http.as_ref().unwrap_or_else(|| panic!("{} serves no routes", self.name))
    }

    /// Everything that the program has logged.
    pub fn logs(&self) -> String {
        self.logs.lines().join("\n")
    }

    /// Prints the last lines, for a failed test.
    pub(crate) fn print_logs(&self) {
        eprintln!("--- {} logged\n{}", self.name, self.logs.tail());
    }

    /// Waits until the program has logged a text.
    pub async fn until_logged(&self, text: &str) {
        eventually(&format!("it logs {text:?}"), MAX_WAIT, async || {
            let logs = self.logs();
            if logs.contains(text) { Ok(()) } else { Err(logs) }
        })
        .await;
    }

    /// Stops reading the program's log after the next line, until `is_stalled` is false again.
    pub fn stall_logs(&self, is_stalled: bool) {
        let (stalled, changed) = &*self.logs.is_stalled;
        *stalled.lock() = is_stalled;
        changed.notify_all();
    }

    /// The process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The name of the program, such as `connect-ingest`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills the program with SIGKILL, as in a crash.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        self.child.wait().expect("a child that was killed ends");
    }

    /// Sends a signal such as `TERM`, `STOP` or `CONT`.
    pub fn signal(&self, signal: &str) {
        send_signal(self.child.id(), signal);
    }

    /// Asks it to end and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.until_ended(MAX_WAIT).await
    }

    /// Waits until it has ended by itself.
    pub async fn until_ended(&mut self, within: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        eventually(&what, within, async || self.ended().ok_or_else(|| "it runs".to_owned())).await
    }

    /// How it ended, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }
}

/// Sends a signal such as `STOP` to a process that runs.
pub fn send_signal(pid: u32, signal: &str) {
    // The standard library can only kill; every shell can do the rest.
    let script = format!("kill -{signal} {pid}");
    let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(status.success(), "{script}");
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            self.print_logs();
        }
    }
}

impl Logs {
    /// Reads until the program ends.
    fn follow(&self, stderr: impl std::io::Read + Send + 'static) {
        let logs = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                logs.lines.lock().push(line);
                let (stalled, changed) = &*logs.is_stalled;
                changed.wait_while(&mut stalled.lock(), |is_stalled| *is_stalled);
            }
        });
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// The address that the program listens on for `what`.
    fn address(&self, what: &str) -> Option<SocketAddr> {
        self.lines().iter().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let is_listening = line["message"] == format!("listening for {what}");
            is_listening.then(|| line["addr"].as_str()?.parse().ok())?
        })
    }
}
