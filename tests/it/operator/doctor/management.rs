//! What RabbitMQ's management interface shows; tests/it/faults/cluster.rs checks nodes and members.

use super::{findings, of, until_fixed, until_found};
use tests::dedicated_servers::Broker;
use tests::{Authority, Connectctl, text};

const URL: &str = "CONNECT_BROKER_MANAGEMENT_URL";

/// connectctl for the queues `connect.*` of a broker, which it declares.
async fn with_queues(broker: &Broker) -> Connectctl {
    let ctl = Connectctl::with(Vec::new()).and("AMQP_URL", broker.url());
    ctl.json(&["queue", "declare"]).await;
    ctl
}

#[tokio::test]
async fn policies_and_alarms_are_found() {
    let (broker, port) = Broker::start_with_management(None).await;
    // A user with the rights that docs/operators.md names.
    broker.control(&["add_user", "doctor", "pass@word"]).await;
    broker.control(&["set_user_tags", "doctor", "monitoring"]).await;
    broker.control(&["set_permissions", "doctor", "^$", "^$", "^$"]).await;
    let url = format!("http://doctor:pass%40word@127.0.0.1:{port}/");
    let ctl = with_queues(&broker).await.and(URL, &url);
    for check in ["broker.management", "broker.nodes", "broker.members", "broker.policies"] {
        assert!(of(&findings(&ctl, &[]).await, check, "").is_none(), "{check}");
    }

    let policy = r#"{"message-ttl":60000,"max-length":200000}"#;
    broker.control(&["set_policy", "--apply-to", "queues", "slow", "^connect\\.events$", policy]).await;
    let part = r#"the policy "slow" sets message-ttl to 60000 for connect.events: "#;
    let finding = until_found(&ctl, &[], "error", "broker.policies", part).await;
    assert!(of(&findings(&ctl, &[]).await, "broker.policies", "max-length").is_none(), "the limit is higher");
    let operator = r#"{"max-length":5}"#;
    broker.control(&["set_operator_policy", "--apply-to", "queues", "few", "^connect\\.crm", operator]).await;
    let part = r#"the operator policy "few" sets max-length to 5 for connect.crm, connect.crm.dead: "#;
    let other = until_found(&ctl, &[], "warning", "broker.policies", part).await;
    for finding in [finding, other] {
        let command = text(&finding["fix"]).split_once("rabbitmqctl ").expect("a command").1.replace('"', "");
        broker.control(&command.split(' ').collect::<Vec<_>>()).await;
    }
    until_fixed(&ctl, &[], "broker.policies", "").await;

    broker.control(&["set_vm_memory_high_watermark", "absolute", "1MB"]).await;
    until_found(&ctl, &[], "error", "broker.nodes", "short of memory").await;
    broker.control(&["set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    until_fixed(&ctl, &[], "broker.nodes", "").await;

    broker.control(&["set_user_tags", "doctor"]).await;
    until_found(&ctl, &[], "error", "broker.management", "401 Unauthorized (Not management user)").await;
}

#[tokio::test]
async fn a_management_interface_that_cannot_be_read_is_found() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (broker, port) = Broker::start_with_management(Some(&authority.certificate(&["localhost"]))).await;
    let ctl = with_queues(&broker).await;
    let at = |url: &str, authority: &Authority| {
        let file = authority.file().display().to_string();
        ctl.clone().and(URL, url).and("CONNECT_BROKER_MANAGEMENT_CA_FILE", &file)
    };
    let url = format!("https://guest:guest@localhost:{port}");
    let found = findings(&at(&url, &authority), &[]).await;
    assert!(of(&found, "broker.management", "").is_none(), "{found:?}");
    let wrong_password = url.replace(":guest@", ":hunter2@");
    for (url, authority, part) in [
        (&wrong_password, &authority, "refuses the user \"guest\": 401 Unauthorized (Login failed)"),
        (&url, &other, "invalid peer certificate"),
        (&url.replace("localhost", "127.0.0.1"), &authority, "invalid peer certificate"),
        (&format!("http://guest:hunter2@127.0.0.1:{}", 1), &authority, "Connection refused"),
        (
            &"http://guest:hunter2@mq.example:15672".to_owned(),
            &authority,
            "setting CONNECT_BROKER_MANAGEMENT_URL: must be",
        ),
        (&format!("{url}/elsewhere"), &authority, "there is no management interface at this URL (404)"),
    ] {
        let found = findings(&at(url, authority), &[]).await;
        let finding = of(&found, "broker.management", part).unwrap_or_else(|| panic!("{part}: {found:?}"));
        assert_eq!(finding["level"], "error", "{finding}");
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
        assert!(of(&found, "broker.queues", "nobody consumes").is_some(), "the others run: {found:?}");
    }
    let missing = ctl.clone().and(URL, &url).and("CONNECT_BROKER_MANAGEMENT_CA_FILE", "/none/ca.pem");
    until_found(&missing, &[], "error", "broker.management", "MANAGEMENT_CA_FILE: /none/ca.pem: ").await;
}
