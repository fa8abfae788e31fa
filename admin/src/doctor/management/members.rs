//! Members and leaders of the queues.

use super::Cluster;
use super::api::QueueState;
use super::grouped::group;
use crate::doctor::Finding;
use std::collections::BTreeSet;

/// Members with which a queue survives the loss of a node; more make it slower.
const MEMBERS: usize = 3;

pub(super) fn findings(cluster: &Cluster) -> Vec<Finding> {
    let mut findings = missing(cluster);
    findings.extend(offline(cluster));
    findings.extend(without_leader(cluster));
    findings.extend(leaders_on_one_node(cluster));
    findings
}

/// Queues with fewer members than the cluster has nodes.
fn missing(cluster: &Cluster) -> Vec<Finding> {
    let wanted = cluster.nodes.len().min(MEMBERS);
    let few = cluster.queues.iter().filter(|queue| queue.members.len() < wanted);
    let groups =
        group(few.map(|queue| ((queue.members.len(), absent_nodes(cluster, queue)), queue.name.as_str())));
    let finding = |((members, absent), queues): ((usize, Vec<&str>), String)| {
        Finding::warning(
            format!("queues with {members} instead of {wanted} members: {queues}"),
            format!(
                "Add members until there are {wanted}: rabbitmq-queues grow NODE all {}, where NODE is {}",
                cluster.selection(),
                absent.join(" or ")
            ),
        )
    };
    groups.into_iter().map(finding).collect()
}

/// The nodes that have no copy of a queue.
fn absent_nodes<'c>(cluster: &'c Cluster, queue: &QueueState) -> Vec<&'c str> {
    let names = cluster.nodes.iter().map(|node| node.name.as_str());
    names.filter(|name| !queue.members.iter().any(|member| member == name)).collect()
}

/// Queues whose members do not all run. A node that was lost just now may still be in the report of a queue's leader.
fn offline(cluster: &Cluster) -> Vec<Finding> {
    let stopped = |name: &str| cluster.nodes.iter().any(|node| node.name == name && !node.running);
    let found = cluster.queues.iter().filter_map(|queue| {
        let is_offline = |node: &&String| !queue.online.contains(node) || stopped(node);
        let nodes: BTreeSet<&str> = queue.members.iter().filter(is_offline).map(String::as_str).collect();
        let has_majority = (queue.members.len() - nodes.len()) * 2 > queue.members.len();
        (!nodes.is_empty()).then_some(((has_majority, nodes), queue.name.as_str()))
    });
    let finding = |((has_majority, nodes), queues): ((bool, BTreeSet<&str>), String)| {
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(", ");
        let fix = "Start RabbitMQ on these nodes, and repair the network between the nodes. For a node that does not come back: rabbitmq-queues shrink NODE, and then rabbitmq-queues grow with another one";
        if has_majority {
            let message = format!(
                "members on {nodes} are not online, and another failure may stop the queues {queues}"
            );
            Finding::warning(message, fix)
        } else {
            Finding::error(
                format!("members on {nodes} are not online, so these queues do not work: {queues}"),
                fix,
            )
        }
    };
    group(found).into_iter().map(finding).collect()
}

fn without_leader(cluster: &Cluster) -> Option<Finding> {
    let without =
        cluster.queues.iter().filter(|queue| queue.leader.as_deref().unwrap_or_default().is_empty());
    let queues = group(without.map(|queue| ((), queue.name.as_str()))).remove(&())?;
    Some(Finding::error(
        format!("queues without a leader do not work: {queues}"),
        "Run the command again. If they still have none, start all nodes, and look at rabbitmq-queues quorum_status QUEUE",
    ))
}

