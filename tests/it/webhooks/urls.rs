//! Subscriptions' URLs: what their query holds is sealed at rest and never shown.

use super::Outbound;
use serde_json::json;

const TOKEN: &str = "s3cret-token";

#[tokio::test]
async fn a_token_in_a_url_reaches_the_receiver_and_nobody_else() {
    let mut outbound = Outbound::start().await;
    let path = format!("/hooks?token={TOKEN}&site=1&{TOKEN}");
    let subscription = outbound.subscribe(&path, &[]).await;
    outbound.tell().await;
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

    // One that the release before has made, whose URL is stored as it is.
    outbound.world.connectctl.json(&["subscription", "resume", &subscription.id]).await;
    let whole = outbound.receiver.url_by_name(&path);
    let older = format!("UPDATE subscriptions SET url = '{whole}', url_sealed = NULL");
    outbound.world.database.execute(&older).await;
    let listed = outbound.world.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    assert_eq!(listed[0]["url"], json!(shown));
    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.tell().await;
    assert_eq!(outbound.receiver.wait_for(2).await[1].target(), path);
}
