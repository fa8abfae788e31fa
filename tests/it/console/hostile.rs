//! Hostile content from partners on every page that shows it, and malformed requests.

use super::{ConsoleWorld, form};
use serde_json::json;
use tests::{HttpRequest, event, text};

/// Ends texts, attributes and scripts in HTML if it is not escaped.
const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";

#[tokio::test]
async fn what_partners_send_is_text_on_every_page() {
    let console = ConsoleWorld::shared().await;
    let (world, database) = (&console.world, &console.world.database);
    let sent = event("enquiry.submitted").email("ana@example.com").name(HOSTILE).payload(json!({
        "title": HOSTILE, "destination": HOSTILE, "message": HOSTILE, "externalLeadId": HOSTILE,
        "attribution": {"campaign": HOSTILE, "source": HOSTILE},
    }));
    let result = world.accept(sent.id(HOSTILE)).await;
    let (client, lead) = (text(&result["clientId"]), text(&result["leadId"]));
    world
        .connectctl
        .json(&[
            "key",
            "create",
            "--tenant",
            "acme",
            "--name",
            HOSTILE,
            "--scopes",
            "leads:read",
            "--origin",
            HOSTILE,
        ])
        .await;
    world
        .connectctl
        .json(&["member", "add", "--tenant", "acme", "--email", "m@example.com", "--name", HOSTILE])
        .await;
    let created = world.subscribe("https://93.184.215.14/hook").await;
    let subscription = text(&created["id"]);
    // What a receiver and the CRM can cause to be stored.
    let delivery = uuid::Uuid::now_v7();
    for statement in [
        format!("UPDATE tenants SET name = $${HOSTILE}$$ WHERE slug = 'acme'"),
        format!(
            "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
             SELECT tenant_id, '{delivery}', 'lead.assigned', $${HOSTILE}$$, to_json($${HOSTILE}$$::text), now() FROM tenants WHERE slug = 'acme'"
        ),
        format!(
            "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, attempts, number)
             SELECT tenant_id, '{delivery}', '{delivery}', '{subscription}', 'dead', now(), 1, 1 FROM tenants WHERE slug = 'acme'"
        ),
        format!(
            "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
             SELECT tenant_id, '{delivery}', 1, now(), 500, $${HOSTILE}$$, $${HOSTILE}$$, 7 FROM tenants WHERE slug = 'acme'"
        ),
        format!("UPDATE subscriptions SET display_url = $$https://example.com/{HOSTILE}$$"),
        format!(
            "INSERT INTO invoices (tenant_id, booking_ref, lead_id, client_id, currency, credit_state, created_at, updated_at)
             SELECT tenant_id, $${HOSTILE}$$, '{lead}', '{client}', 'GBP', 'none', now(), now() FROM tenants WHERE slug = 'acme'"
        ),
    ] {
        database.execute(&statement).await;
    }
    let query = super::encoded(HOSTILE);
    let paths = [
        String::new(),
        "/keys".to_owned(),
        "/webhooks".to_owned(),
        format!("/webhooks/{subscription}"),
        format!("/webhooks/{subscription}/remove"),
        "/webhooks/new".to_owned(),
        "/deliveries".to_owned(),
        format!("/deliveries?state={query}&from={query}&subscription={query}"),
        format!("/deliveries/{delivery}"),
        "/deliveries/replay?state=dead".to_owned(),
        "/replays".to_owned(),
        format!("/webhooks/{subscription}/test?event={delivery}"),
        format!("/webhooks/{subscription}?done={query}"),
        "/settings".to_owned(),
        format!("/find?id={query}"),
        format!("/find?id={delivery}"),
        "/pipeline".to_owned(),
        format!("/pipeline?campaign={query}&stage={query}"),
        format!("/leads/{lead}"),
        format!("/clients/{client}"),
    ];
    let (admin, operator) = (console.admin().await, console.operator().await);
    let mut escaped = 0;
    for path in paths {
        let page = admin.page(&format!("/agencies/acme{path}")).await;
        assert!(!page.contains("<script>") && !page.contains("<img"), "{path}: {page}");
        assert!(!page.contains("\"'>"), "{path}: an attribute was ended: {page}");
        escaped += page.matches("&lt;script&gt;alert(1)").count();
    }
    assert!(escaped > 30, "the content is shown: {escaped}");
    for path in
        ["/".to_owned(), format!("/?search={query}"), format!("/find?id={query}"), format!("/?done={query}")]
    {
        let page = operator.page(&path).await;
        assert!(!page.contains("<script>") && !page.contains("\"'>"), "{path}: {page}");
    }
}

#[tokio::test]
async fn viewers_see_masked_contacts_and_no_payloads() {
    let console = ConsoleWorld::shared().await;
    let sent = event("enquiry.submitted").email("secretive@example.com").phone("+44 20 7946 0018");
    let result = console.world.accept(sent.payload(json!({"message": "call me"}))).await;
    let pages = [
        format!("/agencies/acme/clients/{}", text(&result["clientId"])),
        format!("/agencies/acme/leads/{}", text(&result["leadId"])),
        "/agencies/acme/pipeline".to_owned(),
    ];
    let (admin, viewer) = (console.admin().await, console.viewer().await);
    let mut seen = String::new();
    for page in &pages {
        seen += &admin.page(page).await;
        let masked = viewer.page(page).await;
        for hidden in ["secretive", "7946", "call me"] {
            assert!(!masked.contains(hidden), "{page}: {hidden}: {masked}");
        }
    }
    assert!(seen.contains("secretive@example.com") && seen.contains("call me"), "{seen}");
    assert!(viewer.page(&pages[0]).await.contains("s***@example.com"));
}

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
