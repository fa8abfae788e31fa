//! The running dispatcher.

use crate::settings::Settings;
use common::broker::Broker;
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::{metrics, shutdown};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9103);
/// How often readiness is looked at, and the longest that the database may take to answer.
const LOOK: Duration = Duration::from_secs(1);

/// Why the dispatcher ends.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The operator's port can't be opened.
    #[error("setting CONNECT_METRICS_ADDR: can't listen: {0}")]
    Listen(std::io::Error),
    /// Signals can't be received.
    #[error("can't receive signals: {0}")]
    Signals(std::io::Error),
}

/// Runs until a signal asks for the end.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    let health = Health::new(&["broker", "postgres"]);
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    let bound = health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    tracing::info!(what = "metrics", addr = %bound, "listening");
    let asked = shutdown::on_signal().map_err(ServiceError::Signals)?;

    let ended = CancellationToken::new();
    let broker = Broker::start(&settings.broker, "connect-dispatcher", ended.clone());
    let pool =
        PoolSettings { name: "dispatcher", size: 2, wait: LOOK, statement_timeout: LOOK, durable: true };
    let database = Database::new(&settings.database.url, pool);
    let mut every = tokio::time::interval(LOOK);
    while asked.run_until_cancelled(every.tick()).await.is_some() {
        health.set("broker", broker.is_connected());
        health.set("postgres", database.answers(LOOK).await);
        database.observe();
    }
    ended.cancel();
    Ok(())
}
