//! The queues: that they exist with the arguments that the programs declare, are consumed, and neither full nor dead-lettering.

use super::Finding;
use crate::Result;
use common::broker::{OperatorConnection, QueueArguments};
use common::settings::BrokerSettings;

/// Percentages of the length limit.
const FILLING: u64 = 50;
const ALMOST_FULL: u64 = 90;

pub(super) async fn check(broker: &OperatorConnection, settings: &BrokerSettings) -> Result<Vec<Finding>> {
    let compared = broker.compare(settings).await?;
    Ok(compared.iter().flat_map(|queue| of_queue(queue, settings.max_length)).collect())
}

fn of_queue(queue: &QueueArguments, max_length: u32) -> Vec<Finding> {
    let QueueArguments { name, depth, difference } = queue;
    let dead_of = name.strip_suffix(".dead").and_then(|queue| queue.rsplit('.').next());
    let Some(depth) = depth else {
        let fix = "Start a worker and a dispatcher, or run connectctl queue declare; check CONNECT_QUEUE_PREFIX";
        return vec![Finding::error(format!("the queue {name} does not exist"), fix)];
    };
    let mut findings = Vec::new();
    if let Some(difference) = difference {
        findings.push(Finding::warning(
            format!("the queue {name} has other arguments than the programs declare: {difference}"),
            "Set the same CONNECT_QUEUE_MAX_LENGTH, CONNECT_QUEUE_MAX_BYTES and CONNECT_RETENTION_DEAD_LETTERS as for the programs. If the queue is to change: stop its publishers, let it become empty, delete it, and start the programs again",
        ));
    }
    if depth.consumers == 0 && dead_of.is_none() {
        findings.push(Finding::error(
            format!("nobody consumes the queue {name}"),
            "Start a worker; if one runs, see the runbook, ConnectNoConsumers",
        ));
    }
    if let Some(queue) = dead_of.filter(|_| depth.ready > 0) {
        // Notices of webhooks cannot be dropped.
        let webhooks = "requeue them: those that were replayed or delivered meanwhile are left out";
        let (requeue, section) = match queue {
            "webhooks" => (webhooks, "ConnectDeliveriesDeadLettered"),
            _ => ("requeue or drop them", "ConnectMessagesDeadLettered"),
        };
        findings.push(Finding::warning(
            format!("{} messages wait in {name}", depth.ready),
            format!(
                "Look at them with connectctl queue show {queue} --dead, fix their cause, and {requeue}; see the runbook, {section}"
            ),
        ));
    }
    let percent = u64::from(depth.ready) * 100 / u64::from(max_length.max(1));
    if percent >= FILLING {
        findings.push(Finding::of(
            percent >= ALMOST_FULL,
            format!(
                "{} of at most {max_length} messages wait in {name}; when it is full, publishers are refused",
                depth.ready
            ),
            "Start more workers, or find out what delays them; see the runbook, ConnectQueueLag",
        ));
    }
    findings
}
