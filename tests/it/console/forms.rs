//! The settings of an agency: members, discovery, limits, usage.

use super::{ConsoleWorld, body};
use std::collections::BTreeSet;
use tests::World;

const AGENCY: &str = "/agencies/acme";

#[tokio::test]
async fn administrators_manage_members_and_discovery_and_operators_the_limits() {
    let console = ConsoleWorld::shared().await;
    let (admin, operator, viewer) = (console.admin().await, console.operator().await, console.viewer().await);
    let members = format!("{AGENCY}/members");
    let added = [("email", "Zoe@Example.com"), ("name", "Zoe <script>")];
    assert_eq!(admin.change(&members, &added).await, format!("{AGENCY}/members?done=member-added"));
    let page = viewer.page(&members).await;
    assert!(page.contains("z***@example.com") && page.contains("Zoe &lt;script&gt;"), "{page}");
    assert!(!page.contains("Add a member"), "a viewer sees no forms: {page}");
    let faults = admin.post(&members, &[("email", "nobody"), ("name", "Typed")]).await;
    assert_eq!(faults.status, 422);
    assert_eq!(body(&faults).matches(" autofocus").count(), 1, "the field with the first fault has the focus");
    assert!(body(&faults).contains("must be an email address") && body(&faults).contains("value=\"Typed\""));
    admin.change(&format!("{members}/remove"), &[("email", "zoe@example.com")]).await;
    let inactive = "SELECT count(*) FROM members WHERE email = 'zoe@example.com' AND NOT active";
    assert_eq!(console.world.database.count(inactive).await, 1);
    assert_eq!(admin.post(&format!("{members}/remove"), &[("email", "who@example.com")]).await.status, 404);
    let restored = [&added[..], &[("restored", "yes")]].concat();
    let page = admin.change(&members, &restored).await;
    assert!(admin.page(&page).await.contains("The member is active again"), "{page}");

    let discovery = "SELECT count(*) FROM tenants WHERE slug = 'acme' AND discovery_enabled";
    for (value, expected) in [("true", 1), ("false", 0)] {
        admin.change(&format!("{AGENCY}/settings"), &[("discovery", value)]).await;
        assert_eq!(console.world.database.count(discovery).await, expected);
    }
    assert_eq!(admin.post(&format!("{AGENCY}/settings"), &[("discovery", "maybe")]).await.status, 400);

    let address = [("discovery", "false"), ("attention-email", "Ops@example.com")];
    admin.change(&format!("{AGENCY}/settings"), &address).await;
    let page = admin.page(&format!("{AGENCY}/settings")).await;
    assert!(page.contains("value=\"ops@example.com\"") && page.contains("no mails are sent"), "{page}");
    assert!(!viewer.page(&format!("{AGENCY}/settings")).await.contains("ops@example.com"));
    let wrong = [("discovery", "false"), ("attention-email", "nobody")];
    let faults = admin.post(&format!("{AGENCY}/settings"), &wrong).await;
    assert!(faults.status == 422 && body(&faults).contains(">Email for what needs attention &quot;nobody&quot; must"));

    let limits = format!("{AGENCY}/limits");
    assert_eq!(admin.post(&limits, &[("quota", "5"), ("reads", "7")]).await.status, 403);
    operator.change(&limits, &[("quota", "5"), ("reads", "7")]).await;
    let set = "SELECT count(*) FROM tenants WHERE monthly_quota = 5 AND reads_per_second = 7";
    assert_eq!(console.world.database.count(set).await, 1);
    let faults = operator.post(&limits, &[("quota", "-1"), ("reads", "0")]).await;
    let page = body(&faults);
    assert_eq!(faults.status, 422);
    for fault in [">Monthly quota must be a whole", ">Reads per second and key must be a whole", "value=\"-1\""] {
        assert!(page.contains(fault), "{fault}: {page}");
    }
}

