//! The permissions of the programs' users in RabbitMQ.

use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::Value;
use std::process::Command;
use tests::dedicated_servers::Broker;
use tests::roles::{ROLE_PREFIX, as_program};
use tests::{Behavior, CommandOutput, Connectctl, Receiver, World, event, text};

/// The queue prefixes of all tests, in the permissions of the shared broker.
const PREFIXES: &str = "connect_test_[0-9a-f]+_[0-9]+_[0-9]+";

/// What `connectctl roles` prints for the queues of a prefix.
async fn printed(prefix: &str, options: &[&str]) -> String {
    let connectctl = Connectctl::with(Vec::new()).and("CONNECT_QUEUE_PREFIX", prefix);
    let ran = connectctl.run(&[&["roles", "--role-prefix", ROLE_PREFIX], options].concat()).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.output
}

#[tokio::test]
async fn the_users_of_the_tests_have_the_permissions_that_connectctl_prints() {
    let printed: Value = serde_json::from_str(&printed("a.b", &["--json"]).await).expect("JSON");
    let file = include_str!("../../../../ops/local/services/definitions.json");
    let defined: Value = serde_json::from_str(file).expect("JSON");
    let users = printed["broker"].as_array().expect("users");
    assert_eq!(users.len(), 4);
    for user in users {
        let known = defined["permissions"].as_array().expect("permissions");
        let known = known.iter().find(|known| known["user"] == user["user"]).expect("a user of the tests");
        for right in ["configure", "write", "read"] {
            let of_tests = user[right].as_str().expect("text").replace(r"a\.b", PREFIXES);
            assert_eq!(known[right], of_tests, "{user}");
        }
    }
    assert!(printed["database"].as_array().is_some_and(|grants| grants.len() > 50), "{printed}");
}

#[tokio::test]
async fn the_users_of_compose_have_the_permissions_that_connectctl_prints() {
    let connectctl = Connectctl::with(Vec::new()).and("CONNECT_QUEUE_PREFIX", "connect");
    let printed = connectctl.json(&["roles"]).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/compose/broker-users.sh --print");
    let programs = ["INGEST", "WORKER", "DISPATCHER", "CONSOLE"];
    let passwords = programs.map(|name| (format!("{name}_PASSWORD"), format!("of{name}")));
    let ran = CommandOutput::bash(script, &passwords).await;
    let defined: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let (mut of_compose, mut of_roles) = (defined["permissions"].clone(), printed["broker"].clone());
    for permissions in of_compose.as_array_mut().expect("permissions") {
        assert_eq!(permissions.as_object_mut().expect("an object").remove("vhost"), Some("/".into()));
    }
    of_roles.as_array_mut().expect("permissions").sort_by_key(|user| user["user"].to_string());
    of_compose.as_array_mut().expect("permissions").sort_by_key(|user| user["user"].to_string());
    assert_eq!(of_compose, of_roles);
    for (user, program) in defined["users"].as_array().expect("users").iter().zip(programs) {
        assert_eq!(user["password"], format!("of{program}"), "{user}");
    }
}

/// The arguments of a command as a shell sees them.
fn words(line: &str) -> Vec<String> {
    let script = format!("set -- {line}; printf '%s\\n' \"$@\"");
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// A channel of the user of a program; a refusal closes it.
async fn channel(connection: &Connection) -> Channel {
    connection.create_channel().await.expect("a channel")
}

#[tokio::test]
async fn the_printed_commands_give_each_program_what_it_needs_and_no_more() {
    let broker = Broker::start().await;
    let mut world = World::with()
        .on_broker(broker.url())
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "1")
        .start()
        .await;
    let prefix = world.queues.prefix().to_owned();
    for line in printed(&prefix, &[]).await.lines() {
        let words = words(line);
        assert_eq!((words[0].as_str(), words.len()), ("rabbitmqctl", 8), "{line}");
        broker.control(&words[1..].iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    // New connections have the new permissions.
    world.ingests.clear();
    world.workers.clear();
    world.dispatchers.clear();
    world.add_worker().await;
    world.add_dispatcher().await;
    world.add_ingest().await;
    world.until_ready().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let ana = world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    receiver.wait_for(1).await;
    receiver.respond_to_all(Behavior::status(500));
    world.accept(event("enquiry.submitted").email("bo@example.com")).await;
    world.until_depth("webhooks.dead", 1).await;
    let operator = broker.url().replace("guest:guest", "connect_test_operator:connect_test_operator");
    // As the toolbox works: with the role that owns the schema, and the operator's user.
    let toolbox = world.connectctl.clone().and("AMQP_URL", &operator);
    toolbox.json(&["tenant", "create", "--slug", "other", "--name", "Other"]).await;
    toolbox.json(&["key", "create", "--tenant", "other", "--name", "Site", "--scopes", "events:ingest"]).await;
    for command in [&["client", "export"][..], &["client", "erase", "--yes"]] {
        toolbox.json(&[command, &["--tenant", "acme", "--client", text(&ana["clientId"])]].concat()).await;
    }
    let examined = toolbox.run(&["doctor"]).await;
    assert!(examined.output.contains("messages wait in"), "it sees the queues: {examined:?}");
    assert!(!examined.output.contains("permission") && !examined.output.contains("ACCESS_REFUSED"), "{examined:?}");
    let listed = toolbox.list(&["queue", "list"]).await;
    assert!(listed.iter().any(|queue| queue["name"] == "events" && queue["depth"] == 0), "{listed:?}");

    let named = |queue: &str| format!("{prefix}.{queue}");
    let (events, webhooks, other) = (named("events"), named("webhooks.dead"), format!("{prefix}x.events"));
    for (program, queue) in [
        ("connect-ingest", &events),
        ("connect-ingest", &webhooks),
        ("connect-worker", &webhooks),
        ("connect-worker", &other),
        ("connect-dispatcher", &events),
        ("connect-dispatcher", &other),
    ] {
        let url = as_program(program, broker.url());
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("a user");
        let declared = channel(&connection).await;
        let declared =
            declared.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), FieldTable::default());
        assert_refused(&format!("{program} declares {queue}"), declared.await);
        let deleted = channel(&connection).await;
        let deleted = deleted.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        // A queue that does not exist is deleted without a permission.
        if queue != &other {
            assert_refused(&format!("{program} deletes {queue}"), deleted.await);
            let consumed = channel(&connection).await;
            let consumed = consumed.basic_consume(
                queue.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            );
            assert_refused(&format!("{program} consumes {queue}"), consumed.await);
        }
        let published = channel(&connection).await;
        let confirm = published.basic_publish(
            "amq.fanout".into(),
            "".into(),
            BasicPublishOptions::default(),
            b"",
            BasicProperties::default(),
        );
        drop(confirm.await);
        // The refusal closes the channel before the next request of it is processed.
        let next = published.basic_qos(1, BasicQosOptions::default()).await;
        let error = next.expect_err("a refused channel").to_string();
        // The refusal may arrive before the request is sent.
        let is_refused = is_refusal(&error) || error.contains("invalid channel state");
        assert!(is_refused, "{program} publishes to another exchange: {error}");
    }
}

fn assert_refused<T: std::fmt::Debug>(what: &str, result: lapin::Result<T>) {
    let error = result.expect_err(what).to_string();
    assert!(is_refusal(&error), "{what}: {error}");
}

fn is_refusal(error: &str) -> bool {
    error.contains("ACCESS_REFUSED") || error.contains("ACCESSREFUSED")
}
