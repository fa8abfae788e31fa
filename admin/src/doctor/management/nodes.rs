//! The nodes of the cluster.

use super::Cluster;
use super::api::Node;
use crate::doctor::Finding;

pub(super) fn findings(cluster: &Cluster) -> Vec<Finding> {
    cluster.nodes.iter().flat_map(of_node).collect()
}

fn of_node(node: &Node) -> Vec<Finding> {
    let Node { name, running, mem_alarm, disk_free_alarm, partitions } = node;
    let mut findings = Vec::new();
    if !running {
        findings.push(Finding::warning(
            format!("the node {name} of RabbitMQ does not run"),
            format!("Start it. If it does not come back: rabbitmqctl forget_cluster_node {name}"),
        ));
    }
    for (is_in_effect, what, limit) in [
        (*mem_alarm, "memory", "vm_memory_high_watermark"),
        (*disk_free_alarm, "disk space", "disk_free_limit"),
    ] {
        if is_in_effect {
            findings.push(Finding::error(
                format!("RabbitMQ's node {name} is short of {what}; the cluster blocks all publishers"),
                format!("Free {what} on the node, or give it more; {limit} is the limit. See the runbook, ConnectBrokerBlocked"),
            ));
        }
    }
    if !partitions.is_empty() {
        findings.push(Finding::error(
            format!("RabbitMQ's node {name} is separated from {} by a network partition", partitions.join(", ")),
            "Repair the network between the nodes, and restart those of the minority; set cluster_partition_handling = pause_minority, see docs/deployment.md",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::api::tests::parsed;
    use super::*;
    use crate::doctor::Level;

    fn found(node: &str) -> Vec<(Level, String)> {
        of_node(&parsed(node)).into_iter().map(|finding| (finding.level, finding.message)).collect()
    }

    #[test]
    fn nodes_with_alarms_partitions_or_that_do_not_run_are_found() {
        let running = r#""name":"a@h","running":true"#;
        assert_eq!(found(&format!("{{{running},\"partitions\":[],\"mem_alarm\":false}}")), []);
        for (extra, part) in [
            (r#""mem_alarm":true"#, "a@h is short of memory"),
            (r#""disk_free_alarm":true"#, "a@h is short of disk space"),
            (r#""partitions":["b@h","c@h"]"#, "a@h is separated from b@h, c@h"),
        ] {
            let found = found(&format!("{{{running},{extra}}}"));
            assert!(matches!(&found[..], [(Level::Error, text)] if text.contains(part)), "{found:?}");
        }
        let found = found(r#"{"name":"c@h","running":false}"#);
        assert!(
            matches!(&found[..], [(Level::Warning, text)] if text.contains("c@h of RabbitMQ does not run"))
        );
    }
}
