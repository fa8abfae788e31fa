//! Why an operation failed.

use common::broker::OperatorConnectionError;
use common::db::{MigrateError, TxError};
use common::model::DeliveryState;
use common::settings::Bound;
use std::error::Error as StdError;
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// Why an operation failed. [`describe`] adds the causes to the text.
#[derive(Debug, Error)]
pub enum AdminError {
    /// An input is malformed. The text names it and says what is expected.
    #[error("{0}")]
    InvalidInput(String),
    /// No tenant has this slug.
    #[error("tenant {0:?} does not exist")]
    TenantNotFound(String),
    /// Another tenant has this slug.
    #[error("tenant {0:?} exists already")]
    TenantExists(String),
    /// The tenant has no member with this email.
    #[error("member {email:?} does not exist in tenant {tenant:?}")]
    MemberNotFound {
        /// Lower case.
        email: String,
        /// Slug of the tenant.
        tenant: String,
    },
    /// No API key has this prefix.
    #[error("key {0:?} does not exist")]
    KeyNotFound(String),
    /// The key is revoked, which cannot be undone.
    #[error("key {0:?} is revoked for good; its scopes cannot be changed")]
    KeyRevoked(String),
    /// An earlier rotation has an overlap until this time, RFC 3339: its old secret is of use, and only one is kept (D33).
    #[error("the old secret of the last rotation is valid until {0}, and another rotation would end that at once")]
    OverlapRuns(String),
    /// The key is another tenant's, revoked or expired, or does not exist.
    #[error("key {0:?} is not an active key of this tenant")]
    KeyNotActive(String),
    /// The tenant has no client with this id.
    #[error("client {client:?} does not exist in tenant {tenant:?}")]
    ClientNotFound {
        /// As given.
        client: String,
        /// Slug of the tenant.
        tenant: String,
    },
    /// The client is a company's account, which is no person.
    #[error("client {0:?} is a company account; give the id of a person")]
    ClientIsCompany(String),
    /// A person was erased from the database, but their dead letters could not be removed.
    #[error(
        "client {client:?} was erased from the database, but not from the dead-letter queues; run the command again"
    )]
    ErasureUnfinished {
        /// The id that the client had.
        client: String,
        /// What the broker said.
        source: OperatorConnectionError,
    },
    /// The tenant has no lead with this id.
    #[error("lead {lead:?} does not exist in tenant {tenant:?}")]
    LeadNotFound {
        /// As given.
        lead: String,
        /// Slug of the tenant.
        tenant: String,
    },
    /// Another company account of the tenant has this domain.
    #[error("a company account with the domain {0:?} exists already")]
    CompanyExists(String),
    /// No subscription has this id.
    #[error("subscription {0:?} does not exist")]
    SubscriptionNotFound(String),
    /// The tenant has no subscription with this id, not even a removed one.
    #[error("subscription {0:?} does not exist in this tenant")]
    SubscriptionNotInTenant(String),
    /// The subscription was removed, which cannot be undone.
    #[error("subscription {0:?} was removed")]
    SubscriptionRemoved(String),
    /// A test event would wait as long as the subscription is paused.
    #[error("subscription {0:?} is paused; resume it before you test it, because its deliveries wait")]
    SubscriptionPaused(String),
    /// A test event was written, but no dispatcher has attempted its delivery in time.
    #[error(
        "no dispatcher has attempted the test delivery {delivery} within {waited:?}; check that connect-dispatcher runs and is \
         ready. The event is sent once a dispatcher is ready; see connectctl delivery show {delivery}"
    )]
    TestNotAttempted {
        /// Id of the delivery.
        delivery: Uuid,
        /// How long the command has waited.
        waited: Duration,
    },
    /// The delivery of a test event waits, or was dropped.
    #[error(
        "the test delivery {delivery} is {state} and was not attempted within {waited:?}: its subscription was paused or removed \
         meanwhile, or its receiver has a backlog. See connectctl delivery show {delivery}"
    )]
    TestDelayed {
        /// Id of the delivery.
        delivery: Uuid,
        /// The state in which the delivery was seen last.
        state: DeliveryState,
        /// How long the command has waited.
        waited: Duration,
    },
    /// No replay job has this id.
    #[error("replay job {0:?} does not exist")]
    ReplayJobNotFound(String),
    /// The replay job has ended, or is stopping.
    #[error("replay job {0} is not running any more")]
    ReplayJobNotRunning(Uuid),
    /// The tenant has as many objects of a kind, such as `active members`, as a setting allows.
    #[error("the tenant has {} {what}, as many as {} allows, or ten times as many with former ones", bound.most, bound.setting)]
    BoundReached {
        /// What is bounded.
        what: &'static str,
        /// The bound, and its setting.
        bound: Bound,
    },
    /// The tenant has as many replay jobs as it may have at once.
    #[error("the tenant has {0} replay jobs that have not ended; wait for them, or stop one")]
    TooManyReplayJobs(i64),
    /// A replay job makes no progress.
    #[error(
        "replay job {0} has made no progress for {1:?}; check that connect-dispatcher runs and is ready. The job \
         continues once a dispatcher is ready; see connectctl replay show {0}"
    )]
    ReplayStalled(Uuid, Duration),
    /// The URL of a receiver is not allowed, or its host cannot be resolved (D27).
    #[error("{0}")]
    ReceiverRefused(String),
    /// The name of a receiver resolves to an address that is not public (D27). The address is for the operator alone: it tells of the
    /// internal network.
    #[error("host {host:?} is not public")]
    ReceiverNotPublic {
        /// The host in the URL.
        host: String,
        /// The address, and why it is refused.
        source: RefusedAddress,
    },
    /// No delivery has this id.
    #[error("delivery {0:?} does not exist")]
    DeliveryNotFound(String),
    /// No refused request of the tenant has this id.
    #[error("refused request {0:?} does not exist")]
    RefusalNotFound(String),
    /// The delivery is in another state than dead or delivered.
    #[error("delivery {0} cannot be replayed: it is {1}")]
    DeliveryNotReplayable(Uuid, DeliveryState),
    /// The delivery's subscription was removed.
    #[error("delivery {0} cannot be replayed: its subscription was removed")]
    DeliveryWithoutSubscription(Uuid),
    /// A form of the settings area has acted already (D41).
    #[error("this form was sent before, with other fields. Nothing was changed now: open the page again")]
    FormSpent,
    /// The master key is not the one that the database was set up with.
    #[error(
        "CONNECT_MASTER_KEY differs from the master key that the database was set up with; set it to the master key of the running programs"
    )]
    MasterKeyDiffers,
    /// A program's role could not be created.
    #[error(
        "the role {role} does not exist and could not be created; run the command as a role with CREATEROLE, or create it first: CREATE ROLE {role} NOLOGIN"
    )]
    RoleNotCreated {
        /// The name of the role.
        role: String,
        /// The error of Postgres.
        source: tokio_postgres::Error,
    },
    /// The system's random generator failed.
    #[error("the system's random generator failed: {0}")]
    Random(String),
    /// An action was not published, because there is no connection to the broker.
    #[error("the broker cannot be reached; nothing was published")]
    BrokerUnavailable,
    /// An action was not published, because the queue is full.
    #[error("the crm queue is full; nothing was published")]
    CrmQueueFull,
    /// The worker did not reply to an action in time. The action may be repeated with the same id.
    #[error("no reply within the timeout; the action may still be applied")]
    NoReply {
        /// Id of the message.
        id: Uuid,
    },
    /// The worker refused an action.
    #[error("{status_code} {code}: {message}")]
    ActionRefused {
        /// The status that the refusal has in HTTP.
        status_code: u64,
        /// The refusal's name, such as `not_found`.
        code: String,
        /// What is wrong, for the operator.
        message: String,
    },
    /// Another copy has been removing expired rows for too long.
    #[error(
        "another program has held the lock of retention for 30 s; end its session in the database, or try again later"
    )]
    RetentionBusy,
    /// Requeueing stopped before all messages were requeued.
    #[error("{requeued} requeued, the others stay in the dead-letter queue")]
    RequeueStopped {
        /// Number of messages that are in their queue again.
        requeued: u32,
        /// What the broker said.
        source: OperatorConnectionError,
    },
    /// The broker cannot be reached, or refused the operation.
    #[error(transparent)]
    Broker(#[from] OperatorConnectionError),
    /// The database failed or refused a statement.
    #[error("{}", describe(.0))]
    Database(#[from] tokio_postgres::Error),
    /// A pool has no connection to the database, or it did not respond in time.
    #[error(transparent)]
    NoConnection(#[from] TxError),
    /// The schema could not be migrated.
    #[error("{}", describe(.0))]
    Migration(#[from] MigrateError),
    /// Stored data or a reply cannot be parsed.
    #[error("{0}")]
    Unreadable(String),
}

/// The result of an operation.
pub type Result<T, E = AdminError> = std::result::Result<T, E>;

/// An address that no receiver may have.
#[derive(Debug, Error)]
#[error("address {address} is not public: {why}")]
pub struct RefusedAddress {
    /// The address.
    pub address: IpAddr,
    /// Why it is refused.
    pub why: &'static str,
}

impl AdminError {
    /// The database's error, if that is the reason.
    pub const fn database_error(&self) -> Option<&tokio_postgres::Error> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }

    /// Whether a statement violated the constraint `name`.
    pub(crate) fn violates(&self, name: &str) -> bool {
        let constraint = self.database_error().and_then(|error| error.as_db_error()?.constraint());
        constraint == Some(name)
    }
}

/// An error and its causes, outermost first, in one line. Leaves out the database's error details, which may contain values.
pub fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let (part, is_complete) = part(cause);
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        // Some errors repeat their source in their own text.
        if !parts.last().is_some_and(|last| last.ends_with(&part)) {
            parts.push(part);
        }
        next = if is_complete { None } else { cause.source() };
    }
    parts.join(": ")
}

