//! The settings of an agency: members, discovery, limits, usage.

use super::{ConsoleWorld, body};

const AGENCY: &str = "/agencies/acme";

#[tokio::test]
async fn administrators_manage_members_and_discovery_and_operators_the_limits() {
    let console = ConsoleWorld::shared().await;
    let (admin, operator, viewer) = (console.admin().await, console.operator().await, console.viewer().await);
    let members = format!("{AGENCY}/members");
    let added = [("email", "Zoe@Example.com"), ("name", "Zoe <script>")];
    assert_eq!(admin.change(&members, &added).await, format!("{AGENCY}/settings?done=member-added"));
    let page = viewer.page(&format!("{AGENCY}/settings")).await;
    assert!(page.contains("zoe@example.com") && page.contains("Zoe &lt;script&gt;"), "{page}");
    assert!(!page.contains("Add a member"), "a viewer sees no forms: {page}");
    let faults = admin.post(&members, &[("email", "nobody"), ("name", "Typed")]).await;
    assert_eq!(faults.status, 422);
    assert!(body(&faults).contains("must be an email address") && body(&faults).contains("value=\"Typed\""));
    admin.change(&format!("{members}/remove"), &[("email", "zoe@example.com")]).await;
    let inactive = "SELECT count(*) FROM members WHERE email = 'zoe@example.com' AND NOT active";
    assert_eq!(console.world.database.count(inactive).await, 1);
    assert_eq!(admin.post(&format!("{members}/remove"), &[("email", "who@example.com")]).await.status, 404);

    let discovery = "SELECT count(*) FROM tenants WHERE slug = 'acme' AND discovery_enabled";
    for (value, expected) in [("true", 1), ("false", 0)] {
        admin.change(&format!("{AGENCY}/settings"), &[("discovery", value)]).await;
        assert_eq!(console.world.database.count(discovery).await, expected);
    }
    assert_eq!(admin.post(&format!("{AGENCY}/settings"), &[("discovery", "maybe")]).await.status, 400);

    let limits = format!("{AGENCY}/limits");
    assert_eq!(admin.post(&limits, &[("quota", "5"), ("reads", "7")]).await.status, 403);
    operator.change(&limits, &[("quota", "5"), ("reads", "7")]).await;
    let set = "SELECT count(*) FROM tenants WHERE monthly_quota = 5 AND reads_per_second = 7";
    assert_eq!(console.world.database.count(set).await, 1);
    let faults = operator.post(&limits, &[("quota", "-1"), ("reads", "0")]).await;
    let page = body(&faults);
    assert_eq!(faults.status, 422);
    for fault in ["quota must be a whole number", "reads must be a whole number", "value=\"-1\""] {
        assert!(page.contains(fault), "{fault}: {page}");
    }
}

#[tokio::test]
async fn usage_is_drawn_by_month_with_the_quota() {
    let console = ConsoleWorld::shared().await;
    let viewer = console.viewer().await;
    let settings = format!("{AGENCY}/settings");
    assert!(viewer.page(&settings).await.contains("There was no write in the last 12 months."));
    let insert = "INSERT INTO usage_counters (tenant_id, month, writes)
        SELECT tenant_id, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 1234 FROM tenants WHERE slug = 'acme'";
    console.world.database.execute(insert).await;
    console.world.database.execute("UPDATE tenants SET monthly_quota = 2000").await;
    let page = viewer.page(&settings).await;
    assert!(page.contains("<svg class=\"chart\"") && page.contains("1\u{2009}234"), "{page}");
    assert!(page.contains("class=\"quota\""), "{page}");
    assert!(viewer.page(AGENCY).await.contains("1\u{2009}234"));
    console.world.database.execute("UPDATE tenants SET monthly_quota = 1234").await;
    assert!(viewer.page(AGENCY).await.contains("The monthly quota is used up"));
}
