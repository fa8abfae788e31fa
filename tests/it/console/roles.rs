//! Each route in each role, for the own agency and for a foreign one.

use super::{ConsoleWorld, Visitor, body, form};
use serde::Deserialize;
use tests::HttpRequest;

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
                let missing = route.status(&visitor, "nobody").await;
                assert_eq!(missing, 404, "{role}: {method} {path}");
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
            (format!("webhooks/{id}/test"), &[]),
            (format!("replays/{job}/stop"), &[]),
            (format!("webhooks/{id}/pause"), &[]),
            (format!("webhooks/{id}/resume"), &[]),
            (format!("webhooks/{id}/rotate"), &[]),
            (format!("webhooks/{id}/remove"), &[]),
            (format!("deliveries/{delivery}/replay"), &[]),
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
        WHERE t.slug = 'other' AND k.revoked_at IS NULL AND k.secret_number = 1 AND cardinality(k.scopes) = 6";
    assert_eq!(console.world.database.count(unchanged).await, 1);
    let kept = "SELECT count(*) FROM subscriptions WHERE paused_at IS NULL AND removed_at IS NULL";
    assert_eq!(console.world.database.count(kept).await, 1);
    let untouched =
        "SELECT (SELECT count(*) FROM replay_jobs WHERE state = 'running') - (SELECT count(*) FROM outbox)";
    assert_eq!(console.world.database.count(untouched).await, 1);
}