/// The text of one cause, and whether it already contains the texts of its own causes.
fn part(cause: &(dyn StdError + 'static)) -> (String, bool) {
    if let Some(AdminError::Database(_) | AdminError::Migration(_)) = cause.downcast_ref() {
        return (cause.to_string(), true);
    }
    if let Some(failed @ MigrateError::Failed { source, .. }) = cause.downcast_ref()
        && let Some(db) = source.as_db_error()
    {
        return (format!("{failed}: {} ({})", db.message(), db.code().code()), true);
    }
    let Some(db) = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error) else {
        return (cause.to_string(), false);
    };
    if *db.code() == SqlState::UNDEFINED_TABLE || *db.code() == SqlState::UNDEFINED_COLUMN {
        return (format!("the schema lacks a migration ({}); run connectctl migrate", db.message()), true);
    }
    (format!("the database refused: {} ({})", db.message(), db.code().code()), true)
}

/// What a user interface tells of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was named does not exist, or belongs to another tenant.
    NotFound,
    /// The input or the state of things does not allow the operation; the text says why.
    Refused,
    /// Postgres or RabbitMQ cannot be reached or does not work; the operation may be repeated.
    Unavailable,
    /// A fault of the installation or of the program, for the operator's log.
    Internal,
}

impl AdminError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TenantNotFound(_)
            | Self::MemberNotFound { .. }
            | Self::KeyNotFound(_)
            | Self::ClientNotFound { .. }
            | Self::LeadNotFound { .. }
            | Self::SubscriptionNotFound(_)
            | Self::SubscriptionNotInTenant(_)
            | Self::RefusalNotFound(_)
            | Self::DeliveryNotFound(_)
            | Self::ReplayJobNotFound(_) => ErrorKind::NotFound,
            Self::InvalidInput(_)
            | Self::ClientIsCompany(_)
            | Self::TenantExists(_)
            | Self::KeyRevoked(_)
            | Self::KeyNotActive(_)
            | Self::OverlapRuns(_)
            | Self::CompanyExists(_)
            | Self::SubscriptionRemoved(_)
            | Self::ReceiverRefused(_)
            | Self::ReceiverNotPublic { .. }
            | Self::SubscriptionPaused(_)
            | Self::ReplayJobNotRunning(_)
            | Self::TooManyReplayJobs(_)
            | Self::BoundReached { .. }
            | Self::DeliveryNotReplayable(..)
            | Self::DeliveryWithoutSubscription(_)
            | Self::ActionRefused { .. }
            | Self::CrmQueueFull
            | Self::FormSpent
            | Self::RetentionBusy => ErrorKind::Refused,
            Self::BrokerUnavailable
            | Self::NoReply { .. }
            | Self::RequeueStopped { .. }
            | Self::TestNotAttempted { .. }
            | Self::TestDelayed { .. }
            | Self::ReplayStalled(..)
            | Self::ErasureUnfinished { .. }
            | Self::NoConnection(_)
            | Self::Broker(_) => ErrorKind::Unavailable,
            Self::Database(error) if error.as_db_error().is_none() => ErrorKind::Unavailable,
            Self::MasterKeyDiffers
            | Self::Random(_)
            | Self::Database(_)
            | Self::Migration(_)
            | Self::RoleNotCreated { .. }
            | Self::Unreadable(_) => ErrorKind::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Caused {
        text: &'static str,
        source: Option<Box<Caused>>,
    }

    fn caused(text: &'static str, cause: &'static str) -> Caused {
        Caused { text, source: Some(Box::new(Caused { text: cause, source: None })) }
    }

    #[test]
    fn causes_are_joined_in_one_line_without_repetition() {
        let error = caused("cannot reach\nthe database", "connection refused\n(os error 111)");
        assert_eq!(describe(&error), "cannot reach the database: connection refused (os error 111)");
        assert_eq!(describe(&caused("a: b", "b")), "a: b");
    }

    #[test]
    fn the_cause_of_a_stopped_operation_is_part_of_its_description() {
        let source = OperatorConnectionError::Refused("connect.events".to_owned());
        let error = AdminError::RequeueStopped { requeued: 3, source };
        let expected = "3 requeued, the others stay in the dead-letter queue: \
         the queue connect.events refused a message: it is full or does not exist";
        assert_eq!(describe(&error), expected);
    }
}
