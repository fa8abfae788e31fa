//! Servers that only one test uses, so that it can stop and start them.

mod cluster;
mod encrypted;
mod faults;
mod load_balancer;
mod pooler;

pub use cluster::{BrokerCluster, ClusterQueue};
pub use faults::SmallDisk;
pub use load_balancer::LoadBalancer;
pub use pooler::Pooler;

use crate::services;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub enum StopMode {
    /// Postgres ends sessions and writes a checkpoint; RabbitMQ closes its queues.
    Fast,
    /// An immediate stop, as in a crash.
    Immediate,
}

/// A Postgres of a single test.
#[derive(Debug)]
pub struct Postgres(Server);

/// A RabbitMQ of a single test.
#[derive(Debug)]
pub struct Broker(Server);

/// What a Postgres and a RabbitMQ of a single test have in common.
#[derive(Debug)]
pub struct Server {
    kind: &'static str,
    directory: PathBuf,
    url: String,
    disk: Option<SmallDisk>,
}

impl Postgres {
    /// Starts a server with an empty data directory.
    pub async fn start() -> Self {
        Self(Server::start("postgres", "DATABASE_URL").await)
    }

    /// Starts a server whose data is on a small file system of its own, if this process may mount one; see
    /// [`disk`](Server::disk).
    pub async fn start_on_small_disk(mib: u32) -> Self {
        Self(Server::start_on_small_disk("postgres", "DATABASE_URL", mib).await)
    }

    /// Starts a streaming standby of this server.
    pub async fn start_standby(&self) -> Self {
        let mut standby = Server::prepare("postgres");
        let [directory, primary] =
            [&standby.directory, &self.0.directory].map(|path| path.to_string_lossy().into_owned());
        let printed = standby.script(vec!["start-standby".to_owned(), directory, primary]).await;
        standby.url = services::printed_value(&printed, "DATABASE_URL");
        Self(standby)
    }
}

impl Broker {
    /// Starts a broker with an empty data directory.
    pub async fn start() -> Self {
        Self(Server::start("rabbitmq", "AMQP_URL").await)
    }

    /// Starts a broker whose data is on a small file system of its own, if this process may mount one; see
    /// [`disk`](Server::disk).
    pub async fn start_on_small_disk(mib: u32) -> Self {
        Self(Server::start_on_small_disk("rabbitmq", "AMQP_URL", mib).await)
    }

    /// Runs `rabbitmqctl` on it, which takes seconds of processor time, and returns what it prints.
    pub async fn control(&self, arguments: &[&str]) -> String {
        let directory = self.0.directory.to_string_lossy();
        let all = ["rabbitmqctl", &directory].into_iter().chain(arguments.iter().copied());
        self.0.script(all.map(str::to_owned).collect()).await
    }

    /// Evaluates Erlang expressions in it and returns the last one's value as text, or why there is none: a node may not respond.
    async fn evaluate(&self, expressions: &str) -> Result<String, String> {
        let directory = self.0.directory.to_string_lossy().into_owned();
        let printed = self.0.try_script(vec!["evaluate".to_owned(), directory, expressions.to_owned()]).await?;
        let value = printed.trim().strip_prefix("{ok, ").and_then(|rest| rest.strip_suffix('}'));
        value.map(str::to_owned).ok_or(printed)
    }

    /// The messages of all queues that it has delivered and that are not acknowledged.
    pub async fn unacknowledged(&self) -> u32 {
        // Not the metric, which is some seconds old.
        let count = "lists:sum([Count || Queue <- rabbit_amqqueue:list(), {ok, {_, Count}, _} <-
            [ra:local_query(amqqueue:get_pid(Queue), fun rabbit_fifo:query_messages_checked_out/1)]]).";
        let printed = self.evaluate(count).await.expect("the broker responds");
        printed.parse().expect("a number")
    }

    /// Sets how many bytes of memory it may use: it blocks publishers while it uses more.
    pub async fn allow_memory(&self, bytes: u64) {
        let allow = format!("vm_memory_monitor:set_vm_memory_high_watermark({{absolute, {bytes}}}).");
        self.evaluate(&allow).await.expect("the broker responds");
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Deref for Broker {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Server {
    /// The value of the setting that names the server, the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file system of its data, if it has one of its own.
    pub fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    /// Starts it again, with its data, on its port.
    pub async fn start_again(&self) {
        self.run("start").await;
    }

    async fn start(kind: &'static str, variable: &str) -> Self {
        let mut server = Self::prepare(kind);
        server.url = services::printed_value(&server.run("start").await, variable);
        server
    }

    async fn start_on_small_disk(kind: &'static str, variable: &str, mib: u32) -> Self {
        let mut server = Self::prepare(kind);
        server.disk = SmallDisk::mount(&server.directory, mib);
        server.url = services::printed_value(&server.run("start").await, variable);
        server
    }

    /// A server with a directory of its own that is not started yet.
    fn prepare(kind: &'static str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = services::server_directory(&format!("{kind}{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        services::stop_with_this_process(&directory);
        Self { kind, directory, url: String::new(), disk: None }
    }

    /// Stops the server; its data stays.
    pub async fn stop(&self, end: StopMode) {
        self.run_with(
            "stop",
            match end {
                StopMode::Fast => "fast",
                StopMode::Immediate => "immediate",
            },
        )
        .await;
    }

    async fn run(&self, verb: &str) -> String {
        self.script(vec![format!("{verb}-{}", self.kind), self.directory.to_string_lossy().into_owned()]).await
    }

    async fn run_with(&self, verb: &str, argument: &str) -> String {
        let directory = self.directory.to_string_lossy().into_owned();
        self.script(vec![format!("{verb}-{}", self.kind), directory, argument.to_owned()]).await
    }

    async fn script(&self, arguments: Vec<String>) -> String {
        self.try_script(arguments).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the script on another thread, so that the test's runtime is not blocked.
    async fn try_script(&self, arguments: Vec<String>) -> Result<String, String> {
        let run = move || services::try_script(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.expect("no panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that is paused cannot be stopped.
        self.resume();
        let directory = self.directory.to_string_lossy().into_owned();
        // A panic here would hide the test's own.
        drop(std::panic::catch_unwind(|| services::run_script(&["stop-all", &directory])));
        drop(self.disk.take());
        drop(std::fs::remove_dir_all(&self.directory));
    }
}
