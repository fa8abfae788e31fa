//! Records cannot be changed. `retention/rules.rs` checks that they expire.

use super::count;
use tests::TestDatabase;
use tokio_postgres::error::SqlState;

#[tokio::test]
async fn records_cannot_be_changed_or_removed() {
    let database = TestDatabase::new().await;
    let (client, before) = (database.connect().await, count(&database).await);
    assert!(before > 0);
    for refused in [
        "UPDATE audit_records SET who = 'somebody else'",
        "DELETE FROM audit_records",
        "DELETE FROM audit_records WHERE false",
        "TRUNCATE audit_records",
        "TRUNCATE tenants, audit_records CASCADE",
    ] {
        let error = client.batch_execute(refused).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}: {error:?}");
    }
    for refused in ["now()", "now() - interval '22 hours'", "NULL"] {
        let expire = format!("SELECT expire_audit_records({refused}, '-infinity', 10)");
        let error = client.batch_execute(&expire).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{refused}: {error:?}");
    }
    assert_eq!(count(&database).await, before);
}
