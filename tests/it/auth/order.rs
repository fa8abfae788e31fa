//! Which of several faults is reported (D1).

use super::{assert_forbidden, assert_unauthorized, valid};
use tests::World;
use tests::event::batch;

#[tokio::test]
async fn authentication_is_checked_before_tenant_and_scope() {
    let world = World::shared().await;
    let reader = world.add_key("clients:read").await;
    let http = world.http();
    let wrong_everything = reader.events(valid()).replacing("x-connect-tenant", "zeta").with_body("{}");
    assert_unauthorized(&http.send(&wrong_everything).await, "a MAC that fails, then tenant and scope");
    let stale = reader.events_at(1, valid()).replacing("x-connect-tenant", "zeta");
    assert_unauthorized(&http.send(&stale).await, "stale, then tenant and scope");
    let unknown =
        world.key.events(valid()).replacing("x-connect-key", "ck_no").replacing("x-connect-tenant", "zeta");
    assert_unauthorized(&http.send(&unknown).await, "an unknown key, then tenant");
}

#[tokio::test]
async fn authentication_and_authorization_are_checked_before_the_body() {
    let world = World::shared().await;
    let reader = world.add_key("clients:read").await;
    let http = world.http();
    for body in ["", "not json", "{}", r#"{"events":[]}"#] {
        assert_unauthorized(&http.send(&world.key.events_at(1, body)).await, body);
        assert_forbidden(&http.send(&reader.events(body)).await, body);
        let elsewhere = world.key.events(body).replacing("x-connect-tenant", "zeta");
        assert_forbidden(&http.send(&elsewhere).await, body);
        http.send(&world.key.events(body)).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn the_tenant_is_checked_before_replay_and_uses_up_nothing() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    let request = world.key.events(valid());
    for status in [200, 401] {
        for tenant in ["zeta", "nobody", "acme2"] {
            let elsewhere = request.clone().replacing("x-connect-tenant", tests::slug(tenant));
            assert_forbidden(&world.http().send(&elsewhere).await, tenant);
        }
        assert_eq!(world.http().send(&request).await.status, status);
    }
}

#[tokio::test]
async fn replay_is_checked_before_the_body() {
    let world = World::shared().await;
    let request = world.key.events(r#"{"events":[]}"#);
    world.http().send(&request).await.assert_error(400, "invalid_request");
    assert_unauthorized(&world.http().send(&request).await, "a refused body still uses its signature");
}

#[tokio::test]
async fn stores_for_the_keys_tenant_whatever_the_case_of_the_header() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let body = batch(&[tests::event("contact.identified")
        .tenant(&format!(" {} ", zeta.tenant.to_uppercase()))
        .email("ana@example.com")]);
    let header = format!(" {}  ", zeta.tenant.to_uppercase());
    let request = zeta.events(body).replacing("x-connect-tenant", header);
    assert_eq!(world.http().send(&request).await.status, 200);
    let slugs = world.database.rows("SELECT slug FROM clients JOIN tenants USING (tenant_id)", &[]).await;
    assert_eq!(slugs, [serde_json::json!({"slug": zeta.tenant})]);
}
