//! Hostile content from partners on every page that shows it, and malformed requests.

use super::roles::routes;
use super::{ConsoleWorld, form};
use serde_json::json;
use tests::{HttpRequest, event, text};

/// Ends texts, attributes and scripts in HTML if it is not escaped.
const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";

/// DEL, a control of C1, a space without width, and a mark of direction.
pub(super) const UNSEEN: &str = "\u{7f}\u{9b}\u{200b}\u{202e}";

/// Checks that each mark of direction of a page has an end: in `<bdi>`, in an attribute, or in what has text alone.
pub(super) fn assert_isolated(page: &str, path: &str) {
    for (at, _) in page.match_indices('\u{202e}') {
        let is_in = |begin: &str, end: &str| page[..at].rfind(begin) > page[..at].rfind(end);
        let is_isolated = [("<bdi>", "</bdi>"), ("<", ">"), ("<title>", "</title>"), ("<option", "</option>")];
        assert!(is_isolated.iter().any(|(begin, end)| is_in(begin, end)), "{path}: {}", &page[..at]);
    }
}

/// Ids of what [`store`] has stored.
struct Stored {
    client: String,
    lead: String,
    subscription: String,
    delivery: String,
    key: String,
}

/// Stores `content` wherever a partner, an administrator, a receiver or the CRM can cause it to be stored, and `hush` before it where
/// viewers see nothing of it.
async fn store(console: &ConsoleWorld, content: &str) -> Stored {
    let (world, database) = (&console.world, &console.world.database);
    world
        .connectctl
        .json(&["member", "add", "--tenant", "acme", "--email", "secretive.m@example.com", "--name", content])
        .await;
    let quiet = format!("hush {content}");
    let sent = event("enquiry.submitted").email("secretive@example.com").phone("+44 20 7946 0018");
    let sent = sent.name(content).external_id(content).payload(json!({
        "title": content, "destination": content, "message": quiet, "externalLeadId": content,
        "attribution": {"campaign": quiet, "source": quiet},
    }));
    let result = world.accept(sent.id(content)).await;
    let (client, lead) = (text(&result["clientId"]).to_owned(), text(&result["leadId"]).to_owned());
    let options = ["--tenant", "acme", "--name", content, "--scopes", "leads:read", "--origin", content];
    let key = world.connectctl.json(&[&["key", "create"], &options[..]].concat()).await;
    let created = world.subscribe("https://93.184.215.14/hook").await;
    let subscription = text(&created["id"]).to_owned();
    let delivery = uuid::Uuid::now_v7().to_string();
    for statement in [
        format!(
            "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
             SELECT tenant_id, '{delivery}', 'lead.assigned', $${content}$$, to_json($${quiet}$$::text), now() FROM tenants WHERE slug = 'acme'"
        ),
        format!(
            "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, attempts, number)
             SELECT tenant_id, '{delivery}', '{delivery}', '{subscription}', 'dead', now(), 1, 1 FROM tenants WHERE slug = 'acme'"
        ),
        format!(
            "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
             SELECT tenant_id, '{delivery}', 1, now(), 500, 'broken', $${quiet}$$, 7 FROM tenants WHERE slug = 'acme'"
        ),
        format!(
            "INSERT INTO invoices (tenant_id, booking_ref, lead_id, client_id, currency, credit_state, created_at, updated_at)
             SELECT tenant_id, $${content}$$, '{lead}', '{client}', 'GBP', 'none', now(), now() FROM tenants WHERE slug = 'acme'"
        ),
        format!("UPDATE timeline SET origin = $${content}$$ WHERE client_id = '{client}'"),
    ] {
        database.execute(&statement).await;
    }
    Stored { client, lead, subscription, delivery, key: text(&key["prefix"]).to_owned() }
}

#[tokio::test]
async fn what_partners_send_is_text_on_every_page() {
    let console = ConsoleWorld::shared().await;
    let Stored { client, lead, subscription, delivery, .. } = store(&console, HOSTILE).await;
    // URLs and errors are made of ASCII.
    for (column, unseen) in [
        ("attempts SET error", ""),
        ("subscriptions SET display_url", ""),
        ("tenants SET name", UNSEEN),
        ("members SET name", UNSEEN),
        ("api_keys SET name", UNSEEN),
        ("clients SET name", UNSEEN),
        ("leads SET title", UNSEEN),
    ] {
        let update = format!("UPDATE {column} = $$https://example.com/{unseen}{HOSTILE}$$");
        console.world.database.execute(&update).await;
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
        "/members".to_owned(),
        "/partners".to_owned(),
        "/usage".to_owned(),
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
        assert_isolated(&page, &path);
        escaped += page.matches("&lt;script&gt;alert(1)").count();
    }
    assert!(escaped > 30, "the content is shown: {escaped}");
    for path in ["/".to_owned(), format!("/?search={query}"), format!("/find?id={query}"), format!("/?done={query}")] {
        let page = operator.page(&path).await;
        assert!(!page.contains("<script>") && !page.contains("\"'>"), "{path}: {page}");
    }
    for list in [&["member", "list"][..], &["key", "list"], &["pipeline"]] {
        for (format, escapes) in
            [(&[][..], r"\u{7f}\u{9b}\u{200b}\u{202e}"), (&["--json"], r"\u007f\u009b\u200b\u202e")]
        {
            let ran = console.world.connectctl.run(&[list, &["--tenant", "acme"], format].concat()).await;
            let is_seen = |c: char| c == '\n' || c == '…' || (' '..='~').contains(&c);
            assert!(ran.output.contains(escapes) && ran.output.chars().all(is_seen), "{list:?}: {}", ran.output);
        }
    }
}

