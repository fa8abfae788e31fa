//! Servers of a single test, to be stopped and started at will.

use crate::services;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// As when it is asked to.
    Fast,
    /// As in a crash.
    Immediate,
}

/// A Postgres of a single test.
#[derive(Debug)]
pub struct Postgres(Server);

/// A RabbitMQ of a single test.
#[derive(Debug)]
pub struct Broker(Server);

#[derive(Debug)]
struct Server {
    kind: &'static str,
    directory: PathBuf,
    url: String,
}

impl Postgres {
    /// Starts one.
    pub async fn start() -> Self {
        Self(Server::start("postgres", "DATABASE_URL").await)
    }

    /// `DATABASE_URL`, the same over restarts.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Stops it.
    pub async fn stop(&self, end: End) {
        self.0.stop(end).await;
    }

    /// Starts it again, with its data, on its port.
    pub async fn start_again(&self) {
        self.0.run("start").await;
    }
}

impl Broker {
    /// Starts one.
    pub async fn start() -> Self {
        Self(Server::start("rabbitmq", "AMQP_URL").await)
    }

    /// `AMQP_URL`, the same over restarts.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Stops it.
    pub async fn stop(&self, end: End) {
        self.0.stop(end).await;
    }

    /// Starts it again, with its queues, on its port.
    pub async fn start_again(&self) {
        self.0.run("start").await;
    }

    /// Runs `rabbitmqctl` on it.
    pub async fn control(&self, arguments: &[&str]) {
        let directory = self.0.directory.to_string_lossy();
        let all = ["rabbitmqctl", &directory].into_iter().chain(arguments.iter().copied());
        self.0.script(all.map(str::to_owned).collect()).await;
    }
}

impl Server {
    async fn start(kind: &'static str, variable: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = services::directory(&format!("{kind}{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        services::stop_with_this_process(&directory);
        let mut server = Self { kind, directory, url: String::new() };
        server.url = services::value(&server.run("start").await, variable);
        server
    }

    async fn stop(&self, end: End) {
        self.run_with(
            "stop",
            match end {
                End::Fast => "fast",
                End::Immediate => "immediate",
            },
        )
        .await;
    }

    async fn run(&self, verb: &str) -> String {
        self.script(vec![format!("{verb}-{}", self.kind), self.directory.to_string_lossy().into_owned()])
            .await
    }

    async fn run_with(&self, verb: &str, argument: &str) -> String {
        let directory = self.directory.to_string_lossy().into_owned();
        self.script(vec![format!("{verb}-{}", self.kind), directory, argument.to_owned()]).await
    }

    /// Beside the test's runtime, which goes on sending and receiving meanwhile.
    async fn script(&self, arguments: Vec<String>) -> String {
        let run = move || services::run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.expect("the script succeeds")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let directory = self.directory.to_string_lossy().into_owned();
        // The data is of no use any more. A panic here would hide the test's own.
        drop(std::panic::catch_unwind(|| services::run(&["stop-all", &directory])));
        drop(std::fs::remove_dir_all(&self.directory));
    }
}
