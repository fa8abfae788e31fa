//! The permissions of the programs' users in RabbitMQ.
//!
//! All messages are published to the default exchange, whose permission does not distinguish queues: the MAC of each message
//! does (SECURITY.md). A program that consumes queues declares them, for which RabbitMQ wants all three permissions.

use serde::Serialize;

common::named! {
    /// Who connects to the broker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BrokerUser {
        /// `connect-ingest`
        Ingest = "ingest",
        /// `connect-worker`
        Worker = "worker",
        /// `connect-dispatcher`
        Dispatcher = "dispatcher",
        /// `connectctl` and `connect-console`
        Operator = "operator",
    }
}

/// What a user may do, as regular expressions on the names of queues and exchanges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokerPermissions {
    /// Name of the user.
    pub user: String,
    /// Declare and delete.
    pub configure: String,
    /// Publish.
    pub write: String,
    /// Consume, count and purge.
    pub read: String,
}

impl BrokerUser {
    /// Queues that it declares, and those that it consumes, without prefix.
    const fn queues(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            // It publishes, and gets replies by direct reply-to, which needs no permission.
            Self::Ingest => (None, None),
            Self::Worker => {
                let consumed = Some(r"(events|records|crm)(\.dead)?");
                (consumed, consumed)
            }
            // It only publishes notices.
            Self::Dispatcher => (Some(r"webhooks\.dead"), None),
            Self::Operator => (Some(".+"), Some(".+")),
        }
    }
}

/// The permissions of each user, whose name begins with `user_prefix`, on the queues with this prefix.
pub fn permissions(user_prefix: &str, queue_prefix: &str) -> Vec<BrokerPermissions> {
    // A prefix has letters, digits, '-', '_' and '.' only.
    let prefix = queue_prefix.replace('.', r"\.");
    let names = |queues: Option<&str>| match queues {
        Some(queues) => format!(r"^{prefix}\.{queues}$"),
        None => "^$".to_owned(),
    };
    let of = |user: BrokerUser| {
        let (configure, read) = user.queues();
        BrokerPermissions {
            user: format!("{user_prefix}_{}", user.as_str()),
            configure: names(configure),
            write: r"^amq\.default$".to_owned(),
            read: names(read),
        }
    };
    BrokerUser::ALL.map(of).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_limited_to_the_prefix() {
        let all = permissions("connect", "eu.live");
        let [ingest, worker, ..] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (ingest.user.as_str(), ingest.configure.as_str(), ingest.read.as_str()),
            ("connect_ingest", "^$", "^$")
        );
        assert_eq!(worker.configure, r"^eu\.live\.(events|records|crm)(\.dead)?$");
    }
}
