//! What a program does not need is refused to it.

use admin::roles::Program;
use tests::TestDatabase;
use tests::roles::as_program;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// Refused to every program.
const OF_ALL: [&str; 9] = [
    "CREATE TABLE mine ()",
    "DROP TABLE clients",
    "TRUNCATE deliveries",
    "ALTER TABLE tenants DISABLE TRIGGER ALL",
    "DELETE FROM schema_history",
    "UPDATE schema_compatibility SET oldest_program = 0",
    "UPDATE master_key_canary SET sealed = ''",
    "DELETE FROM tenants",
    "DELETE FROM api_keys",
];

const fn refused(program: Program) -> &'static [&'static str] {
    match program {
        Program::Ingest => &[
            "SELECT secret_sealed FROM subscriptions",
            "SELECT display_url FROM subscriptions",
            "SELECT payload FROM timeline",
            "SELECT envelope FROM outbox",
            "INSERT INTO clients DEFAULT VALUES",
            "UPDATE leads SET stage = 'lost'",
            "UPDATE api_keys SET scopes = '{clients:write}'",
            "UPDATE tenants SET reads_per_second = 1000000",
            "DELETE FROM replay_entries",
            "SELECT sealed_values FROM sealed_value_counts()",
        ],
        Program::Worker => &[
            "SELECT secret_sealed FROM subscriptions",
            "SELECT display_url FROM subscriptions",
            "SELECT secret_sealed FROM api_keys",
            "SELECT prefix FROM api_keys",
            "UPDATE tenants SET monthly_quota = NULL",
            "INSERT INTO members DEFAULT VALUES",
            "UPDATE event_ledger SET event_id = ''",
            "DELETE FROM clients",
            "DELETE FROM timeline",
            "UPDATE deliveries SET state = 'dropped'",
            "SELECT make_replay_partition(0)",
        ],
        Program::Dispatcher => &[
            "SELECT name FROM clients",
            "INSERT INTO clients DEFAULT VALUES",
            "UPDATE clients SET name = ''",
            "UPDATE leads SET stage = 'lost'",
            "SELECT secret_sealed FROM api_keys",
            "SELECT * FROM api_keys",
            "UPDATE outbox SET envelope = '{}'",
            "INSERT INTO outbox DEFAULT VALUES",
            "DELETE FROM outbox",
            "UPDATE subscriptions SET display_url = ''",
            "DELETE FROM deliveries",
            "SELECT response FROM attempts",
        ],
        Program::Console => &[
            "SELECT sealed FROM erasure_key",
            "UPDATE event_ledger SET event_id = ''",
            "DELETE FROM audit_records",
            "UPDATE clients SET name = ''",
            "DELETE FROM clients",
            "UPDATE leads SET stage = 'lost'",
            "DELETE FROM subscriptions",
            "DELETE FROM deliveries",
            "SELECT * FROM replay_entries",
            "UPDATE usage_counters SET writes = 0",
        ],
    }
}

#[tokio::test]
async fn each_program_is_refused_what_it_does_not_need() {
    let database = TestDatabase::new().await;
    for program in Program::ALL {
        let url = as_program(&format!("connect-{}", program.as_str()), database.url());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the program's user");
        tokio::spawn(connection);
        client.batch_execute("SELECT slug FROM tenants").await.expect("a privilege of every program");
        for statement in OF_ALL.iter().chain(refused(program)) {
            let refusal = client.batch_execute(statement).await;
            let code = refusal.as_ref().err().and_then(tokio_postgres::Error::code);
            let is_refused = code == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
            assert!(is_refused, "{program:?}: {statement}: {refusal:?}");
        }
    }
}
