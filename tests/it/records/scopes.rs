//! Each route needs one scope (specification: Scopes).

use super::{every_route, new_lead};
use serde_json::json;
use tests::{ALL_SCOPES, World};

#[tokio::test]
async fn every_route_requires_exactly_its_scope() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    for scope in ["clients:read", "clients:write", "leads:read", "leads:write"] {
        let others: Vec<_> = ALL_SCOPES.split(',').filter(|other| *other != scope).collect();
        let (with, without) = (world.add_key(scope).await, world.add_key(&others.join(",")).await);
        let routes: Vec<_> = every_route(&lead).into_iter().filter(|route| route.scope == scope).collect();
        assert!(!routes.is_empty(), "{scope}");
        for route in routes {
            let forbidden = world.http().send(&route.signed(&without)).await;
            let message = forbidden.assert_error(403, "forbidden");
            assert_eq!(message, "Invalid Connect credentials", "{route:?}");
            let passed = world.http().send(&route.signed(&with)).await;
            assert_eq!(passed.status, route.success(), "{route:?}: {passed:?}");
        }
    }
}

#[tokio::test]
async fn a_key_with_only_the_events_scope_is_forbidden_on_every_route() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let old = world.add_key("events:ingest").await;
    for route in every_route(&lead) {
        world.http().send(&route.signed(&old)).await.assert_error(403, "forbidden");
    }
}
