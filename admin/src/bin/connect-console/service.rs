//! Starts the console and shuts it down.

use crate::app::{App, AppParts};
use crate::openid_connect::Provider;
use crate::server::serve;
use crate::settings::Settings;
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::{metrics, shutdown};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

/// The default of `CONNECT_METRICS_ADDR`.
const METRICS_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9104);
/// Connections to the database. A page takes one.
const CONNECTIONS: usize = 6;
/// Longest wait for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(3);
/// Longest statement: a report must not slow the intake.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often readiness is checked, and the longest that the database may take to respond.
const READINESS_INTERVAL: Duration = Duration::from_secs(1);
/// Readiness checks.
const POSTGRES: &str = "postgres";
const ACCEPTING: &str = "accepting";

/// Runs until SIGTERM or SIGINT, then drains. The error names the address that cannot be bound.
pub(crate) async fn run(settings: Settings) -> io::Result<()> {
    let shutdown = shutdown::on_signal()?;
    let health = Health::new(&[POSTGRES, ACCEPTING]);
    let metrics_addr = settings.service.metrics_addr.unwrap_or(METRICS_ADDR);
    health::serve(metrics_addr, health.clone(), metrics::install()).await?;
    let addr = settings.console.addr;
    let listener = TcpListener::bind(addr)
        .await
        .map_err(|error| health::cannot_listen("CONNECT_CONSOLE_ADDR", addr, &error))?;
    let bound = listener.local_addr()?;
    let database = Database::new(
        &settings.database.url,
        PoolSettings {
            name: "console",
            size: CONNECTIONS,
            wait: CONNECTION_WAIT,
            statement_timeout: STATEMENT_TIMEOUT,
            durable: true,
        },
    );
    let url = settings.console.url_at(bound);
    let provider = settings.sign_in.oidc.map(|oidc| Provider::new(oidc, &url)).transpose();
    let provider = provider.map_err(io::Error::other)?;
    tokio::spawn(watch_readiness(database.clone(), health.clone(), shutdown.clone()));
    let app = Arc::new(App::new(AppParts {
        database,
        url,
        broker: settings.broker,
        master_keys: settings.sealing.master_keys,
        egress: settings.egress,
        api_url: settings.pages.api_url,
        limits: settings.pages.limits,
        provider,
        proxy: settings.sign_in.proxy,
        groups: settings.sign_in.groups,
    }));
    tracing::info!(addr = %bound, url = %app.url, "listening for console requests");
    health.set(ACCEPTING, true);
    serve(listener, app, settings.service.shutdown_timeout, &shutdown).await;
    Ok(())
}

/// Reports whether the database works, and that a drain has begun.
async fn watch_readiness(database: Database, health: Health, shutdown: CancellationToken) {
    let mut every = interval(READINESS_INTERVAL);
    while shutdown.run_until_cancelled(every.tick()).await.is_some() {
        health.set(POSTGRES, database.is_writable(READINESS_INTERVAL).await);
        Database::observe(std::slice::from_ref(&database));
    }
    health.set(ACCEPTING, false);
}
