//! Policies and operator policies that change what the programs declare.
//!
//! Where a policy and an argument of the queue set the same, quorum queues take the lower limit, the policy's `overflow` and `expires`, and
//! the argument's dead-letter options.

use super::Cluster;
use super::api::QueueState;
use super::grouped::group;
use crate::doctor::{Finding, Level};
use serde_json::Value;

pub(super) fn findings(cluster: &Cluster) -> Vec<Finding> {
    let effects = cluster.queues.iter().flat_map(|queue| {
        let definition = queue.effective_policy_definition.as_object();
        let effects = definition.into_iter().flatten().filter_map(move |(key, value)| {
            let (level, effect) = effect(queue, key, value)?;
            Some((names(queue), key.clone(), value.to_string(), effect, level == Level::Error))
        });
        effects.map(|effect| (effect, queue.name.as_str()))
    });
    let finding = |((policies, key, value, effect, is_error), queues): (_, String)| {
        let (described, commands) = describe(&policies, &cluster.virtual_host);
        let finding = if is_error { Finding::error } else { Finding::warning };
        finding(
            format!("{described} sets {key} to {value} for {queues}: {effect}"),
            format!("Change its pattern so that it does not match these queues, or remove it: {commands}"),
        )
    };
    group(effects).into_iter().map(finding).collect()
}

type Policies = [Option<String>; 2];

/// The policy and the operator policy of a queue.
fn names(queue: &QueueState) -> Policies {
    [&queue.policy, &queue.operator_policy].map(|name| name.clone().filter(|name| !name.is_empty()))
}

/// The policies in words, and the commands that remove them. The management interface does not say which of the two sets a key.
fn describe(policies: &Policies, virtual_host: &str) -> (String, String) {
    let [policy, operator] = policies;
    let parts =
        [("the policy", "clear_policy", policy), ("the operator policy", "clear_operator_policy", operator)];
    let parts = parts.into_iter().filter_map(|(what, command, name)| Some((what, command, name.as_ref()?)));
    let (described, commands): (Vec<String>, Vec<String>) = parts
        .map(|(what, command, name)| {
            (format!("{what} {name:?}"), format!("rabbitmqctl {command} -p {virtual_host:?} {name:?}"))
        })
        .unzip();
    (described.join(" or "), commands.join(" or "))
}

