//! The privileges are exactly those that the statements of the programs need.

use super::role;
use admin::roles::{ObjectKind, Program, objects};
use common::db::{MASTER_KEY_STATEMENTS, SCHEMA_STATEMENTS, Sql};
use std::collections::BTreeSet;
use tests::{TestDatabase, text};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A statement that only `connectctl` runs, as the owner of the schema.
const OF_OPERATORS: [&str; 1] = ["master_key_canary.rewrap"];

/// Privileges that only functions and triggers need, which run with the rights of their caller. EXPLAIN does not run them.
const OF_FUNCTIONS: [(Program, &str, &str, &str); 6] = [
    (Program::Worker, "erasure_key", "SELECT", "share_erasure_lock()"),
    (Program::Worker, "usage_counters", "SELECT", "count_writes()"),
    (Program::Worker, "usage_counters", "INSERT", "count_writes()"),
    (Program::Worker, "usage_counters", "UPDATE", "count_writes()"),
    (Program::Console, "key_revision", "SELECT", "bump_key_revision(), a trigger of api_keys and tenants"),
    (Program::Console, "key_revision", "UPDATE", "bump_key_revision(), a trigger of api_keys and tenants"),
];

fn statements(program: Program) -> Vec<&'static str> {
    let own: &[&[Sql]] = match program {
        Program::Ingest => ::ingest::store::STATEMENTS,
        Program::Worker => worker::store::STATEMENTS,
        Program::Dispatcher => dispatcher::store::STATEMENTS,
        Program::Console => admin::store::STATEMENTS,
    };
    let retention = if program == Program::Worker { common::retention::STATEMENTS } else { &[] };
    let activity = if program == Program::Console { &[] } else { common::activity::STATEMENTS };
    let shared = activity.iter().chain(MASTER_KEY_STATEMENTS).chain(SCHEMA_STATEMENTS);
    let all = own.iter().chain(retention).copied().flatten().chain(shared);
    let of_operators: Vec<&str> =
        admin::store::PERSONAL_DATA_STATEMENTS.iter().copied().flatten().map(|sql| name(sql.as_str())).collect();
    let is_of_operators =
        |name| OF_OPERATORS.contains(&name) || program == Program::Console && of_operators.contains(&name);
    all.map(|sql| sql.as_str()).filter(|statement| !is_of_operators(name(statement))).collect()
}

fn name(statement: &str) -> &str {
    let first = statement.trim_start().lines().next().unwrap_or_default();
    first.strip_prefix("-- ").expect("a statement has a name")
}

/// The statements of a program, prepared in a session of the owner.
struct Prepared {
    client: Client,
    /// For each statement its name, and what explains it: the database checks privileges when a plan is started.
    explained: Vec<(&'static str, String)>,
}

impl Prepared {
    async fn new(database: &TestDatabase, program: Program) -> Self {
        let client = database.connect().await;
        // As in the programs: a plan for null values could leave out tables.
        client.batch_execute("SET plan_cache_mode = force_generic_plan").await.expect("a setting");
        let mut explained = Vec::new();
        for (at, statement) in statements(program).into_iter().enumerate() {
            let count = client.prepare(statement).await.expect("a statement").params().len();
            let nulls = if count == 0 { String::new() } else { format!("({})", vec!["NULL"; count].join(", ")) };
            client.batch_execute(&format!("PREPARE s{at} AS {statement}")).await.expect("a statement");
            explained.push((name(statement), format!("EXPLAIN EXECUTE s{at}{nulls}")));
        }
        Self { client, explained }
    }

    /// Begins a transaction that runs `statement` and continues under the role.
    async fn begin_as(&self, program: Program, statement: &str) {
        let begin = format!("BEGIN; {statement}; SET LOCAL ROLE {}", role(program));
        self.client.batch_execute(&begin).await.unwrap_or_else(|error| panic!("{begin}: {error:?}"));
    }

    /// The first statement that the role may not run, within a transaction.
    async fn refused(&self) -> Option<(&'static str, String)> {
        for (name, explain) in &self.explained {
            self.client.batch_execute("SAVEPOINT before").await.expect("a savepoint");
            if let Err(error) = self.client.batch_execute(explain).await {
                assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{name}: {error:?}");
                return Some((name, error.to_string()));
            }
            self.client.batch_execute("RELEASE SAVEPOINT before").await.expect("a savepoint");
        }
        None
    }

    async fn roll_back(&self) {
        self.client.batch_execute("ROLLBACK").await.expect("a transaction");
    }
}

#[tokio::test]
async fn each_program_may_run_its_statements() {
    let database = TestDatabase::new().await;
    for program in Program::ALL {
        let prepared = Prepared::new(&database, program).await;
        prepared.begin_as(program, "SELECT 1").await;
        assert_eq!(prepared.refused().await, None, "{program:?}");
        prepared.roll_back().await;
    }
}

/// Each column of `SELECT (a, b)`, or the privilege as it is.
fn parts(privilege: &str) -> Vec<String> {
    let Some((verb, columns)) = privilege.trim_end_matches(')').split_once(" (") else {
        return vec![privilege.to_owned()];
    };
    columns.split(", ").map(|column| format!("{verb} ({column})")).collect()
}

#[tokio::test]
async fn each_privilege_is_needed_by_a_statement() {
    let database = TestDatabase::new().await;
    let mut unneeded = Vec::new();
    for (at, program) in Program::ALL.into_iter().enumerate() {
        let prepared = Prepared::new(&database, program).await;
        for object in objects() {
            let kind = if object.kind == ObjectKind::Function { "FUNCTION" } else { "TABLE" };
            for privilege in object.privileges[at].iter().flat_map(|privilege| parts(privilege)) {
                let revoke = format!("REVOKE {privilege} ON {kind} {} FROM {}", object.name, role(program));
                prepared.begin_as(program, &revoke).await;
                let is_needed = prepared.refused().await.is_some();
                prepared.roll_back().await;
                let of_function = OF_FUNCTIONS
                    .iter()
                    .any(|(of, table, verb, _)| (*of, *table, *verb) == (program, object.name, &privilege));
                if is_needed == of_function {
                    unneeded.push(format!("{program:?}: {privilege} ON {}", object.name));
                }
            }
        }
    }
    assert!(unneeded.is_empty(), "no statement needs, or an exception is not needed:\n{}", unneeded.join("\n"));
}

/// A new table needs a line, also if no program may use it.
#[tokio::test]
async fn every_table_has_a_line() {
    let database = TestDatabase::new().await;
    let query = "SELECT relname AS name FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT relispartition";
    let rows = database.rows(query, &[]).await;
    let tables: BTreeSet<&str> = rows.iter().map(|row| text(&row["name"])).collect();
    let of_kind = |kind| objects().iter().filter(move |object| object.kind == kind).map(|object| object.name);
    let defined: BTreeSet<&str> = of_kind(ObjectKind::Table).collect();
    assert_eq!(tables, defined, "add a line to sql/roles.txt");
    let query = "SELECT p.oid::regprocedure::text AS name FROM pg_proc p
         WHERE pronamespace = 'public'::regnamespace AND prosecdef";
    let rows = database.rows(query, &[]).await;
    // The file has no spaces within a cell.
    let plain = |name: &str| name.replace("timestamp with time zone", "timestamptz");
    let functions: BTreeSet<String> = rows.iter().map(|row| plain(text(&row["name"]))).collect();
    let defined: BTreeSet<String> = of_kind(ObjectKind::Function).map(str::to_owned).collect();
    assert_eq!(functions, defined, "functions with the rights of their owner need a line");
}
