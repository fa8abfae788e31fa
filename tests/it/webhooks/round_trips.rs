//! What a delivery costs: statements in their round trips, and no message (architecture: Life of a webhook).

use super::OutboundWorld;
use tests::{Behavior, MAX_WAIT, MessageRecorder, Messages, World, eventually};

/// A first attempt is fanned out and recorded, a retry is read and recorded: one round trip each.
const FIRST: [&str; 2] = ["deliveries.fan_out", "deliveries.record"];
const RETRY: [&str; 2] = ["deliveries.next", "deliveries.record"];

#[tokio::test]
async fn a_first_attempt_and_a_retry_are_two_statements_each_and_no_message() {
    // No attempt fails because the machine is slow.
    let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", "600s");
    let mut outbound = OutboundWorld::without_dispatcher(builder).await;
    let statements = outbound.world.record_statements();
    let messages = MessageRecorder::in_front_of(outbound.world.queues.url());
    outbound.world.set("AMQP_URL", messages.url());
    outbound.world.add_dispatcher().await;
    outbound.world.dispatchers[0].until_ready().await;
    outbound.subscribe("/hooks", &[]).await;
    let round_trips = |statements: &[&str]| statements.iter().map(|name| vec![(*name).to_owned()]).collect::<Vec<_>>();
    // Looks and rounds of the fan-out that find nothing are not counted. A look that finds a delivery whose attempt is under way has
    // its subscription read in vain.
    let mut has_looked = false;
    let mut sent = async |expected: &[Vec<String>]| {
        let is_of_delivery = |statements: &Vec<String>| statements.iter().any(|name| RETRY.contains(&name.as_str()));
        let mut sent = Vec::new();
        eventually("everything is recorded", MAX_WAIT, async || {
            for statements in statements.take("dispatcher") {
                let is_look = statements == ["deliveries.look"];
                let is_in_vain =
                    statements == RETRY[..1] && expected.get(sent.len()) != Some(&statements) && has_looked;
                has_looked = is_look || has_looked && !is_in_vain;
                if is_of_delivery(&statements) && !is_in_vain {
                    sent.push(statements);
                }
            }
            if sent.len() >= expected.len() { Ok(()) } else { Err(format!("{sent:?}")) }
        })
        .await;
        outbound.until_settled().await;
        assert_eq!((sent.as_slice(), messages.take()), (expected, Messages::default()));
    };

    statements.take("dispatcher");
    outbound.open_lead().await;
    sent(&round_trips(&FIRST[1..])).await;
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(500)]);
    outbound.open_lead().await;
    sent(&round_trips(&["deliveries.record", "deliveries.next", "deliveries.record"])).await;
}
