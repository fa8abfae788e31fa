//! The commands `connectctl key ...`.

use super::{fields, is_time};
use serde_json::json;
use tests::{World, text, words};

#[tokio::test]
async fn creates_a_key_whose_secret_is_shown_once() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create = "key create --tenant acme --name site --scopes events:ingest,clients:read --origin acme-web --expires-in 30d";
    let made = connectctl.json(&words(create)).await;
    assert_eq!(fields(&made), ["prefix", "scopes", "secret"]);
    assert_eq!(made["scopes"], json!(["events:ingest", "clients:read"]));
    let (prefix, secret) = (text(&made["prefix"]), text(&made["secret"]));
    assert!(secret.len() >= 32 && !secret.contains(prefix), "{made}");

    let find = async || {
        let listed = connectctl.list(&["key", "list", "--tenant", "acme"]).await;
        assert!(!json!(listed).to_string().contains(secret), "the secret is listed");
        listed.into_iter().find(|key| key["prefix"] == prefix).expect("the key")
    };
    let listed = find().await;
    assert_eq!(
        (&listed["name"], &listed["origin"], &listed["scopes"]),
        (&json!("site"), &json!("acme-web"), &made["scopes"])
    );
    assert!(is_time(&listed["createdAt"]) && is_time(&listed["expiresAt"]), "{listed}");
    assert_eq!(listed["revokedAt"], json!(null));

    let changed = connectctl.json(&["key", "scopes", prefix, "--set", "leads:read,leads:write"]).await;
    assert_eq!(changed["scopes"], json!(["leads:read", "leads:write"]));
    let revoked = connectctl.json(&["key", "revoke", prefix]).await;
    assert!(is_time(&revoked["revokedAt"]), "{revoked}");
    assert_eq!(connectctl.json(&["key", "revoke", prefix]).await, revoked, "a second time changes nothing");
    assert_eq!(find().await, revoked);
    let refusal = connectctl.refusal(&["key", "scopes", prefix, "--set", "events:ingest"]).await;
    assert!(refusal.contains("is revoked for good"), "{refusal}");
    assert_eq!(find().await, revoked, "its scopes are as they were");
}

#[tokio::test]
async fn secrets_of_api_keys_are_sealed_at_rest() {
    let world = World::shared().await;
    let query = "SELECT position(convert_to($1, 'UTF8') in secret_sealed) AS place, octet_length(secret_sealed) AS length
         FROM api_keys";
    let secret = &world.key.secret;
    // Header, nonce, text, tag.
    let sealed = secret.len() + 8 + 12 + 16;
    assert_eq!(world.database.rows(query, &[secret]).await, [json!({"place": 0, "length": sealed})]);
}
