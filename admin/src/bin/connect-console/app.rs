//! What all requests share: connections, settings, limits.

use crate::database::ConsoleDatabase;
use crate::failure::Failure;
use crate::openid_connect::Provider;
use crate::proxy::Proxy;
use crate::sign_in_limit::SignInLimit;
use crate::under_way::{Places, UnderWay};
use admin::attention::ServerStates;
use admin::console::GroupRoles;
use common::broker::OperatorConnection;
use common::egress::EgressSettings;
use common::sealed::MasterKeys;
use common::settings::{BrokerSettings, ConsoleUrl, TenantBounds};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Maximum number of connections to the broker at once; further operations wait.
const BROKER_CONNECTIONS: usize = 2;

/// Longest wait for such a connection.
const BROKER_WAIT: Duration = Duration::from_secs(5);

/// The state of the program.
pub(crate) struct App {
    pub(crate) database: Arc<ConsoleDatabase>,
    pub(crate) master_keys: MasterKeys,
    pub(crate) egress: EgressSettings,
    pub(crate) bounds: TenantBounds,
    pub(crate) url: ConsoleUrl,
    pub(crate) api_url: String,
    pub(crate) provider: Option<Provider>,
    pub(crate) proxy: Option<Proxy>,
    /// The rights of groups of the provider or the proxy.
    pub(crate) groups: GroupRoles,
    /// Failed ones, by link.
    pub(crate) link_sign_ins: SignInLimit,
    /// Callbacks of the provider, by state.
    pub(crate) callbacks: SignInLimit,
    pub(crate) callbacks_under_way: UnderWay,
    /// Checks of the receivers of new subscriptions, by agency.
    pub(crate) receiver_checks: UnderWay,
    /// Downloads of audit records, by agency.
    pub(crate) exports: Arc<Places>,
    /// Sign-ins by the name that the provider or the proxy verified.
    pub(crate) verified_sign_ins: SignInLimit,
    pub(crate) broker: ConsoleBroker,
    /// Whether a mail server is set.
    pub(crate) sends_mails: bool,
    /// What was seen last, so that no page waits for a server that does not respond.
    pub(crate) servers: Mutex<ServerStates>,
}

/// How operations connect to the broker.
pub(crate) struct ConsoleBroker {
    settings: BrokerSettings,
    connections: Semaphore,
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

impl ConsoleBroker {
    pub(crate) const fn new(settings: BrokerSettings) -> Self {
        Self { settings, connections: Semaphore::const_new(BROKER_CONNECTIONS) }
    }

    /// Why no connection can be made; `None` if one can. Takes no place of the pages.
    pub(crate) async fn fault(&self) -> Option<String> {
        match OperatorConnection::open(&self.settings, "connect-console").await {
            Ok(connection) => drop(timeout(BROKER_WAIT, connection.close()).await),
            Err(error) => return Some(error.to_string()),
        }
        None
    }

    /// Connects to the broker, for the pages of queues.
    pub(crate) async fn connect(&self) -> Result<BrokerConnection<'_>, Failure> {
        let permit = timeout(BROKER_WAIT, self.connections.acquire()).await;
        // The semaphore is never closed.
        let permit = permit.map_err(|_| Failure::Overloaded)?.ok();
        let connection = OperatorConnection::open(&self.settings, "connect-console").await;
        let connection = connection.map_err(|error| Failure::from(admin::AdminError::from(error)))?;
        Ok(BrokerConnection { connection, _permit: permit })
    }
}
