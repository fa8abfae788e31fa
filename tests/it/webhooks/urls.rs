//! URLs of subscriptions: their query is sealed at rest and never shown.

use super::OutboundWorld;
use serde_json::json;

const TOKEN: &str = "s3cret-token";

#[tokio::test]
async fn a_token_in_a_url_reaches_only_the_receiver() {
    let outbound = OutboundWorld::start().await;
    let path = format!("/hooks?token={TOKEN}&site=1&{TOKEN}");
    let subscription = outbound.subscribe(&path, &[]).await;
    outbound.open_lead().await;
    let received = outbound.receiver.wait_for(1).await;
    assert_eq!(received[0].target(), path);

    let shown = outbound.receiver.url_by_name("/hooks?token=***&site=***&***");
    let listed = outbound.world.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    assert_eq!(listed[0]["url"], json!(shown));
    let paused = outbound.world.connectctl.json(&["subscription", "pause", &subscription.id]).await;
    assert_eq!(paused["url"], json!(shown));
    let stored = "SELECT row_to_json(s)::text AS row, position(convert_to($1, 'UTF8') in url_sealed) AS place
                  FROM subscriptions s";
    let stored = outbound.world.database.rows(stored, &[&TOKEN]).await;
    assert!(!stored[0]["row"].to_string().contains(TOKEN), "{stored:?}");
    assert_eq!(stored[0]["place"], json!(0), "{stored:?}");
    for dispatcher in &outbound.world.dispatchers {
        assert!(!dispatcher.logs().contains(TOKEN));
    }
}
