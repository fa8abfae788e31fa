//! `connectctl migrate --roles`.

use super::role;
use admin::roles::Program;
use serde_json::json;
use tests::roles::ROLE_PREFIX;
use tests::{Connectctl, TestDatabase};

/// Who may do what with the tables, columns and functions of the schema, apart from the owner.
const PRIVILEGES: &str = "
    SELECT o.of, o.name, coalesce(r.rolname, 'PUBLIC') AS role, a.privilege_type AS privilege FROM (
        SELECT 'table' AS of, relname::text AS name, relacl AS acl FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT 'column', attrelid::regclass::text || '.' || attname, attacl FROM pg_attribute
        WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
        UNION ALL
        SELECT 'function', oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    ) o CROSS JOIN LATERAL aclexplode(o.acl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE a.grantee <> a.grantor ORDER BY 1, 2, 3, 4";

const MIGRATE: [&str; 4] = ["migrate", "--roles", "--role-prefix", ROLE_PREFIX];

#[tokio::test]
async fn a_run_restores_exactly_the_privileges_of_the_definition() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    let defined = database.rows(PRIVILEGES, &[]).await;
    assert!(defined.len() > 100, "{}", defined.len());
    let [ingest, dispatcher] = [Program::Ingest, Program::Dispatcher].map(role);
    let changes = format!(
        "GRANT ALL ON subscriptions, event_ledger TO {ingest}; GRANT SELECT (secret_sealed) ON api_keys TO {dispatcher};
         REVOKE ALL ON deliveries FROM {dispatcher}; REVOKE EXECUTE ON FUNCTION make_replay_partition(bigint) FROM {ingest}"
    );
    database.execute(&changes).await;
    assert_ne!(database.rows(PRIVILEGES, &[]).await, defined);
    let roles = Program::ALL.map(role);
    assert_eq!(connectctl.json(&MIGRATE).await, json!({"applied": [], "roles": roles}));
    assert_eq!(database.rows(PRIVILEGES, &[]).await, defined);
    // Without the option, nothing changes.
    database.execute(&format!("REVOKE ALL ON deliveries FROM {dispatcher}")).await;
    assert_eq!(connectctl.json(&["migrate"]).await, json!({"applied": []}));
    assert_ne!(database.rows(PRIVILEGES, &[]).await, defined);
}

/// Roles belong to the whole server: several databases create them at the same time.
#[tokio::test]
async fn concurrent_runs_create_each_role_once() {
    let databases = futures_util::future::join_all((0..3).map(|_| TestDatabase::new())).await;
    let prefix = format!("roles_{}", &uuid::Uuid::now_v7().simple().to_string()[16..]);
    let runs = databases.iter().flat_map(|database| {
        let connectctl = Connectctl::for_database(database.url());
        let prefix = prefix.as_str();
        (0..2).map(move |_| {
            let connectctl = connectctl.clone();
            async move { connectctl.json(&["migrate", "--roles", "--role-prefix", prefix]).await }
        })
    });
    for run in futures_util::future::join_all(runs).await {
        assert_eq!(run["roles"][0], format!("{prefix}_ingest"));
    }
    for database in &databases {
        let granted =
            format!("SELECT has_table_privilege('{prefix}_dispatcher', 'deliveries', 'UPDATE')::int::bigint");
        assert_eq!(database.count(&granted).await, 1);
        let login = format!("SELECT count(*) FROM pg_roles WHERE rolname LIKE '{prefix}%' AND rolcanlogin");
        assert_eq!(database.count(&login).await, 0);
        let roles = Program::ALL.map(|program| format!("{prefix}_{}", program.as_str())).join(", ");
        database.execute(&format!("DROP OWNED BY {roles}")).await;
    }
    for program in Program::ALL {
        databases[0].execute(&format!("DROP ROLE {prefix}_{}", program.as_str())).await;
    }
}

#[tokio::test]
async fn an_owner_without_createrole_is_told_what_to_create() {
    let database = TestDatabase::new().await;
    let owner = format!("owner_{}", &uuid::Uuid::now_v7().simple().to_string()[16..]);
    database
        .execute(&format!("CREATE ROLE {owner} LOGIN; GRANT ALL ON schema_history TO {owner}; GRANT CREATE ON SCHEMA public TO {owner}"))
        .await;
    let url = database.url().replace("connect@", &format!("{owner}@"));
    let migrate = ["migrate", "--roles", "--role-prefix", &owner];
    let refusal = Connectctl::for_database(&url).without("CONNECT_MASTER_KEY").refusal(&migrate).await;
    assert!(refusal.contains(&format!("CREATE ROLE {owner}_ingest NOLOGIN")), "{refusal}");
    let refusal =
        Connectctl::for_database(&url).refusal(&["migrate", "--roles", "--role-prefix", "a-b"]).await;
    assert!(refusal.contains("the role prefix must begin with a letter"), "{refusal}");
    database.execute(&format!("DROP OWNED BY {owner}; DROP ROLE {owner}")).await;
}
