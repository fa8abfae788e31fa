//! What a delivery costs: statements in their round trips, and messages (architecture: Round trips of one delivery).

use super::OutboundWorld;
use tests::{Behavior, MAX_WAIT, MessageRecorder, Messages, StatementRecorder, World, eventually};

/// Records a first attempt.
const RECORD: [&str; 5] = ["BEGIN", "deliveries.record", "attempts.insert", "outbox.relayed", "COMMIT"];
/// Looks up the delivery of a consumed message.
const LOOKUP: [&str; 2] = ["deliveries.known", "subscriptions.targets"];
/// Records an attempt of an event that is relayed already.
const RECORD_OF_RETRY: [&str; 4] = ["BEGIN", "deliveries.record", "attempts.insert", "COMMIT"];

#[tokio::test]
async fn a_first_attempt_is_one_record_and_a_retry_adds_a_message_and_a_lookup() {
    // No attempt fails because the machine is slow.
    let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", "600s");
    let mut outbound = OutboundWorld::without_dispatcher(builder).await;
    let statements = StatementRecorder::in_front_of(outbound.world.database.url());
    let messages = MessageRecorder::in_front_of(outbound.world.queues.url());
    outbound.world.set("DATABASE_URL", statements.url());
    outbound.world.set("AMQP_URL", messages.url());
    outbound.world.add_dispatcher().await;
    outbound.subscribe("/hooks", &[]).await;
    let round_trip =
        |statements: &[&str]| statements.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = [round_trip(&RECORD), round_trip(&LOOKUP), round_trip(&RECORD_OF_RETRY)];
    statements.expect(&expected);
    // The round trips with statements of deliveries, once there are `count` of them.
    let sent = async |count: usize| {
        let is_of_delivery = |statements: &Vec<String>| {
            let of_delivery =
                |name: &String| RECORD[1..4].contains(&name.as_str()) || LOOKUP.contains(&name.as_str());
            statements.iter().any(of_delivery)
        };
        let mut sent = Vec::new();
        eventually("everything is recorded", MAX_WAIT, async || {
            sent.extend(statements.take("dispatcher").into_iter().filter(is_of_delivery));
            if sent.len() >= count { Ok(()) } else { Err(format!("{sent:?}")) }
        })
        .await;
        outbound.until_settled().await;
        (sent, messages.take())
    };

    outbound.open_lead().await;
    assert_eq!(sent(1).await, (expected[..1].to_vec(), Messages::default()));

    outbound.receiver.respond_to_next("/hooks", [Behavior::status(500)]);
    outbound.open_lead().await;
    let published = vec![format!("{}.webhooks.retry.1", outbound.world.queues.prefix())];
    let (round_trips, messages) = sent(3).await;
    assert_eq!(round_trips, expected);
    assert_eq!((messages.published, messages.delivered), (published, 1));
}
