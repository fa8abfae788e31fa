//! The statements of retention find their rows by an index, whatever the planner knows of the tables.

use crate::connectctl::plans::{plan, planner_settings};
use common::retention;
use tests::TestDatabase;

#[tokio::test]
async fn every_statement_of_retention_finds_its_rows_by_an_index() {
    for statistics in ["", "ANALYZE"] {
        let database = TestDatabase::new().await;
        let client = database.connect().await;
        client.batch_execute(statistics).await.expect("statistics");
        client.batch_execute(&planner_settings()).await.expect("settings");
        for statement in retention::STATEMENTS.concat() {
            let plan = plan(&client, statement.as_str()).await;
            // A hashed subplan reads a whole table as well, by an index.
            assert!(
                !plan.contains("Seq Scan") && !plan.contains("hashed SubPlan"),
                "{}:\n{plan}",
                statement.as_str()
            );
        }
    }
}
