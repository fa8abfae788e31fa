//! Settings that would forget too early are refused.

use tests::{CommandOutput, Connectctl, MASTER_KEY, TestDatabase};

const TOO_SHORT: [(&str, &str, &str); 2] = [
    ("CONNECT_RETENTION_LEDGER", "89d", "setting CONNECT_RETENTION_LEDGER: must be off or at least 90d"),
    (
        "CONNECT_RETENTION_IDEMPOTENCY",
        "23h",
        "setting CONNECT_RETENTION_IDEMPOTENCY: must be off or at least 1d",
    ),
];

#[tokio::test]
async fn the_worker_refuses_to_start_with_too_short_periods() {
    for (name, value, line) in TOO_SHORT {
        let settings = [
            ("DATABASE_URL", "postgres://connect@127.0.0.1:1/connect"),
            ("AMQP_URL", "amqp://127.0.0.1:1/%2f"),
            ("CONNECT_MASTER_KEY", MASTER_KEY),
            ("CONNECT_METRICS_ADDR", "127.0.0.1:0"),
            (name, value),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let ran = CommandOutput::of("connect-worker", &[], &settings).await;
        assert_eq!((ran.code, ran.errors.trim_end()), (Some(1), line), "{ran:?}");
    }
}

#[tokio::test]
async fn connectctl_refuses_too_short_periods_and_removes_nothing() {
    let database = TestDatabase::new().await;
    let ledger = "INSERT INTO event_ledger
            (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
        SELECT tenant_id, 'old', 'contact.identified', 'ck_1', tenant_id, 0, now() - interval '1000 days', '{}' FROM tenants";
    database.execute(ledger).await;
    for (name, value, line) in TOO_SHORT {
        let connectctl = Connectctl::for_database(database.url()).and(name, value);
        for command in ["plan", "run"] {
            assert!(connectctl.refusal(&["retention", command]).await.contains(line));
        }
    }
    assert!(database.count("SELECT count(*) FROM event_ledger WHERE event_id = 'old'").await > 0);
}
