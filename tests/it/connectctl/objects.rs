//! `tenant`, `member`, `company`, `key` and `subscription`, and what `resume` and `remove` do to deliveries (D24).

use super::{Listener, fields, is_time};
use common::sealed::MasterKey;
use serde_json::{Value, json};
use tests::{Connectctl, MASTER_KEY, TestDatabase, World, text, words};

#[tokio::test]
async fn creates_changes_and_lists_a_tenant() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let limits = ["--enquiry-prefix", "ZT", "--monthly-quota", "50", "--reads-per-second", "7"];
    let create = [&["tenant", "create", "--slug", "zeta-tours", "--name", "Zeta Tours"], &limits[..]];
    let made = connectctl.json(&create.concat()).await;
    assert_eq!((fields(&made), &made["slug"]), (vec!["id", "slug"], &json!("zeta-tours")));

    let find = async || {
        let all = connectctl.list(&["tenant", "list"]).await;
        all.into_iter().find(|tenant| tenant["slug"] == "zeta-tours").expect("the tenant")
    };
    let listed = find().await;
    assert_eq!((&listed["id"], &listed["name"]), (&made["id"], &json!("Zeta Tours")));
    let expected = (&json!(50), &json!(7), &json!(false));
    assert_eq!((&listed["monthlyQuota"], &listed["readsPerSecond"], &listed["discovery"]), expected);

    let set = ["tenant", "set", "--tenant", "zeta-tours", "--discovery", "true", "--monthly-quota", "none"];
    assert_eq!(connectctl.json(&set).await, find().await);
    let changed = find().await;
    let expected = (&json!(null), &json!(7), &json!(true));
    assert_eq!((&changed["monthlyQuota"], &changed["readsPerSecond"], &changed["discovery"]), expected);
}

#[tokio::test]
async fn members_can_be_added_removed_and_reactivated() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let add = ["member", "add", "--tenant", "acme", "--email", "Cleo@Acme.test", "--name", "Cleo"];
    assert_eq!(connectctl.json(&add).await, json!({"email": "cleo@acme.test", "name": "Cleo", "active": true}));
    let removed = connectctl.json(&["member", "remove", "--tenant", "acme", "--email", "cleo@acme.test"]).await;
    assert_eq!(removed, json!({"email": "cleo@acme.test", "name": "Cleo", "active": false}));
    let listed = connectctl.list(&["member", "list", "--tenant", "acme"]).await;
    assert!(listed.contains(&removed), "{listed:?}");
    assert_eq!(listed.iter().filter(|member| member["active"] == true).count(), 2);
    assert_eq!(connectctl.json(&add).await["active"], true, "adding them again reactivates them");
}

#[tokio::test]
async fn creates_one_company_account_per_domain() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create = ["company", "create", "--tenant", "acme", "--name", "Example Ltd", "--domain", "Example.com"];
    let made = connectctl.json(&create).await;
    assert_eq!(fields(&made), ["clientId"]);
    let query = "SELECT client_type, name, company_domain FROM clients WHERE client_id::text = $1";
    let stored = world.database.rows(query, &[&tests::text(&made["clientId"])]).await;
    assert_eq!(stored, [json!({"client_type": "company", "name": "Example Ltd", "company_domain": "example.com"})]);
    assert_eq!(connectctl.run(&create).await.code, Some(1));
    let free = ["company", "create", "--tenant", "acme", "--name", "Mail", "--domain", "gmail.com"];
    assert_eq!(connectctl.run(&free).await.code, Some(1), "a free mailbox is never a company domain");
}

#[tokio::test]
async fn creates_a_key_whose_secret_is_shown_once() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create =
        "key create --tenant acme --name site --scopes events:ingest,clients:read --origin acme-web --expires-in 30d";
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
    let expected = (&json!("site"), &json!("acme-web"), &made["scopes"]);
    assert_eq!((&listed["name"], &listed["origin"], &listed["scopes"]), expected);
    assert!(is_time(&listed["createdAt"]) && is_time(&listed["expiresAt"]), "{listed}");
    assert_eq!(listed["revokedAt"], json!(null));

    let changed = connectctl.json(&["key", "scopes", prefix, "--set", "leads:read,leads:write"]).await;
    assert_eq!(changed["scopes"], json!(["leads:read", "leads:write"]));
    let revoked = connectctl.json(&["key", "revoke", prefix]).await;
    assert!(is_time(&revoked["revokedAt"]), "{revoked}");
    assert_eq!(connectctl.json(&["key", "revoke", prefix]).await, revoked, "a second time changes nothing");
    assert_eq!(find().await, revoked);
    connectctl.assert_refusal(&["key", "scopes", prefix, "--set", "events:ingest"], "is revoked for good").await;
    assert_eq!(find().await, revoked, "its scopes are as they were");
}

