//! URLs of subscriptions: their query is sealed at rest and never shown.

use super::OutboundWorld;
use serde_json::json;

const TOKEN: &str = "s3cret-token";
const OTHER_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

#[tokio::test]
async fn a_token_in_a_url_reaches_only_the_receiver() {
    let mut outbound = OutboundWorld::start().await;
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

    // A subscription of the previous release, whose URL is stored in clear.
    outbound.world.connectctl.json(&["subscription", "resume", &subscription.id]).await;
    let whole = outbound.receiver.url_by_name(&path);
    let older = format!("UPDATE subscriptions SET url = '{whole}', url_sealed = NULL");
    outbound.world.database.execute(&older).await;
    let listed = outbound.world.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    assert_eq!(listed[0]["url"], json!(shown));
    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.open_lead().await;
    assert_eq!(outbound.receiver.wait_for(2).await[1].target(), path);
}

#[tokio::test]
async fn seal_urls_seals_urls_of_an_earlier_release_and_can_be_repeated() {
    let outbound = OutboundWorld::start().await;
    let (database, connectctl) = (&outbound.world.database, &outbound.world.connectctl);
    let path = format!("/hooks?token={TOKEN}");
    let whole = outbound.receiver.url_by_name(&path);
    for _ in 0..3 {
        outbound.subscribe(&path, &[]).await;
    }
    let removed = outbound.subscribe(&path, &[]).await;
    outbound.change_subscription("remove", &removed).await;
    database.execute(&format!("UPDATE subscriptions SET url = '{whole}', url_sealed = NULL")).await;
    let in_clear = async || {
        let query =
            format!("SELECT count(*) FROM subscriptions s WHERE row_to_json(s)::text LIKE '%{TOKEN}%'");
        database.count(&query).await
    };

    // Sealed under another key, they would be lost.
    let other = connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    let refusal = other.refusal(&["subscription", "seal-urls"]).await;
    assert!(refusal.contains("4 subscriptions") && refusal.contains("CONNECT_MASTER_KEY"), "{refusal}");
    assert_eq!(in_clear().await, 4);

    // A run that fails midway: the secret of one subscription cannot be decrypted, the others are sealed.
    let broken = "WITH first AS (SELECT min(subscription_id::text)::uuid AS id FROM subscriptions)
        UPDATE subscriptions SET secret_sealed = secret_sealed || '\\x00' FROM first WHERE subscription_id = id";
    database.execute(broken).await;
    let refusal = connectctl.refusal(&["subscription", "seal-urls"]).await;
    assert!(refusal.contains("1 subscriptions") && refusal.contains("3 were sealed"), "{refusal}");
    assert_eq!(in_clear().await, 1);
    let repair =
        "UPDATE subscriptions SET secret_sealed = substring(secret_sealed for length(secret_sealed) - 1)
        WHERE url_sealed IS NULL";
    database.execute(repair).await;
    assert_eq!(connectctl.json(&["subscription", "seal-urls"]).await, json!({"sealed": 1, "remaining": 0}));
    assert_eq!(connectctl.json(&["subscription", "seal-urls"]).await, json!({"sealed": 0, "remaining": 0}));
    assert_eq!(in_clear().await, 0);

    outbound.open_lead().await;
    let received = outbound.receiver.wait_for(3).await;
    assert!(received.iter().all(|received| received.target() == path), "{received:?}");
}
