//! Only the console's own pages can change something, and no other site can show them in a frame.

use super::{ConsoleWorld, form};
use serde_json::Value;
use tests::raw::RawConnection;
use tests::{HttpRequest, slug};

#[tokio::test]
async fn no_route_changes_anything_for_the_page_of_another_site() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.operator().await;
    let routes: Vec<Value> =
        serde_json::from_str(include_str!("../../vectors/console-routes.json")).expect("the list of routes");
    let own = format!("http://{}", console.http().address());
    let posts: Vec<String> = routes
        .iter()
        .filter(|route| route["method"] == "POST")
        .map(|route| {
            tests::text(&route["path"]).replace("{tenant}", "acme").replace("{id}", &console.world.key.prefix)
        })
        .collect();
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