#[tokio::test]
async fn secrets_of_api_keys_are_sealed_at_rest() {
    let world = World::shared().await;
    let query =
        "SELECT position(convert_to($1, 'UTF8') in secret_sealed) AS place, octet_length(secret_sealed) AS length
         FROM api_keys";
    let secret = &world.key.secret;
    // Header, nonce, text, tag.
    let sealed = secret.len() + 8 + 12 + 16;
    assert_eq!(world.database.rows(query, &[secret]).await, [json!({"place": 0, "length": sealed})]);
}

#[tokio::test]
async fn creates_changes_pauses_resumes_and_removes_a_subscription() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let options = ["--key", &world.key.prefix, "--events", "lead.assigned,booking.confirmed"];
    let create = words("subscription create --tenant acme --url https://1.1.1.1/hooks");
    let made = connectctl.json(&[&create, &options[..]].concat()).await;
    assert_eq!(fields(&made), ["id", "secret"]);
    let (id, secret) = (text(&made["id"]), text(&made["secret"]));

    let list = async || connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    let [listed] = &list().await[..] else { panic!("one subscription") };
    assert_eq!((&listed["id"], &listed["url"]), (&made["id"], &json!("https://1.1.1.1/hooks")));
    assert!(!listed.to_string().contains(secret), "the secret is listed");
    for (command, state) in [("pause", "paused"), ("resume", "active")] {
        let changed = connectctl.json(&["subscription", command, id]).await;
        assert_eq!((&changed["id"], &changed["state"]), (&made["id"], &json!(state)));
        assert_eq!(list().await, [changed]);
    }
    connectctl.json(&["subscription", "remove", id]).await;
    assert!(list().await.is_empty());
    for command in ["pause", "resume", "remove", "rotate-secret"] {
        connectctl.assert_refusal(&["subscription", command, id], "was removed").await;
    }

    let made = connectctl.json(&create).await;
    let id = text(&made["id"]);
    let set = async |options: &str| {
        let line = format!("subscription events {id} {options}");
        connectctl.json(&words(&line)).await["events"].clone()
    };
    assert_eq!(set("--set lead.assigned,proposal.sent").await, json!(["lead.assigned", "proposal.sent"]));
    assert_eq!(set("--all").await, json!(null));
    let unknown = connectctl.refusal(&["subscription", "events", id, "--set", "webhook.test"]).await;
    assert!(unknown.contains("unknown event type \"webhook.test\"; the types are lead.assigned, "), "{unknown}");
    connectctl.json(&["subscription", "remove", id]).await;
    connectctl.assert_refusal(&["subscription", "events", id, "--all"], "was removed").await;
}

const SUBSCRIPTION: &str =
    "SELECT tenant_id, encode(secret_sealed, 'hex') AS secret, encode(old_secret_sealed, 'hex') AS old,
    extract(epoch FROM old_secret_until - now())::float8 AS seconds FROM subscriptions";

struct Subscribed {
    database: TestDatabase,
    connectctl: Connectctl,
    id: String,
    secret: String,
}

async fn subscribed() -> Subscribed {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    let made = connectctl.json(&create).await;
    let (id, secret) = (text(&made["id"]).to_owned(), text(&made["secret"]).to_owned());
    Subscribed { database, connectctl, id, secret }
}

impl Subscribed {
    async fn rotate(&self, options: &[&str]) -> String {
        let rotate = [&["subscription", "rotate-secret", &self.id], options].concat();
        let rotated = self.connectctl.json(&rotate).await;
        assert_eq!((fields(&rotated), &rotated["id"]), (vec!["id", "secret"], &json!(self.id)));
        text(&rotated["secret"]).to_owned()
    }

