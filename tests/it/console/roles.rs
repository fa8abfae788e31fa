//! Each route in each role, for the own agency and for a foreign one. Only the console's own pages can change
//! something, and no other site can show them in a frame.

use super::{ConsoleWorld, Visitor, body, form};
use serde::Deserialize;
use tests::raw::RawConnection;
use tests::{HttpRequest, slug};

/// A route, as the console's own tests list it.
#[derive(Deserialize)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) role: String,
}

const RANKS: [&str; 3] = ["viewer", "admin", "operator"];

pub(super) fn routes() -> Vec<Route> {
    serde_json::from_str(include_str!("../../vectors/console-routes.json")).expect("the list of routes")
}

impl Route {
    fn of_tenant(&self) -> bool {
        self.path.contains("{tenant}")
    }

    fn at(&self, tenant: &str) -> String {
        self.path.replace("{tenant}", tenant).replace("{id}", "unknown")
    }

    async fn status(&self, visitor: &Visitor<'_>, tenant: &str) -> u16 {
        let path = self.at(tenant);
        let request = if self.method == "POST" {
            form(&path, &[]).with("sec-fetch-site", "same-origin")
        } else {
            HttpRequest::new("GET", &path, "")
        };
        let response = visitor.send(request).await;
        assert!(response.status < 500, "{} {path}: {}", self.method, body(&response));
        response.status
    }
}

