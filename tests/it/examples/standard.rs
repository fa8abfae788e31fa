//! Libraries of Standard Webhooks, and the documents' receivers of a few lines.

use super::readme::block;
use super::webhooks::{VALID, around_a_rotation, python};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tests::{RECORDS, ReceivedRequest, Receiver, World, event, text};

/// The verdict of the crate.
fn verifies(delivery: &ReceivedRequest, secret: &Value, body: &[u8]) -> bool {
    let headers = delivery
        .headers()
        .map(|(name, value)| (name.parse().expect("a header's name"), value.parse().expect("a header's value")));
    Webhook::new(text(secret)).expect("a secret of that form").verify(body, &headers.collect()).is_ok()
}

#[tokio::test]
async fn libraries_of_standard_webhooks_verify_deliveries_also_while_a_secret_is_rotated() {
    let cases = around_a_rotation().await;
    assert_eq!(cases[1].0.header("webhook-signature").matches("v1,").count(), 2);
    for (delivery, _, _) in &cases[..2] {
        assert_eq!(delivery.header("webhook-id"), text(&delivery.json()["eventId"]));
    }
    let judged = cases.each_ref().map(|(delivery, secret, body)| verifies(delivery, secret, body));
    assert_eq!(judged, VALID);

    let given = cases.each_ref().map(|(delivery, secret, body)| {
        let headers: serde_json::Map<String, Value> =
            delivery.headers().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        json!({"secret": secret, "headers": headers, "body": String::from_utf8_lossy(body)})
    });
    let code = block("integrators.md", "Receive webhooks", "python standard");
    let (import, verify) = code.trim().split_once('\n').expect("two lines");
    let prepare = format!(
        "{import}
def judged(secret, headers, body):
    try:
        {verify}
    except Exception as error:
        return False
    return event['eventType'] == 'lead.assigned'"
    );
    let print = "print(json.dumps([judged(**one) for one in given]))";
    assert_eq!(python("", &json!(given), &prepare, print).await, json!(judged));
}

#[tokio::test]
async fn a_receiver_of_ten_lines_ends_right_in_whatever_order_events_arrive() {
    let world = World::shared().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let opened = world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let target = format!("{RECORDS}/leads/{}", text(&opened["leadId"]));
    let owner = world.lead(&opened["leadId"]).await["owner"]["email"].clone();
    let other = if owner == "ben@acme.test" { "asha@acme.test" } else { "ben@acme.test" };
    let changes =
        [json!({"stage": "follow_up", "owner": other}), json!({"stage": "negotiation"}), json!({"owner": owner})];
    for change in changes {
        world.http().send(&world.key.records("PATCH", &target, change.to_string())).await.assert_status(200);
    }
    let events: Vec<Value> = receiver.wait_for(5).await.iter().map(ReceivedRequest::json).collect();
    let end = "import itertools
ends, lead = set(), given[0]['payload']['leadId']
for order in itertools.permutations(given):
    latest.clear()
    for event in order:
        receive(event)
    told = [latest[lead, kind, None]['payload'] for kind in ('lead.stage_changed', 'lead.assigned')]
    ends.add((told[0]['to'], told[1]['owner']['email']))
print(json.dumps(list(ends)))";
    let code = block("webhooks.md", "Versions", "python");
    assert_eq!(python(&code, &json!(events), "", end).await, json!([["negotiation", owner]]));
}

#[tokio::test]
async fn the_documented_lines_find_a_gap() {
    let code = block("webhooks.md", "Numbers and the feed", "python");
    let end = "sequence = Sequence()\nprint(json.dumps([sequence.missing(number) for number in given]))";
    let missing = python(&code, &json!([1, 3, 6, 3, 2, 1, 5, 4, 7]), "", end).await;
    assert_eq!(missing, json!([[], [2], [2, 4, 5], [2, 4, 5], [4, 5], [4, 5], [4], [], []]));
}