    async fn row(&self) -> Value {
        self.database.rows(SUBSCRIPTION, &[]).await.remove(0)
    }

    /// Decrypts a column that was sealed for this subscription.
    fn open(&self, row: &Value, column: &str) -> String {
        let hex = text(&row[column]);
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let sealed: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let binding = format!("subscription/{}/{}", text(&row["tenant_id"]), self.id);
        let master = MasterKey::parse(MASTER_KEY).expect("a key");
        master.open(&sealed, &binding).expect("sealed for it").reveal().to_owned()
    }

    /// Writes `count` deliveries in one state.
    async fn deliveries(&self, state: &str, count: i32) {
        let insert = format!(
            "INSERT INTO deliveries
                (tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at, number)
            SELECT tenant_id, gen_random_uuid(), gen_random_uuid(), subscription_id, '{state}', now(),
                CASE '{state}' WHEN 'pending' THEN now() END, n + (SELECT count(*) FROM deliveries)
            FROM subscriptions, generate_series(1, {count}) n"
        );
        self.database.execute(&insert).await;
    }

    async fn count(&self, condition: &str) -> i64 {
        self.database.count(&format!("SELECT count(*) FROM deliveries WHERE {condition}")).await
    }
}

#[tokio::test]
async fn a_rotated_secret_replaces_the_old_one_immediately_or_when_the_overlap_ends() {
    let subscribed = subscribed().await;
    let secret = subscribed.rotate(&[]).await;
    assert!(secret.starts_with("whsec_") && secret != subscribed.secret);
    let row = subscribed.row().await;
    assert_eq!(subscribed.open(&row, "secret"), secret);
    assert_eq!((&row["old"], &row["seconds"]), (&json!(null), &json!(null)));
    let listed = subscribed.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    assert!(!json!(listed).to_string().contains(&secret), "it is shown once");

    let second = subscribed.rotate(&["--overlap", "24h"]).await;
    let row = subscribed.row().await;
    let expected = (second.clone(), secret.clone());
    assert_eq!((subscribed.open(&row, "secret"), subscribed.open(&row, "old")), expected);
    let seconds = row["seconds"].as_f64().expect("a time");
    assert!((86_000.0..=86_400.0).contains(&seconds), "{seconds}");

    let again = ["subscription", "rotate-secret", &subscribed.id, "--overlap", "1h"];
    subscribed.connectctl.assert_refusal(&again, "the old secret of the last rotation is valid until 20").await;
    assert_eq!(subscribed.row().await["secret"], row["secret"], "nothing was changed");
    let third = subscribed.rotate(&["--overlap", "1h", "--replace-overlap"]).await;
    let row = subscribed.row().await;
    assert_eq!((subscribed.open(&row, "secret"), subscribed.open(&row, "old")), (third, second));
    assert!(row["seconds"].as_f64().expect("a time") <= 3_600.0, "{row}");

    subscribed.rotate(&["--replace-overlap"]).await;
    assert_eq!(subscribed.row().await["old"], json!(null), "an immediate rotation ends the overlap");
}

#[tokio::test]
async fn resuming_a_subscription_notifies_the_dispatcher() {
    let subscribed = subscribed().await;
    subscribed.connectctl.json(&["subscription", "pause", &subscribed.id]).await;
    let mut listener = Listener::to(&subscribed.database, "connect_deliveries").await;
    subscribed.connectctl.json(&["subscription", "resume", &subscribed.id]).await;
    listener.until_notified().await;
}

#[tokio::test]
async fn removing_a_subscription_drops_its_deliveries_that_are_not_delivered() {
    let subscribed = subscribed().await;
    // More than one batch of the command in each state.
    subscribed.deliveries("pending", 2_500).await;
    subscribed.deliveries("dead", 1_500).await;
    subscribed.deliveries("delivered", 3).await;
    let removed = subscribed.connectctl.json(&["subscription", "remove", &subscribed.id]).await;
    assert_eq!(removed["state"], "removed");
    let found = subscribed.count("state = 'dropped' AND NOT needs_notice AND next_attempt_at IS NULL").await;
    assert_eq!(found, 4_000);
    let found = (subscribed.count("state = 'dead'").await, subscribed.count("state = 'delivered'").await);
    assert_eq!(found, (0, 3));
}
