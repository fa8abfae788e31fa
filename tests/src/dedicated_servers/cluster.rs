//! A cluster of three RabbitMQ nodes.

use super::{Broker, Server};
use crate::services;
use std::path::PathBuf;

const NODES: usize = 3;

/// Three nodes on ports of their own, with partition handling and leaders as `docs/deployment.md` advises.
#[derive(Debug)]
pub struct BrokerCluster {
    /// The nodes, in the order of their start.
    pub nodes: Vec<Broker>,
    directory: PathBuf,
}

impl BrokerCluster {
    /// Starts the nodes one after the other, with empty data directories. One cluster at a time: on a machine with few processors
    /// the nodes of two would miss each other's heartbeats.
    pub async fn start() -> Self {
        let directory = services::server_directory("cluster");
        services::stop_with_this_process(&directory);
        let mut cluster = Self { nodes: Vec::new(), directory };
        for number in 1..=NODES {
            let directory = cluster.directory.join(format!("node-{number}"));
            let mut node = Server { kind: "rabbitmq", directory, url: String::new(), disk: None };
            let cluster_directory = cluster.directory.to_string_lossy().into_owned();
            let arguments = vec!["start-rabbitmq-node".to_owned(), cluster_directory, number.to_string()];
            node.url = services::printed_value(&node.script(arguments).await, "AMQP_URL");
            cluster.nodes.push(Broker(node));
        }
        cluster
    }

    /// The value of `AMQP_URL` with all nodes, beginning with that one. Connections have a heartbeat of so many seconds.
    pub fn urls(&self, first: usize, heartbeat: u16) -> String {
        let nodes = (first..first + NODES).map(|number| &self.nodes[number % NODES]);
        nodes.map(|node| format!("{}?heartbeat={heartbeat}", node.url())).collect::<Vec<_>>().join(",")
    }

    /// Separates a node from the others, as a cut network between them does: its connections to them end, and both sides fail to open
    /// new ones, because the node believes that they have another Erlang cookie. Clients still reach all nodes.
    ///
    /// The others lose it at once. If one of them could still ask the other, which still sees the node, RabbitMQ would find a partial
    /// partition, and wait for *all* nodes.
    pub async fn separate(&self, node: usize) {
        let separate =
            "[begin erlang:set_cookie(Peer, separated), erlang:disconnect_node(Peer) end || Peer <- nodes()].";
        let others = || self.nodes.iter().enumerate().filter(|(number, _)| *number != node).map(|(_, other)| other);
        others().for_each(|other| other.pause());
        let separated = self.nodes[node].evaluate(separate).await;
        others().for_each(|other| other.resume());
        separated.expect("the node responds");
    }

    /// Lets a separated node and the others reach each other again.
    pub async fn reunite(&self, node: usize) {
        for peer in (1..=NODES).filter(|number| *number != node + 1) {
            let reunite = format!("erlang:set_cookie('connect-{peer}@localhost', erlang:get_cookie()).");
            self.nodes[node].evaluate(&reunite).await.expect("the node responds");
        }
    }

    /// Whether RabbitMQ runs on a node. It does not on one that paused itself.
    pub async fn is_running(&self, node: usize) -> Result<bool, String> {
        Ok(self.nodes[node].evaluate("rabbit:is_running().").await? == "true")
    }

    /// The queues that begin with `prefix`, as the node `asked` sees them. An error while it cannot say, because it waits for another.
    pub async fn queues(&self, asked: usize, prefix: &str) -> Result<Vec<ClusterQueue>, String> {
        // A queue that is down has no lists of members.
        let queues = "[case Items of
                [{_, {_, _, queue, N}}, {_, L}, {_, M}, {_, O}] when is_list(M), is_list(O) ->
                    {binary_to_atom(N), L, length(M), length(O)};
                [{_, {_, _, queue, N}} | _] -> {binary_to_atom(N), down, 0, 0}
            end || Items <- rabbit_amqqueue:info_all(<<\"/\">>, [name, leader, members, online])].";
        let value = self.nodes[asked].evaluate(queues).await?;
        let queues = value.split('{').skip(1).map(ClusterQueue::parse);
        Ok(queues.filter(|queue| queue.name.starts_with(prefix)).collect())
    }
}

impl Drop for BrokerCluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let directory = self.directory.to_string_lossy().into_owned();
        // A panic here would hide the test's own.
        drop(std::panic::catch_unwind(|| services::run_script(&["stop-all", &directory])));
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// A queue of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterQueue {
    /// The full name.
    pub name: String,
    /// The node that orders its messages.
    pub leader: String,
    /// Nodes that have a copy of it.
    pub members: usize,
    /// Those of them that run.
    pub online: usize,
}

impl ClusterQueue {
    /// From `'name', 'leader', members, online}`.
    fn parse(tuple: &str) -> Self {
        let mut items = tuple.split([',', '}']).map(|item| item.trim().trim_matches('\''));
        let mut next = || items.next().unwrap_or_default();
        let (name, leader) = (next().to_owned(), next().to_owned());
        let mut number = || next().parse().expect("a number");
        Self { name, leader, members: number(), online: number() }
    }
}