/// The digits of a text, without ids and times, of which some have those of a telephone number by chance.
fn without_ids(text: &str) -> String {
    let is_of_id = |c: char| c.is_ascii_hexdigit() || "-:.TZ".contains(c);
    text.split(|c| !is_of_id(c)).filter(|run| run.len() < 16).collect::<Vec<_>>().join(" ")
}

/// Every page that viewers may open, with contact data in every text that it shows.
#[tokio::test]
async fn viewers_see_masked_contacts_and_no_payloads() {
    let console = ConsoleWorld::shared().await;
    let content = "Ana <secretive@example.com>, tel:02079460018";
    let Stored { client, lead, subscription, delivery, key } = store(&console, content).await;
    let applied = console.world.connectctl.list(&["find", content, "--tenant", "acme"]).await;
    let request = text(&applied[0]["requestId"]);
    let ids = [
        ("clients", &client),
        ("leads", &lead),
        ("webhooks", &subscription),
        ("deliveries", &delivery),
        ("keys", &key),
    ];
    let (admin, viewer) = (console.admin().await, console.viewer().await);
    let (mut shown, mut hidden) = (Vec::new(), String::new());
    for route in routes().iter().filter(|route| route.method == "GET" && route.role == "viewer") {
        let path = route.path.replace("{tenant}", "acme");
        let id = ids.iter().find(|(kind, _)| path.contains(&format!("/{kind}/{{id}}")));
        let path = path.replace("{id}", id.map_or("unknown", |(_, id)| id));
        let path = format!("{path}?event={delivery}&id={request}");
        // What is unknown here shows ids and texts of Connect alone.
        if path.contains("/unknown") {
            assert!(path.contains("/refusals/") || path.contains("/replays/"), "store what {path} shows");
            continue;
        }
        let (seen, masked) = (admin.page(&path).await, viewer.page(&path).await);
        for contact in ["secretive", "hush"] {
            assert!(!masked.contains(contact), "{path}: {contact}: {masked}");
        }
        assert!(!without_ids(&masked).contains("7946"), "{path}: {masked}");
        let page = route.path.trim_start_matches("/agencies/{tenant}").to_owned();
        let sees = ["secretive", "hush"].map(|contact| seen.contains(contact));
        shown.extend(sees.contains(&true).then_some((page, sees)));
        hidden += &masked;
    }
    let expected = [
        ("/keys", [true, false]),
        ("/keys/{id}", [true, false]),
        ("/deliveries/{id}", [true, true]),
        ("/members", [true, false]),
        ("/find", [true, false]),
        ("/pipeline", [true, false]),
        ("/leads/{id}", [true, true]),
        ("/clients/{id}", [true, true]),
    ];
    assert_eq!(shown, expected.map(|(page, sees)| (page.to_owned(), sees)), "what administrators see");
    assert!(hidden.contains("s***@example.com") && hidden.contains("***18"), "{hidden}");
    assert!(hidden.contains("Only administrators see the body and what the receiver responded"), "{hidden}");
}

#[tokio::test]
async fn malformed_bodies_and_paths_are_refused() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.admin().await;
    let send = async |request: HttpRequest| visitor.send(request.with("sec-fetch-site", "same-origin")).await.status;
    let keys = "/agencies/acme/keys";
    let large = format!("name={}", "a".repeat(1024 * 1024));
    assert_eq!(send(form(keys, &[]).with_body(large)).await, 413);
    assert_eq!(send(form(keys, &[("name", "\0")])).await, 400);
    assert_eq!(send(form(keys, &[]).with_body("a=1&".repeat(300))).await, 400);
    let json = HttpRequest::new("POST", keys, "{}").with("content-type", "application/json");
    assert_eq!(send(json).await, 400);
    assert_eq!(send(HttpRequest::new("POST", keys, "name=x")).await, 400, "without a type");
    for path in [
        "/agencies/acme/keys/..%2f..%2fother", "/agencies/acme/../other/keys", "/agencies/acme/keys/%00",
        "//attacker.example/", "/agencies/acme/keys/", "/agencies/ACME",
    ] {
        assert_eq!(visitor.get(path).await.status, 404, "{path}");
    }
    let redirected = visitor.get("/?next=//attacker.example&done=%0d%0aset-cookie:a=b").await;
    assert_eq!(redirected.header("location"), "/agencies/acme");
    assert_eq!(visitor.get("/agencies/acme/find?id=%00").await.status, 200);
    assert_eq!(console.world.database.count("SELECT count(*) FROM api_keys").await, 1);
}
