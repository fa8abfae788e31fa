//! Refused requests in the browser.

use super::{refused, until_recorded, valid, with_wrong_secret};
use crate::console::{ConsoleWorld, body};
use tests::World;

const PAGE: &str = "/agencies/acme/refusals";

#[tokio::test]
async fn the_owner_of_the_key_sees_why_and_nobody_else() {
    let console = ConsoleWorld::shared().await;
    let world = &console.world;
    world.add_tenant("other").await;
    let id = refused(world, &world.key.events_at(1, valid()), 401).await;
    until_recorded(world, 1).await;
    let one = format!("{PAGE}/{id}");
    let of_key = format!("{PAGE}?key={}", world.key.prefix);
    for visitor in [console.viewer().await, console.admin().await, console.operator().await] {
        for path in [PAGE, &of_key] {
            let list = visitor.page(path).await;
            assert!(list.contains("stale") && list.contains(&one), "{list}");
        }
        let page = visitor.page(&one).await;
        assert!(
            page.contains("behind the clock of Connect") && page.contains("Synchronize the clock"),
            "{page}"
        );
        assert!(page.contains(&format!("/agencies/acme/signature?request={id}")), "{page}");
        let key = visitor.page(&format!("/agencies/acme/keys/{}", world.key.prefix)).await;
        assert!(key.contains(&of_key), "{key}");
        assert!(visitor.page(&format!("/agencies/acme/find?id={id}")).await.contains(&one));
    }
    let foreign = console.signed_in(&["--role", "admin", "--tenant", "other"]).await;
    let own = foreign.page("/agencies/other/refusals").await;
    assert!(!own.contains("stale") && own.contains("There is no refused request"), "{own}");
    for path in [
        one.clone(),
        format!("/agencies/other/refusals/{id}"),
        format!("/agencies/other/refusals?key={}", world.key.prefix),
        format!("/agencies/other/signature?request={id}"),
        format!("/agencies/acme/signature?request={id}"),
    ] {
        assert_eq!(foreign.get(&path).await.status, 404, "{path}");
    }
    let posted = foreign.post("/agencies/other/signature", &[("request", &id)]).await;
    assert_eq!(posted.status, 404, "{}", body(&posted));
}

#[tokio::test]
async fn older_requests_are_on_further_pages() {
    let console = ConsoleWorld::shared().await;
    let insert = "INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, body_bytes)
        SELECT tenant_id, ('019' || lpad(to_hex(n), 9, '0') || '70008000000000000000')::uuid, prefix, now(), 'POST', '/', 401,
               'reason-' || n, 0
        FROM api_keys, generate_series(1, 60) n";
    console.world.database.execute(insert).await;
    let viewer = console.viewer().await;
    let newest = viewer.page(PAGE).await;
    assert!(newest.contains("reason-60<") && newest.contains("reason-11<") && !newest.contains("reason-10<"));
    let older = crate::console::between(&newest, "href=\"/agencies/acme/refusals?before=", "\"");
    let older = viewer.page(&format!("{PAGE}?before={older}")).await;
    assert!(older.contains("reason-10<") && older.contains("reason-1<") && !older.contains("reason-11<"));
}

#[tokio::test]
async fn the_list_of_keys_shows_the_requests_of_a_day() {
    let mut console = ConsoleWorld { console: None, world: World::with().join().await };
    for _ in 0..3 {
        refused(&console.world, &with_wrong_secret(&console.world.key).events(valid()), 401).await;
    }
    for mut ingest in console.world.ingests.drain(..) {
        ingest.terminate().await;
    }
    let old = "INSERT INTO api_key_requests SELECT tenant_id, prefix, now() - interval '25 hours', 7000, 8000 FROM api_keys";
    console.world.database.execute(old).await;
    let page = console.viewer().await.page("/agencies/acme/keys").await;
    let link = format!("<td>0</td><td><a href=\"{PAGE}?key={}\">3</a></td>", console.world.key.prefix);
    assert!(page.contains(&link), "{page}");
}