/// What a key of a policy changes for a queue, and how serious it is; `None` if the queue works as it was declared.
fn effect(queue: &QueueState, key: &str, value: &Value) -> Option<(Level, String)> {
    let declared = queue.arguments.get(format!("x-{key}"));
    let is_dead = queue.name.ends_with(".dead");
    let lower = || match (declared.and_then(Value::as_i64), value.as_i64()) {
        (Some(declared), Some(value)) => value < declared,
        _ => true,
    };
    let instead = || declared.map_or_else(|| "none".to_owned(), ToString::to_string);
    match key {
        "message-ttl" if is_dead => Some((Level::Error, format!("dead letters are lost after {value} ms"))),
        "message-ttl" => {
            Some((Level::Error, format!("messages that wait longer than {value} ms are dead-lettered")))
        }
        "expires" => Some((
            Level::Error,
            format!("RabbitMQ deletes the queue with its messages after {value} ms without a consumer"),
        )),
        "overflow" if value != "reject-publish" => Some((
            Level::Error,
            "a full queue loses its oldest messages, instead of refusing new ones".to_owned(),
        )),
        "delivery-limit" if lower() && is_dead => {
            Some((Level::Error, format!("dead letters are lost after {value} scans")))
        }
        "delivery-limit" if lower() => Some((
            Level::Warning,
            format!("a message is dead-lettered after {value} deliveries instead of {}", instead()),
        )),
        "max-length" | "max-length-bytes" if lower() => Some((
            Level::Warning,
            format!("RabbitMQ refuses messages beyond this limit; the programs declare {}", instead()),
        )),
        "dead-letter-exchange" | "dead-letter-routing-key" | "dead-letter-strategy" if declared.is_none() => {
            Some((
                Level::Warning,
                "messages that are rejected or expire go elsewhere than the programs intend".to_owned(),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::tests::parsed;
    use super::*;

    fn cluster(name: &str, extra: &str) -> Cluster {
        let arguments = if name.ends_with(".dead") {
            r#"{"x-delivery-limit":2147483647,"x-max-length":100000,"x-max-length-bytes":4294967296,"x-overflow":"reject-publish","x-queue-type":"quorum"}"#
        } else {
            r#"{"x-dead-letter-exchange":"","x-dead-letter-routing-key":"connect.events.dead","x-dead-letter-strategy":"at-least-once","x-delivery-limit":20,"x-max-length":100000,"x-max-length-bytes":4294967296,"x-overflow":"reject-publish","x-queue-type":"quorum"}"#
        };
        let queue =
            parsed(&format!(r#"{{"name":"{name}","type":"quorum","arguments":{arguments},{extra}}}"#));
        Cluster {
            nodes: Vec::new(),
            queues: vec![queue],
            virtual_host: "/".to_owned(),
            prefix: "connect".to_owned(),
        }
    }

    fn found(name: &str, definition: &str) -> Vec<(Level, String)> {
        let policy =
            format!(r#""policy":"slow","operator_policy":null,"effective_policy_definition":{definition}"#);
        let findings = findings(&cluster(name, &policy));
        findings.into_iter().map(|finding| (finding.level, finding.message)).collect()
    }

    #[test]
    fn what_changes_nothing_is_not_found() {
        for (name, definition) in [
            ("connect.events", "{}"),
            (
                "connect.events",
                r#"{"overflow":"reject-publish","max-length":100000,"max-length-bytes":5000000000}"#,
            ),
            (
                "connect.events",
                r#"{"delivery-limit":20,"dead-letter-exchange":"other","dead-letter-routing-key":"x"}"#,
            ),
            ("connect.events", r#"{"queue-leader-locator":"balanced","ha-mode":"all"}"#),
            // As older brokers write an empty one.
            ("connect.events.dead", "[]"),
        ] {
            assert_eq!(found(name, definition), [], "{definition}");
        }
    }

    #[test]
    fn what_loses_or_refuses_messages_is_found() {
        for (name, definition, level, part) in [
            (
                "connect.events",
                r#"{"message-ttl":60000}"#,
                Level::Error,
                "longer than 60000 ms are dead-lettered",
            ),
            (
                "connect.events.dead",
                r#"{"message-ttl":60000}"#,
                Level::Error,
                "dead letters are lost after 60000 ms",
            ),
            ("connect.events", r#"{"expires":60000}"#, Level::Error, "deletes the queue"),
            ("connect.events", r#"{"overflow":"drop-head"}"#, Level::Error, "loses its oldest messages"),
            ("connect.events", r#"{"max-length":5}"#, Level::Warning, "the programs declare 100000"),
            (
                "connect.events",
                r#"{"max-length-bytes":5}"#,
                Level::Warning,
                "the programs declare 4294967296",
            ),
            ("connect.events", r#"{"delivery-limit":3}"#, Level::Warning, "after 3 deliveries instead of 20"),
            ("connect.events.dead", r#"{"delivery-limit":20}"#, Level::Error, "lost after 20 scans"),
            ("connect.events.dead", r#"{"dead-letter-exchange":"x"}"#, Level::Warning, "go elsewhere"),
            ("connect.events.dead", r#"{"dead-letter-routing-key":"x"}"#, Level::Warning, "go elsewhere"),
        ] {
            let found = found(name, definition);
            let [(found_level, message)] = &found[..] else { panic!("{definition}: {found:?}") };
            assert!(*found_level == level && message.contains(part), "{definition}: {found:?}");
            assert!(message.starts_with(r#"the policy "slow" sets "#), "{message}");
        }
    }

    #[test]
    fn queues_with_the_same_policies_are_one_finding_with_the_commands() {
        // Recorded with RabbitMQ 3.10, without the columns that do not matter.
        let policies =
            r#""effective_policy_definition":{"delivery-limit":3},"operator_policy":"lim","policy":"slow""#;
        let mut cluster = cluster("connect.events", policies);
        cluster.queues.extend(self::cluster("connect.crm", policies).queues);
        let findings = findings(&cluster);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        let message = r#"the policy "slow" or the operator policy "lim" sets delivery-limit to 3 for connect.events, connect.crm: "#;
        assert!(finding.message.starts_with(message), "{finding:?}");
        let commands =
            r#"rabbitmqctl clear_policy -p "/" "slow" or rabbitmqctl clear_operator_policy -p "/" "lim""#;
        assert!(finding.fix.ends_with(commands), "{finding:?}");
    }
}
