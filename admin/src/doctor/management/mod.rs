//! What only RabbitMQ's management interface shows: the nodes of the cluster, the members and leaders of the queues, and policies.

mod api;
mod grouped;
mod members;
mod nodes;
mod policies;

use super::{CHECK_TIMEOUT, Finding, Report};
use crate::http_client::HttpClient;
use api::{Api, Node, QueueState};
use common::broker::{Queue, RETRY_QUEUES_MAX, dead_queue_name, queue_name, retry_queue_name};
use common::settings::{BrokerSettings, ManagementSettings};
use tokio::time::timeout;

/// The checks that need the management interface.
pub(super) const CHECKS: [&str; 4] =
    ["broker.management", "broker.nodes", "broker.members", "broker.policies"];

/// Why they do not run.
pub(super) const NOT_SET: &str = "CONNECT_BROKER_MANAGEMENT_URL is not set";

/// What the management interface shows.
struct Cluster {
    nodes: Vec<Node>,
    /// The queues that exist.
    queues: Vec<QueueState>,
    virtual_host: String,
    /// First part of the queues' names.
    prefix: String,
}

impl Cluster {
    /// The options of `rabbitmq-queues` that select the queues.
    fn selection(&self) -> String {
        let [host, prefix] = [&self.virtual_host, &self.prefix].map(|text| text.replace('.', "\\."));
        format!("--vhost-pattern '^{host}$' --queue-pattern '^{prefix}\\.'")
    }
}

pub(super) async fn check(management: &ManagementSettings, broker: &BrokerSettings, report: &mut Report) {
    let read = timeout(CHECK_TIMEOUT, read(management, broker)).await;
    let read = read.unwrap_or_else(|_| Err(format!("it took longer than {} s", CHECK_TIMEOUT.as_secs())));
    let [connection, nodes, members, policies] = CHECKS;
    let cluster = match read {
        Ok(cluster) => cluster,
        Err(what) => {
            report.add(connection, vec![unreadable(&what)]);
            return;
        }
    };
    report.add(connection, Vec::new());
    report.add(nodes, nodes::findings(&cluster));
    report.add(members, members::findings(&cluster));
    report.add(policies, policies::findings(&cluster));
}

/// The checks cannot run, because of a setting or of the server.
pub(super) fn unreadable(what: &str) -> Finding {
    Finding::error(
        format!("the management interface of RabbitMQ cannot be read: {what}"),
        "Correct CONNECT_BROKER_MANAGEMENT_URL, and CONNECT_BROKER_MANAGEMENT_CA_FILE for a private authority; see docs/operators.md, Check the cluster of RabbitMQ",
    )
}

async fn read(management: &ManagementSettings, broker: &BrokerSettings) -> Result<Cluster, String> {
    let client = HttpClient::new(management.ca_file.as_deref())
        .map_err(|error| format!("setting CONNECT_BROKER_MANAGEMENT_CA_FILE: {error}"))?;
    let api = Api::new(client, &management.url);
    let nodes = api.nodes().await?;
    let virtual_host = broker.urls.virtual_host();
    let mut queues = Vec::new();
    for queue in Queue::ALL {
        for name in [queue_name(&broker.prefix, queue), dead_queue_name(&broker.prefix, queue)] {
            queues.extend(api.queue(&virtual_host, &name).await?);
        }
    }
    // Retry queues are numbered from 1 without a gap.
    for level in 1..=RETRY_QUEUES_MAX {
        match api.queue(&virtual_host, &retry_queue_name(&broker.prefix, level)).await? {
            Some(queue) => queues.push(queue),
            None => break,
        }
    }
    // Other arguments than the programs declare are a finding of `broker.queues`.
    queues.retain(QueueState::is_quorum);
    Ok(Cluster { nodes, queues, virtual_host, prefix: broker.prefix.clone() })
}
