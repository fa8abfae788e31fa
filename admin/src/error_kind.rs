//! The kinds of errors that a user interface distinguishes.

use crate::AdminError;

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
            | Self::CompanyExists(_)
            | Self::SubscriptionRemoved(_)
            | Self::ReceiverRefused(_)
            | Self::SubscriptionPaused(_)
            | Self::ReplayJobNotRunning(_)
            | Self::TooManyReplayJobs(_)
            | Self::DeliveryNotReplayable { .. }
            | Self::DeliveryWithoutSubscription(_)
            | Self::ActionRefused { .. }
            | Self::CrmQueueFull
            | Self::RetentionBusy => ErrorKind::Refused,
            Self::BrokerUnavailable
            | Self::NoReply { .. }
            | Self::RequeueStopped { .. }
            | Self::TestNotAttempted { .. }
            | Self::TestDelayed { .. }
            | Self::ReplayStalled { .. }
            | Self::DeadLetterRemains(_)
            | Self::ErasureUnfinished { .. }
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
