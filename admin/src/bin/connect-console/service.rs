//! Starts the console and shuts it down.

use crate::app::{App, ConsoleBroker};
use crate::database::ConsoleDatabase;
use crate::mails::{Mails, OptionalMails};
use crate::openid_connect::Provider;
use crate::server::serve;
use crate::settings::{Settings, SignInSettings};
use crate::sign_in_limit::SignInLimit;
use crate::under_way::UnderWay;
use admin::doctor;
use common::egress::EgressSettings;
use common::health::{self, Health};
use common::http::{ConnectionTimes, ServerSettings, TrustedProxies};
use common::periodic::ticks;
use common::program::{ACCEPTING, Program, Service};
use common::settings::{BrokerSettings, ConsoleSettings, DatabaseSettings, Section, TenantBounds, Variable};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often readiness is checked, and the longest that the database may take to respond.
const READINESS_INTERVAL: Duration = Duration::from_secs(1);
/// How often the broker is looked at, and in how many of these looks once at certificates.
const SERVERS_INTERVAL: Duration = Duration::from_secs(5);
const CERTIFICATES_EVERY: u32 = 720;
/// How many more sign-ins with the same state, and checks of an agency's receivers, may wait for the one that is under way.
const WAITING: usize = 4;
/// The readiness check of the database.
const POSTGRES: &str = "postgres";

impl Program for Settings {
    const NAME: &'static str = "connect-console";
    const ABOUT: &'static str = "the settings area, for agencies and operators";
    const METRICS_PORT: u16 = 9104;
    const CHECKS: &'static [&'static str] = &[POSTGRES, ACCEPTING];
    const MORE_VARIABLES: &'static [&'static [Variable]] = &[
        EgressSettings::VARIABLES,
        TenantBounds::VARIABLES,
        ConsoleSettings::VARIABLES,
        TrustedProxies::VARIABLES,
        ConnectionTimes::VARIABLES,
        SignInSettings::SECTIONS[0],
        SignInSettings::SECTIONS[1],
        SignInSettings::SECTIONS[2],
        OptionalMails::VARIABLES,
    ];
    /// The address that cannot be bound, or the provider that cannot be used.
    type Error = io::Error;

    async fn run(self, service: Service) -> io::Result<()> {
        self.egress.warn_if_private();
        let addr = self.console.addr;
        let listener = TcpListener::bind(addr)
            .await
            .map_err(|error| health::cannot_listen("CONNECT_CONSOLE_ADDR", addr, &error))?;
        let bound = listener.local_addr()?;
        let url = self.console.url_at(bound);
        let provider = self.sign_in.oidc.map(|oidc| Provider::new(oidc, &url)).transpose();
        let provider = provider.map_err(io::Error::other)?;
        service.start_accepting();
        let Service { database, broker, master_keys, health, shutdown_timeout, shutdown, .. } = service;
        let sends_mails = self.mails.is_some();
        if let Some(settings) = self.mails {
            tokio::spawn(Mails::new(settings, &database.url, url.clone()).send_regularly());
        }
        let app = Arc::new(App {
            database: Arc::new(ConsoleDatabase::new(&database.url)),
            url,
            broker: ConsoleBroker::new(broker.clone()),
            sends_mails,
            servers: Mutex::default(),
            master_keys,
            egress: self.egress,
            bounds: self.bounds,
            api_url: self.api_url,
            provider,
            proxy: self.sign_in.proxy,
            groups: self.sign_in.groups,
            link_sign_ins: SignInLimit::default(),
            callbacks: SignInLimit::default(),
            callbacks_under_way: UnderWay::new(1, WAITING),
            receiver_checks: UnderWay::new(1, WAITING),
            exports: Arc::default(),
            verified_sign_ins: SignInLimit::default(),
        });
        tokio::spawn(watch_readiness(Arc::clone(&app), health));
        tokio::spawn(watch_servers(Arc::clone(&app), database, broker));
        tracing::info!(addr = %bound, url = %app.url, "listening for console requests");
        let mut server = ServerSettings::small(shutdown_timeout);
        server.limits.times = self.times;
        server.proxies = self.trusted_proxies.networks();
        serve(listener, app, (server, self.trusted_proxies), &shutdown).await;
        Ok(())
    }
}

/// Looks at the broker regularly, and sometimes at certificates, for the overview of operators.
async fn watch_servers(app: Arc<App>, database: DatabaseSettings, broker: BrokerSettings) {
    let mut ticks = ticks(SERVERS_INTERVAL);
    for look in 0_u32.. {
        ticks.tick().await;
        let fault = app.broker.fault().await;
        app.servers.lock().broker = fault;
        if look.is_multiple_of(CERTIFICATES_EVERY) {
            let certificates = doctor::certificates(&database, &broker).await;
            app.servers.lock().certificates = certificates;
        }
    }
}

/// Reports whether the database works.
async fn watch_readiness(app: Arc<App>, health: Health) {
    let mut ticks = ticks(READINESS_INTERVAL);
    loop {
        ticks.tick().await;
        health.set(POSTGRES, app.database.is_writable(READINESS_INTERVAL).await);
    }
}