/// One node then does the work of the whole cluster.
fn leaders_on_one_node(cluster: &Cluster) -> Option<Finding> {
    let running = cluster.nodes.iter().filter(|node| node.running).count();
    let can_move = cluster.queues.iter().any(|queue| queue.online.len() > 1);
    let mut leaders = cluster.queues.iter().filter_map(|queue| queue.leader.as_deref());
    let first = leaders.next()?;
    let others = leaders.clone().count();
    if running < 2 || !can_move || others == 0 || leaders.any(|leader| leader != first) {
        return None;
    }
    Some(Finding::warning(
        format!(
            "the leaders of all {} queues are on the node {first}, although {running} nodes run",
            others + 1
        ),
        format!(
            "Run rabbitmq-queues rebalance quorum {}; queue_leader_locator = balanced spreads those of new queues, see docs/deployment.md",
            cluster.selection()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::api::tests::parsed;
    use super::*;
    use crate::doctor::Level;

    /// A cluster of nodes 1 to `nodes`, of which all run, with queues as (leader, members, members online).
    fn cluster(nodes: u8, queues: &[(u8, &[u8], &[u8])]) -> Cluster {
        let node = |number: &u8| format!("connect-{number}@localhost");
        let names = |numbers: &[u8]| numbers.iter().map(node).collect::<Vec<_>>();
        let queue = |(place, (leader, members, online)): (usize, &(u8, &[u8], &[u8]))| {
            let leader = (*leader > 0).then(|| node(leader));
            let json = serde_json::json!({"name": format!("c.x.q{place}"), "type": "quorum", "leader": leader,
                "members": names(members), "online": names(online)});
            parsed(&json.to_string())
        };
        Cluster {
            nodes: (1..=nodes)
                .map(|number| {
                    parsed(&serde_json::json!({"name": node(&number), "running": true}).to_string())
                })
                .collect(),
            queues: queues.iter().enumerate().map(queue).collect(),
            virtual_host: "/".to_owned(),
            prefix: "c.x".to_owned(),
        }
    }

    fn found(nodes: u8, queues: &[(u8, &[u8], &[u8])]) -> Vec<(Level, String, String)> {
        let findings = findings(&cluster(nodes, queues));
        findings.into_iter().map(|finding| (finding.level, finding.message, finding.fix)).collect()
    }

    const ALL: &[u8] = &[1, 2, 3];

    #[test]
    fn balanced_queues_with_all_members_have_no_finding() {
        assert_eq!(found(3, &[(1, ALL, ALL), (2, ALL, ALL)]), []);
        assert_eq!(found(5, &[(1, ALL, ALL), (2, &[2, 4, 5], &[2, 4, 5])]), [], "three members suffice");
        assert_eq!(found(1, &[(1, &[1], &[1]), (1, &[1], &[1])]), [], "a single node has all leaders");
        assert_eq!(found(3, &[(1, ALL, ALL)]), [], "one queue has one leader");
        assert_eq!(found(3, &[]), []);
    }

    #[test]
    fn queues_with_too_few_members_are_found() {
        let found = found(3, &[(1, &[1], &[1]), (2, &[2], &[2]), (1, &[1], &[1]), (3, &[1, 3], &[1, 3])]);
        let [(Level::Warning, first, _), (Level::Warning, second, _), (Level::Warning, third, fix)] =
            &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(first, "queues with 1 instead of 3 members: c.x.q1");
        assert_eq!(second, "queues with 1 instead of 3 members: c.x.q0, c.x.q2");
        assert_eq!(third, "queues with 2 instead of 3 members: c.x.q3");
        let command = r"rabbitmq-queues grow NODE all --vhost-pattern '^/$' --queue-pattern '^c\.x\.'";
        assert!(fix.contains(command) && fix.ends_with("NODE is connect-2@localhost"), "{fix}");
    }

    #[test]
    fn members_that_are_not_online_are_found() {
        let found = found(3, &[(1, ALL, &[1, 2]), (2, ALL, &[2, 1]), (1, ALL, &[1])]);
        let [(Level::Error, stopped, _), (Level::Warning, critical, _)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(
            stopped.ends_with(
                "connect-2@localhost, connect-3@localhost are not online, so these queues do not work: c.x.q2"
            ),
            "{stopped}"
        );
        assert!(critical.contains("members on connect-3@localhost are not online"), "{critical}");
        assert!(critical.ends_with("c.x.q0, c.x.q1"), "{critical}");
    }

    #[test]
    fn members_on_a_node_that_stopped_just_now_are_found() {
        let mut cluster = cluster(3, &[(1, ALL, ALL), (2, ALL, ALL)]);
        cluster.nodes[2].running = false;
        let findings = findings(&cluster);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert!(finding.message.starts_with("members on connect-3@localhost are not online"), "{finding:?}");
    }

    #[test]
    fn leaders_on_one_node_and_queues_without_one_are_found() {
        let one = found(3, &[(2, ALL, ALL), (2, ALL, ALL)]);
        let [(Level::Warning, message, fix)] = &one[..] else { panic!("{one:?}") };
        assert_eq!(
            message,
            "the leaders of all 2 queues are on the node connect-2@localhost, although 3 nodes run"
        );
        assert!(
            fix.contains(r"rabbitmq-queues rebalance quorum --vhost-pattern '^/$' --queue-pattern '^c\.x\.'")
        );
        let none = found(3, &[(0, ALL, ALL), (1, ALL, ALL), (2, ALL, ALL)]);
        let [(Level::Error, message, _)] = &none[..] else { panic!("{none:?}") };
        assert_eq!(message, "queues without a leader do not work: c.x.q0");
    }
}