#[tokio::test]
async fn each_route_is_open_to_exactly_the_roles_that_may_use_it() {
    let console = ConsoleWorld::shared().await;
    console.world.add_tenant("other").await;
    for (rank, role) in RANKS.into_iter().enumerate() {
        let options = ["--role", role, "--tenant", "acme"];
        let visitor = console.signed_in(if role == "operator" { &options[..2] } else { &options }).await;
        // Signing out would end the session that the other routes are called with.
        let is_called = |route: &&Route| !["public", "signed in"].contains(&route.role.as_str());
        for route in routes().iter().filter(is_called) {
            let needed = RANKS.iter().position(|rank| *rank == route.role).expect("a role");
            let (method, path) = (&route.method, &route.path);
            let own = route.status(&visitor, "acme").await;
            assert_eq!(own == 403, rank < needed, "{role}: {method} {path}: {own}");
            if route.of_tenant() {
                let foreign = route.status(&visitor, "other").await;
                assert_eq!(route.status(&visitor, "nobody").await, 404, "{role}: {method} {path}");
                if role == "operator" {
                    assert_eq!(foreign, own, "{method} {path}");
                } else {
                    assert_eq!(foreign, 404, "{role}: {method} {path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn nothing_of_another_agency_is_found_under_the_own_one() {
    let console = ConsoleWorld::start().await;
    let foreign = console.world.add_tenant("other").await;
    let created = ["subscription", "create", "--tenant", "other", "--url", "https://93.184.215.14/hook"];
    let subscription = console.world.connectctl.json(&created).await;
    let id = tests::text(&subscription["id"]);
    let delivery = uuid::Uuid::now_v7();
    let insert = format!(
        "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
         SELECT tenant_id, '{delivery}', '{delivery}', '{id}', 'dead', now(), 1 FROM tenants WHERE slug = 'other'"
    );
    console.world.database.execute(&insert).await;
    let replay = ["delivery", "replay", "--tenant", "other", "--state", "dead", "--no-wait"];
    let job = console.world.connectctl.json(&replay).await["id"].clone();
    let job = tests::text(&job);
    for visitor in [console.admin().await, console.operator().await] {
        for path in [
            format!("keys/{}", foreign.prefix),
            format!("keys/{}/revoke", foreign.prefix),
            format!("webhooks/{id}"),
            format!("webhooks/{id}/remove"),
            format!("webhooks/{id}/test?event={delivery}"),
            format!("deliveries/{delivery}"),
            format!("replays/{job}"),
        ] {
            assert_eq!(visitor.get(&format!("/agencies/acme/{path}")).await.status, 404, "{path}");
        }
        for (path, fields) in [
            (format!("keys/{}/revoke", foreign.prefix), &[][..]),
            (format!("keys/{}/scopes", foreign.prefix), &[("scopes", "leads:write")]),
            (format!("keys/{}/rotate", foreign.prefix), &[]),
            (format!("keys/{}/end-overlap", foreign.prefix), &[]),
            (format!("webhooks/{id}/events"), &[]),
            (format!("webhooks/{id}/url"), &[("url", "https://93.184.215.14/other")]),
            (format!("webhooks/{id}/test"), &[]),
            (format!("replays/{job}/stop"), &[]),
            (format!("webhooks/{id}/pause"), &[]),
            (format!("webhooks/{id}/resume"), &[]),
            (format!("webhooks/{id}/rotate"), &[]),
            (format!("webhooks/{id}/remove"), &[]),
            (format!("deliveries/{delivery}/replay"), &[]),
            (format!("deliveries/{delivery}/send-now"), &[]),
        ] {
            let response = visitor.post(&format!("/agencies/acme/{path}"), fields).await;
            assert_eq!(response.status, 404, "{path}: {}", body(&response));
        }
        let own = visitor.page("/agencies/acme/deliveries").await;
        assert!(!own.contains(&delivery.to_string()), "{own}");
        let replays = visitor.page("/agencies/acme/replays").await;
        assert!(!replays.contains(job), "{replays}");
        let found = visitor.page(&format!("/agencies/acme/find?id={delivery}")).await;
        assert!(found.contains("Nothing is known of"), "{found}");
    }
    let operator = console.operator().await;
    assert!(operator.page("/agencies/other/keys").await.contains(&foreign.prefix));
    let unchanged = "SELECT count(*) FROM api_keys k JOIN tenants t USING (tenant_id)
        WHERE t.slug = 'other' AND k.revoked_at IS NULL AND k.secret_number = 1 AND cardinality(k.scopes) = 7";
    assert_eq!(console.world.database.count(unchanged).await, 1);
    let kept = "SELECT count(*) FROM subscriptions WHERE paused_at IS NULL AND removed_at IS NULL";
    assert_eq!(console.world.database.count(kept).await, 1);
    let untouched = "SELECT (SELECT count(*) FROM replay_jobs WHERE state = 'running') - (SELECT count(*) FROM outbox)";
    assert_eq!(console.world.database.count(untouched).await, 1);
}

#[tokio::test]
async fn no_route_changes_anything_for_the_page_of_another_site() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.operator().await;
    let own = format!("http://{}", console.http().address());
    let posts = routes().into_iter().filter(|route| route.method == "POST");
    let posts = posts.map(|route| route.path.replace("{tenant}", "acme").replace("{id}", &console.world.key.prefix));
    let posts: Vec<String> = posts.collect();
    assert!(posts.len() > 15, "{posts:?}");
    for path in &posts {
        for (name, value) in [
            ("accept", "*/*"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
            ("origin", "https://attacker.example"),
            ("origin", "null"),
        ] {
            let request = form(path, &[("name", "x"), ("scopes", "leads:write")]).with(name, value);
            assert_eq!(visitor.send(request).await.status, 403, "{path} with {name}: {value}");
        }
    }
    let active = "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL AND secret_number = 1";
    assert_eq!(console.world.database.count(active).await, 1, "no key was created, rotated or revoked");
    assert_eq!(visitor.get("/").await.status, 200, "the session was not signed out");
    let scopes = format!("/agencies/acme/keys/{}/scopes", console.world.key.prefix);
    let accepted = form(&scopes, &[("scopes", "leads:read")]).with("origin", &own);
    assert_eq!(visitor.send(accepted).await.status, 303, "an older browser sends the origin only");
}

#[tokio::test]
async fn a_form_that_is_not_permitted_is_refused_before_its_body_has_arrived() {
    let console = ConsoleWorld::shared().await;
    let viewer = console.viewer().await;
    let (keys, session) = (format!("/agencies/{}/keys", slug("acme")), viewer.cookie.as_deref());
    for (path, site, cookie, status) in [
        (keys.as_str(), "cross-site", session, 403),
        (&keys, "same-origin", session, 403),
        (&keys, "same-origin", None, 401),
        ("/sign-out", "same-origin", None, 303),
    ] {
        let mut connection = RawConnection::to(console.http().address()).await;
        let begun = format!(
            "POST {path} HTTP/1.1\r\nhost: connect\r\nsec-fetch-site: {site}\r\ncookie: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: 1048576\r\n\r\nname=x",
            cookie.unwrap_or("none=1")
        );
        connection.send(begun).await;
        assert_eq!(connection.response().await.expect("a response").status, status, "{path} {site}");
    }
}

#[tokio::test]
async fn every_response_has_the_headers_that_protect_it() {
    let console = ConsoleWorld::shared().await;
    let (visitor, guest) = (console.admin().await, console.visitor());
    let responses = [
        visitor.get("/agencies/acme").await,
        visitor.get("/agencies/acme/keys/unknown").await,
        visitor.get("/queues").await,
        visitor.post("/queues", &[]).await,
        visitor.send(form("/sign-out", &[])).await,
        guest.get("/").await,
        guest.get("/sign-in").await,
        guest.get("/nothing").await,
        guest.get("/assets/console.css").await,
        guest.send(HttpRequest::new("DELETE", "/", "")).await,
    ];
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 404, 403, 405, 403, 303, 200, 404, 200, 405]);
    for response in responses {
        let policy = response.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(response.header("x-frame-options"), "DENY");
        assert_eq!(response.header("x-content-type-options"), "nosniff");
        assert_eq!(response.header("referrer-policy"), "same-origin");
        let id = response.header("x-request-id");
        assert!(uuid::Uuid::try_parse(id).is_ok(), "{id}");
        if response.status >= 400 {
            assert!(super::body(&response).contains(id), "an error shows its id");
        }
        let is_asset = response.header("content-type").starts_with("text/css");
        assert_eq!(response.header("cache-control") == "no-store", !is_asset);
    }
}
