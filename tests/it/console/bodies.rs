//! Malformed requests.

use super::{ConsoleWorld, form};
use tests::HttpRequest;

#[tokio::test]
async fn malformed_bodies_and_paths_are_refused() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.admin().await;
    let send =
        async |request: HttpRequest| visitor.send(request.with("sec-fetch-site", "same-origin")).await.status;
    let keys = "/agencies/acme/keys";
    let large = format!("name={}", "a".repeat(1024 * 1024));
    assert_eq!(send(form(keys, &[]).with_body(large)).await, 413);
    assert_eq!(send(form(keys, &[("name", "\0")])).await, 400);
    assert_eq!(send(form(keys, &[]).with_body("a=1&".repeat(300))).await, 400);
    let json = HttpRequest::new("POST", keys, "{}").with("content-type", "application/json");
    assert_eq!(send(json).await, 400);
    assert_eq!(send(HttpRequest::new("POST", keys, "name=x")).await, 400, "without a type");
    for path in [
        "/agencies/acme/keys/..%2f..%2fother",
        "/agencies/acme/../other/keys",
        "/agencies/acme/keys/%00",
        "//attacker.example/",
        "/agencies/acme/keys/",
        "/agencies/ACME",
    ] {
        assert_eq!(visitor.get(path).await.status, 404, "{path}");
    }
    let redirected = visitor.get("/?next=//attacker.example&done=%0d%0aset-cookie:a=b").await;
    assert_eq!(redirected.header("location"), "/agencies/acme");
    assert_eq!(visitor.get("/agencies/acme/find?id=%00").await.status, 200);
    assert_eq!(console.world.database.count("SELECT count(*) FROM api_keys").await, 1);
}
