//! A statement of an operator's command finds its rows by an index, whatever statistics the planner has.

use tests::TestDatabase;

/// Statements that scan a table, because they read rows of all tenants.
const FULL_SCANS: [&str; 1] = ["subscriptions.count_unsealed"];

/// The planner's settings of `connectctl`, and a generic plan, which holds for all values of the parameters.
pub(crate) fn planner_settings() -> String {
    let options = common::db::planner_options();
    options
        .split("-c ")
        .filter(|option| !option.trim().is_empty())
        .map(|option| format!("SET {option};"))
        .collect()
}

/// The plan of `statement`, a line for each step. A generic plan does not depend on the values of the parameters, so nulls are
/// passed.
pub(crate) async fn plan(client: &tokio_postgres::Client, statement: &str) -> String {
    let parameters = client.prepare(statement).await.expect("a statement").params().len();
    let nulls =
        if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
    client.batch_execute(&format!("PREPARE explained AS {statement}")).await.expect("a statement");
    let rows = client.query(&format!("EXPLAIN EXECUTE explained{nulls}"), &[]).await.expect("a plan");
    client.batch_execute("DEALLOCATE explained").await.expect("it is prepared");
    let steps: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    steps.join("\n")
}

#[tokio::test]
async fn every_statement_of_the_commands_finds_its_rows_by_an_index() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    client.batch_execute(&planner_settings()).await.expect("settings");
    let mut scanned = Vec::new();
    for statement in admin::store::STATEMENTS.iter().copied().flatten().map(|sql| sql.as_str()) {
        let name = statement.lines().next().and_then(|line| line.strip_prefix("-- ")).expect("a name");
        let plan = plan(&client, statement).await;
        if plan.contains("Seq Scan") {
            scanned.push(name);
            assert!(FULL_SCANS.contains(&name), "{name} scans a table:\n{plan}");
        }
    }
    assert_eq!(scanned, FULL_SCANS, "the list of exceptions is exact");
}
