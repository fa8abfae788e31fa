//! `pressure`.

use serde_json::json;
use tests::{Connectctl, TestDatabase};

#[tokio::test]
async fn sums_the_newest_report_of_each_ingest_that_still_reports() {
    let database = TestDatabase::new().await;
    // Two ingests report, one of which last reported events long ago; a third one has stopped.
    let reports = "INSERT INTO intake_pressure (tenant_id, queue, ingest_id, waiting, refused, reported_at)
        SELECT tenant_id, queue, ingest_id::uuid, waiting, refused, now() + age::interval
        FROM tenants, (VALUES
            ('events', '01900000-0000-7000-8000-000000000001', 70, 3, '1 minute'),
            ('events', '01900000-0000-7000-8000-000000000002', 20, 2, '1 minute'),
            ('events', '01900000-0000-7000-8000-000000000003', 400, 9, '-20 seconds'),
            ('records', '01900000-0000-7000-8000-000000000001', 5, 1, '-20 seconds'),
            ('records', '01900000-0000-7000-8000-000000000003', 6, 1, '-11 minutes')
        ) AS r (queue, ingest_id, waiting, refused, age)
        WHERE slug = 'acme'";
    database.execute(reports).await;
    let listed = Connectctl::for_database(database.url()).list(&["pressure"]).await;
    let shown: Vec<_> = listed
        .iter()
        .map(|row| json!([row["tenant"], row["queue"], row["waiting"], row["refused"]]))
        .collect();
    assert_eq!(shown, [json!(["acme", "records", 0, 0]), json!(["acme", "events", 90, 5])]);
}
