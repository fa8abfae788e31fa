//! What all requests share: connections, settings, limits.

use crate::failure::Failure;
use crate::openid_connect::Provider;
use crate::proxy::Proxy;
use crate::sign_in_limit::SignInLimit;
use admin::console::{GroupRoles, SessionLimits};
use common::broker::OperatorConnection;
use common::db::Database;
use common::egress::EgressSettings;
use common::sealed::MasterKeys;
use common::settings::{BrokerSettings, ConsoleUrl};
use std::net::IpAddr;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum number of connections to the broker at once; further operations wait.
const BROKER_CONNECTIONS: usize = 2;

/// The state of the program.
pub(crate) struct App {
    pub(crate) database: Database,
    pub(crate) master_keys: MasterKeys,
    pub(crate) egress: EgressSettings,
    pub(crate) url: ConsoleUrl,
    pub(crate) api_url: String,
    pub(crate) limits: SessionLimits,
    pub(crate) provider: Option<Provider>,
    pub(crate) proxy: Option<Proxy>,
    /// The rights of groups of the provider or the proxy.
    pub(crate) groups: GroupRoles,
    pub(crate) link_sign_ins: SignInLimit<IpAddr>,
    pub(crate) identity_sign_ins: SignInLimit<IpAddr>,
    /// Successful ones, by the name that the provider or the proxy verified.
    pub(crate) verified_sign_ins: SignInLimit<String>,
    broker: BrokerSettings,
    broker_connections: Semaphore,
}

/// A connection to the broker for one operation.
pub(crate) struct BrokerConnection<'a> {
    pub(crate) connection: OperatorConnection,
    _permit: Option<SemaphorePermit<'a>>,
}

impl BrokerConnection<'_> {
    /// Closes the connection. It is closed all the same if that fails.
    pub(crate) async fn close(self) {
        drop(self.connection.close().await);
    }
}

/// What the program is made of.
pub(crate) struct AppParts {
    pub(crate) database: Database,
    pub(crate) broker: BrokerSettings,
    pub(crate) master_keys: MasterKeys,
    pub(crate) egress: EgressSettings,
    pub(crate) url: ConsoleUrl,
    pub(crate) api_url: String,
    pub(crate) limits: SessionLimits,
    pub(crate) provider: Option<Provider>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) groups: GroupRoles,
}

impl App {
    pub(crate) fn new(parts: AppParts) -> Self {
        let AppParts { database, broker, master_keys, egress, url, api_url, limits, provider, proxy, groups } =
            parts;
        Self {
            database,
            master_keys,
            egress,
            url,
            api_url,
            limits,
            provider,
            proxy,
            groups,
            link_sign_ins: SignInLimit::default(),
            identity_sign_ins: SignInLimit::default(),
            verified_sign_ins: SignInLimit::default(),
            broker,
            broker_connections: Semaphore::new(BROKER_CONNECTIONS),
        }
    }

    /// Connects to the broker, for queues and replays.
    pub(crate) async fn broker(&self) -> Result<BrokerConnection<'_>, Failure> {
        // The semaphore is never closed.
        let permit = self.broker_connections.acquire().await.ok();
        let connection = OperatorConnection::open(&self.broker, "connect-console").await;
        let connection = connection.map_err(|error| Failure::from(admin::AdminError::from(error)))?;
        Ok(BrokerConnection { connection, _permit: permit })
    }
}
