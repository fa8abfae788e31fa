//! `subscription rotate-secret`, and what `resume` and `remove` do to deliveries (D24).

use super::fields;
use super::listener::Listener;
use common::sealed::MasterKey;
use serde_json::{Value, json};
use tests::{Connectctl, MASTER_KEY, TestDatabase, text};

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
    assert_eq!(
        (subscribed.open(&row, "secret"), subscribed.open(&row, "old")),
        (second.clone(), secret.clone())
    );
    let seconds = row["seconds"].as_f64().expect("a time");
    assert!((86_000.0..=86_400.0).contains(&seconds), "{seconds}");

    let again = ["subscription", "rotate-secret", &subscribed.id, "--overlap", "1h"];
    let refusal = subscribed.connectctl.refusal(&again).await;
    assert!(refusal.contains("an overlap runs until 20"), "{refusal}");
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
    assert_eq!(
        subscribed.count("state = 'dropped' AND NOT needs_notice AND next_attempt_at IS NULL").await,
        4_000
    );
    assert_eq!(
        (subscribed.count("state = 'dead'").await, subscribed.count("state = 'delivered'").await),
        (0, 3)
    );
}
