//! Audit records in the browser: filter and export.

use super::hostile::{UNSEEN, assert_isolated};
use super::{ConsoleWorld, Visitor, body, form, with_id};
use crate::connectctl::audit::add_records;
use chrono::TimeDelta;
use common::clock;
use futures_util::future::join_all;
use serde_json::Value;
use tests::raw::RawConnection;
use tests::{MAX_WAIT, eventually, until_equal};

#[tokio::test]
async fn records_are_filtered_and_exported_as_lines_of_json_and_as_csv() {
    let console = ConsoleWorld::start().await;
    let database = &console.world.database;
    console.world.add_tenant("other").await;
    add_records(database, clock::now() - TimeDelta::days(10), 2_500).await;
    // What a person who is signed in, or the name of a target, could put into a spreadsheet.
    database
        .execute(&format!(
            "INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
             SELECT tenant_id, '01900000-0000-7000-8000-000000000000', now(), '=HYPERLINK(1){UNSEEN}', 'console', 'test.action', '@x, \"y\"'
             FROM tenants WHERE slug = 'acme'",
        ))
        .await;
    let (admin, operator) = (console.admin().await, console.operator().await);
    let page = admin.page("/agencies/acme/audit?action=tenant.&who=").await;
    assert!(page.contains("tenant.create") && !page.contains("test.action"), "{page}");
    let page = admin.page("/agencies/acme/audit?who=AN%C3%A4&from=2020-01-01T00:00").await;
    assert!(page.contains("test.action") && !page.contains("tenant.create") && page.contains("before="), "{page}");
    let page = admin.page("/agencies/acme/audit?who=%3DHYPERLINK").await;
    assert!(page.contains(UNSEEN), "{page}");
    assert_isolated(&page, "/audit");
    assert!(admin.page("/agencies/acme/audit?from=soon").await.contains("&quot;soon&quot; is not known"));

    let lines = admin.post("/agencies/acme/audit/export", &[("format", "jsonl"), ("action", "test.")]).await;
    assert_eq!((lines.status, lines.header("content-type")), (200, "application/jsonl; charset=utf-8"));
    assert_eq!(lines.header("content-disposition"), "attachment; filename=\"audit-acme.jsonl\"");
    let records: Vec<Value> = body(&lines).lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(records.len(), 2_501, "all pages");
    assert!(records.iter().all(|record| record["tenant"] == "acme" && record["action"] == "test.action"));
    let expected = (&"2499".into(), &"0".into());
    assert_eq!((&records[0]["target"], &records[2_499]["target"]), expected, "the newest first");
    assert_eq!(records[2_500]["who"], format!("=HYPERLINK(1){UNSEEN}"), "JSON is for programs");

    let csv = operator.post("/audit/export", &[("format", "csv")]).await;
    assert_eq!(csv.header("content-disposition"), "attachment; filename=\"audit-all.csv\"");
    let csv = body(&csv);
    assert!(csv.starts_with("at,who,interface,action,target,tenant\r\n"), "{}", &csv[..80]);
    assert!(
        csv.contains(",'=HYPERLINK(1)\\u{7f}\\u{9b}\\u{200b}\\u{202e},console,test.action,\"'@x, \"\"y\"\"\",acme\r\n"),
        "neutralized: {csv}"
    );
    assert!(csv.contains(",tenant.create,other,other\r\n"), "all agencies: {csv}");
    assert!(
        ![csv, body(&lines)].iter().any(|text| text.contains(|c: char| UNSEEN.contains(c))),
        "nothing unseen is raw"
    );
    // Each export is recorded, in the agency whose records it had.
    let exports = "SELECT count(*) FROM audit_records a LEFT JOIN tenants t USING (tenant_id)
        WHERE action = 'audit.export' AND interface = 'console'";
    assert_eq!(database.count(&format!("{exports} AND target = 'acme' AND slug = 'acme'")).await, 1);
    assert_eq!(database.count(&format!("{exports} AND target = 'all tenants' AND slug IS NULL")).await, 1);
}

#[tokio::test]
async fn an_export_without_a_format_or_of_another_agency_is_refused_and_not_recorded() {
    let console = ConsoleWorld::shared().await;
    console.world.add_tenant("other").await;
    let (admin, viewer) = (console.admin().await, console.viewer().await);
    for (visitor, path, fields, status) in [
        (&admin, "/agencies/acme/audit/export", &[("format", "xls")][..], 400),
        (&admin, "/agencies/acme/audit/export", &[("format", "csv"), ("from", "soon")], 400),
        (&admin, "/agencies/other/audit/export", &[("format", "csv")], 404),
        (&admin, "/audit/export", &[("format", "csv")], 403),
        (&viewer, "/agencies/acme/audit/export", &[("format", "csv")], 403),
    ] {
        assert_eq!(visitor.post(path, fields).await.status, status, "{path} {fields:?}");
    }
    let recorded = "SELECT count(*) FROM audit_records WHERE action = 'audit.export'";
    assert_eq!(console.world.database.count(recorded).await, 0);
}

/// Adds more to the audit of each agency than the sockets take.
async fn add_long_records(console: &ConsoleWorld) {
    let records = "INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
        SELECT tenant_id, gen_random_uuid(), now(), 'ana', 'console', 'test.action', repeat('x', 1000)
        FROM tenants, generate_series(1, 20000)";
    console.world.database.execute(records).await;
}

/// Begins a download as soon as there is a place, and reads no more than the status.
async fn begin_export(console: &ConsoleWorld, visitor: &Visitor<'_>, path: &str) -> RawConnection {
    let cookie = visitor.cookie.as_deref().expect("a session");
    eventually("there is a place", MAX_WAIT, async || {
        // Each form has an id of its own.
        let request = with_id(form(path, &[("format", "csv")]), cookie).with("sec-fetch-site", "same-origin");
        let mut connection = RawConnection::to(console.http().address()).await;
        connection.send_request(&request.with("cookie", cookie)).await;
        let status = connection.take("HTTP/1.1 200".len()).await;
        if status == "HTTP/1.1 200" { Ok(connection) } else { Err(status) }
    })
    .await
}

#[tokio::test]
async fn downloads_that_nobody_reads_are_few_and_leave_a_place_to_another_agency() {
    let console = ConsoleWorld::start().await;
    let slugs = ["acme", "two", "three", "four", "five"];
    for slug in &slugs[1..4] {
        console.world.add_tenant(slug).await;
    }
    add_long_records(&console).await;
    console.world.add_tenant(slugs[4]).await;
    let path = |slug: &str| format!("/agencies/{slug}/audit/export");
    let admin = console.admin().await;
    let unread = [(); 2].map(|()| begin_export(&console, &admin, "/agencies/acme/audit/export"));
    let unread = join_all(unread).await;
    let next = async || admin.post(&path("acme"), &[("format", "csv"), ("action", "tenant.")]).await.status;
    assert_eq!(next().await, 503);
    drop(unread);
    until_equal("the places are free", 200, next).await;

    let mut unread = Vec::new();
    for slug in &slugs[..4] {
        let admin = console.signed_in(&["--role", "admin", "--tenant", slug]).await;
        unread.push(begin_export(&console, &admin, &path(slug)).await);
        unread.push(begin_export(&console, &admin, &path(slug)).await);
    }
    let fifth = console.signed_in(&["--role", "admin", "--tenant", "five"]).await;
    let exported = fifth.post(&path("five"), &[("format", "csv")]).await;
    assert_eq!(exported.status, 200, "{}", body(&exported));
    assert!(body(&exported).contains("tenant.create"), "{}", body(&exported));
}