#[tokio::test]
async fn an_agency_has_at_most_as_many_keys_subscriptions_and_members_as_the_settings_allow() {
    let builder = World::with().ingests(0).workers(0).set("CONNECT_MAX_KEYS_PER_TENANT", "2");
    let builder = builder.set("CONNECT_MAX_SUBSCRIPTIONS_PER_TENANT", "1").set("CONNECT_MAX_MEMBERS_PER_TENANT", "3");
    let console = ConsoleWorld::of(builder).await;
    let admin = console.admin().await;
    let (key, hook) = ([("name", "x"), ("scopes", "leads:read")], [("url", "https://93.184.215.14/hook")]);
    let member = [("email", "m@example.com"), ("name", "Mo")];
    let other = [("email", "n@example.com"), ("name", "No")];
    for (path, first, second, status, setting) in [
        ("keys", &key[..], &key[..], 409, "CONNECT_MAX_KEYS_PER_TENANT"),
        ("webhooks", &hook, &hook, 422, "CONNECT_MAX_SUBSCRIPTIONS_PER_TENANT"),
        ("members", &member, &other, 409, "CONNECT_MAX_MEMBERS_PER_TENANT"),
    ] {
        let path = format!("{AGENCY}/{path}");
        let created = admin.post(&path, first).await;
        assert!(created.status < 400, "{path}: {}", body(&created));
        let refused = admin.post(&path, second).await;
        assert!(refused.status == status && body(&refused).contains(setting), "{path}: {}", body(&refused));
    }
    admin.change(&format!("{AGENCY}/members"), &[("email", "m@example.com"), ("name", "Renamed")]).await;
    let create = ["key", "create", "--tenant", "acme", "--name", "x", "--scopes", "leads:read"];
    console.world.connectctl.assert_refusal(&create, "2 active keys, as many as CONNECT_MAX_KEYS_PER_TENANT").await;

    // Former ones count as well, because they are kept: a tenth of them.
    for (table, retire, copy, form) in [
        ("api_keys", "revoked_at = now()", "'prefix', 'ck_' || n", &key[..]),
        ("subscriptions", "removed_at = now()", "'subscription_id', gen_random_uuid()", &hook),
        ("members", "active = false", "'email', n || '@example.com'", &other),
    ] {
        let copies = format!(
            "INSERT INTO {table} SELECT (r).* FROM (SELECT jsonb_populate_record(NULL::{table},
                to_jsonb(r) || jsonb_build_object({copy})) AS r
                FROM (SELECT * FROM {table} LIMIT 1) r, generate_series(1, 30) n) r"
        );
        console.world.database.execute(&format!("UPDATE {table} SET {retire}")).await;
        console.world.database.execute(&copies).await;
        let path = table.replace("api_", "").replace("subscriptions", "webhooks");
        let refused = admin.post(&format!("{AGENCY}/{path}"), form).await;
        assert!(body(&refused).contains("or ten times as many with former ones"), "{path}: {}", body(&refused));
    }
}

#[tokio::test]
async fn long_lists_of_an_agency_have_pages_that_neither_skip_nor_repeat_anything() {
    let console = ConsoleWorld::shared().await;
    let admin = console.admin().await;
    console.world.subscribe("https://93.184.215.14/hook").await;
    for insert in [
        "INSERT INTO api_keys SELECT (k).* FROM (SELECT jsonb_populate_record(k, jsonb_build_object('prefix', 'ck_' || n)) AS k
            FROM api_keys k, generate_series(1, 229) n) k",
        "INSERT INTO subscriptions SELECT (s).* FROM (SELECT jsonb_populate_record(s, jsonb_build_object(
            'subscription_id', gen_random_uuid())) AS s FROM subscriptions s, generate_series(1, 229) n) s",
        "INSERT INTO members SELECT tenant_id, n || '@example.com', 'Mo', true, now()
            FROM tenants, generate_series(1, 228) n",
    ] {
        console.world.database.execute(insert).await;
    }
    for (list, row, more) in [
        ("keys", "<th scope=\"row\"><a href=\"/agencies/acme/keys/", "Older"),
        ("webhooks", "<th scope=\"row\"><a href=\"/agencies/acme/webhooks/", "Older"),
        ("members", "name=\"email\" value=\"", "More members"),
    ] {
        let (mut path, mut seen, mut rows) = (format!("{AGENCY}/{list}"), BTreeSet::new(), Vec::new());
        loop {
            let page = admin.page(&path).await;
            rows.push(page.matches(row).count());
            assert!(rows.len() <= 3, "{list}: {rows:?}");
            seen.extend(page.split(row).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            let Some((before, _)) = page.split_once(&format!("\">{more}</a>")) else { break };
            path = before.rsplit("href=\"").next().expect("a link").replace("&amp;", "&");
        }
        assert_eq!((rows, seen.len()), (vec![100, 100, 30], 230), "{list}");
    }
}

#[tokio::test]
async fn usage_is_drawn_by_month_with_the_quota() {
    let console = ConsoleWorld::shared().await;
    let viewer = console.viewer().await;
    let usage = format!("{AGENCY}/usage");
    assert!(viewer.page(&usage).await.contains("There was no write in the last 12 months."));
    let insert = "INSERT INTO usage_counters (tenant_id, month, writes)
        SELECT tenant_id, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 1234 FROM tenants WHERE slug = 'acme'";
    console.world.database.execute(insert).await;
    console.world.database.execute("UPDATE tenants SET monthly_quota = 2000").await;
    let page = viewer.page(&usage).await;
    assert!(page.contains("<svg role=\"img\"") && page.contains("1\u{2009}234"), "{page}");
    assert!(page.contains("<line class=\"quota\""), "{page}");
    assert!(viewer.page(AGENCY).await.contains("1\u{2009}234"));
    console.world.database.execute("UPDATE tenants SET monthly_quota = 1234").await;
    assert!(viewer.page(AGENCY).await.contains("The monthly quota is used up"));
}
