//! Deliveries in the browser: pages, filters, replays.

use super::{ConsoleWorld, between, body};
use tests::{Behavior, Receiver, event, text, until_equal, words};

const DELIVERIES: &str = "/agencies/acme/deliveries";

#[tokio::test]
async fn failed_deliveries_are_seen_and_replayed_one_by_one_and_all_that_match() {
    let console = ConsoleWorld::shared().await;
    let (world, visitor) = (&console.world, console.admin().await);
    world.connectctl.json(&words("member add --tenant acme --email m@example.com --name Mo")).await;
    let receiver = Receiver::http();
    let broken = Behavior::status(500).with_header("x-evil", "<script>").with_body("<script>alert(1)</script>");
    let broken = broken.with_header("server", "shop <1>");
    receiver.respond_to_all(broken);
    world.subscribe(&receiver.url("/hook")).await;
    for number in 0..3 {
        world.accept(event("enquiry.submitted").email(&format!("ana{number}@example.com"))).await;
    }
    let listed = async |query: &str| visitor.page(&format!("{DELIVERIES}{query}")).await;
    let links = |page: &str| page.matches("<th scope=\"row\"><a href=\"/agencies/acme/deliveries/").count();
    let until_listed = async |state: &str, count: usize| {
        let query = format!("?state={state}");
        until_equal(state, count, async || links(&listed(&query).await)).await;
    };
    until_listed("dead", 3).await;
    visitor.until_shown(DELIVERIES, &["<td data-label=\"Receiver\"", ">Clear the filter</a>"]).await;
    visitor.until_shown("/agencies/acme", &["3 deliveries failed for good", "or an email address"]).await;
    assert_eq!(links(&listed("?state=delivered").await), 0);
    assert_eq!(links(&listed("?state=dead&type=lead.assigned&from=2020-01-01T00:00").await), 3);
    assert_eq!(links(&listed("?type=booking.confirmed").await), 0);
    assert_eq!(links(&listed("?to=2020-01-01T00:00").await), 0);
    assert_eq!(links(&listed("?range=1h").await), 3);
    let fault = "state &quot;lost&quot; is not known: choose pending, delivered, dead, dropped. It was ignored.";
    assert!(listed("?state=lost").await.contains(fault));

    let rows = world.database.rows("SELECT delivery_id, event_id FROM deliveries ORDER BY delivery_id", &[]).await;
    let first = text(&rows[0]["delivery_id"]);
    let page = visitor.page(&format!("{DELIVERIES}/{first}")).await;
    assert!(page.contains("status 500") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    assert!(page.contains("&quot;eventType&quot;:&quot;lead.assigned&quot;"), "the body as sent: {page}");
    let parts = [
        "<details open><summary>Headers and body</summary><pre class=\"wrapped\"><code>server: shop &lt;1&gt;</code>",
        "\n  &quot;eventType&quot;: &quot;lead.assigned&quot;,\n",
        "\nX-Connect-Event: lead.assigned\n",
        "</time> <code>",
        &format!("\nX-Connect-Delivery: {first}\n"),
        "class=\"pill bad\">Failed<",
    ];
    for part in parts {
        assert!(page.contains(part), "{part}: {page}");
    }
    let shown = between(&page, "POST ", "</code>").to_lowercase();
    let sent = receiver.received_at("/hook");
    for name in sent[0].headers().map(|(name, _)| name.to_lowercase()) {
        let is_shown = shown.contains(&format!("\n{name}: "));
        assert!(is_shown || name == "host" || name == "content-length", "{name}: {shown}");
    }
    assert!(!page.contains("x-evil"), "only headers that explain a failure are kept: {page}");
    let above = "<ol><li><a href=\"/agencies/acme\"><bdi>Acme Travel</bdi></a></li>\
        <li><a href=\"/agencies/acme/deliveries\"><bdi>Deliveries</bdi></a></li></ol>";
    assert_eq!(between(&page, "<nav class=\"crumbs\" aria-label=\"Breadcrumb\">", "</nav>"), above);
    let operators = console.operator().await.page(DELIVERIES).await;
    let above = "<ol><li><a href=\"/\"><bdi>All agencies</bdi></a></li>\
        <li><a href=\"/agencies/acme\"><bdi>Acme Travel</bdi></a></li></ol>";
    assert_eq!(between(&operators, "aria-label=\"Breadcrumb\">", "</nav>"), above, "the page itself is not among them");
    let viewer = console.viewer().await;
    let masked = viewer.page(&format!("{DELIVERIES}/{first}")).await;
    assert!(!masked.contains("leadId") && !masked.contains("shop") && !masked.contains("Send it again"), "{masked}");

    receiver.respond_to_all(Behavior::status(204));
    let done = visitor.change(&format!("{DELIVERIES}/{first}/replay"), &[]).await;
    assert_eq!(done, format!("{DELIVERIES}/{first}?done=replayed"));
    until_listed("delivered", 1).await;
    let question = visitor.page(&format!("{DELIVERIES}/replay?state=dead&from=2020-01-01T00:00")).await;
    assert!(question.contains("<dt>from</dt><dd><time datetime=\"2020-01-01T00:00:00.000Z\""), "{question}");
    assert!(question.contains("<strong>2</strong> deliveries match"), "{question}");
    assert!(question.contains("<dt>state</dt><dd>Failed for good"), "{question}");
    for refused in ["", "?state=pending", "?state=dead&type=nothing", "?state=dead&from=yesterday"] {
        assert_eq!(visitor.get(&format!("{DELIVERIES}/replay{refused}")).await.status, 400, "{refused}");
    }
    for refused in [&[][..], &[("state", "dead"), ("subscription", "x")]] {
        let response = visitor.post(&format!("{DELIVERIES}/replay"), refused).await;
        assert_eq!(response.status, 400, "{}", body(&response));
    }
    let rate = visitor.post(&format!("{DELIVERIES}/replay"), &[("state", "dead"), ("rate", "7")]).await;
    assert_eq!(rate.status, 400, "{}", body(&rate));
    let job = visitor.change(&format!("{DELIVERIES}/replay"), &[("state", "dead"), ("rate", "500")]).await;
    assert!(job.starts_with("/agencies/acme/replays/"), "{job}");
    until_listed("delivered", 3).await;
    let ended = visitor.until_shown(&job, &["completed", "<dd>failed for good</dd>"]).await;
    assert!(ended.contains("2 of 2") && !ended.contains("refresh") && !ended.contains("Stop"), "{ended}");
    assert!(visitor.page("/agencies/acme/replays").await.contains("2 of 2"));
    let hooks = receiver.received_at("/hook");
    assert_eq!(hooks.len(), 3 * (6 + 1), "each delivery had its attempts and was sent again once");
    assert!(visitor.page(&format!("{DELIVERIES}/replay?state=dead")).await.contains("No delivery matches"));
}

#[tokio::test]
async fn pages_of_deliveries_neither_skip_nor_repeat_any() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.viewer().await;
    let subscription = console.world.subscribe("https://93.184.215.14/hook").await["id"].clone();
    // Two of each millisecond, so that a page ends between deliveries of the same time.
    let insert = format!(
        "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
         SELECT tenant_id, ('0190000' || lpad(to_hex(n / 2), 5, '0') || '7000a000' || lpad(to_hex(n), 12, '0'))::uuid,
             gen_random_uuid(), '{}', (ARRAY['delivered', 'dead'])[1 + n % 2], now(), n
         FROM tenants, generate_series(1, 120) n WHERE slug = 'acme'",
        text(&subscription)
    );
    console.world.database.execute(&insert).await;
    for (query, expected) in [("", 120_usize), ("?state=dead", 60)] {
        let (mut path, mut seen, mut pages) = (format!("{DELIVERIES}{query}"), Vec::new(), 0);
        loop {
            let page = visitor.page(&path).await;
            let rows = page.split("<th scope=\"row\"><a href=\"/agencies/acme/deliveries/").skip(1);
            seen.extend(rows.map(|row| row.split('"').next().unwrap_or_default().to_owned()));
            pages += 1;
            let Some((before, _)) = page.split_once("\">Older</a>") else { break };
            path = before.rsplit("href=\"").next().expect("a link").replace("&amp;", "&");
        }
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!((seen.len(), unique.len(), pages), (expected, expected, expected.div_ceil(50)));
        assert!(seen.is_sorted_by(|one, next| one > next), "newest first");
    }
}

#[tokio::test]
async fn a_replay_is_watched_and_stopped_with_and_without_scripts() {
    let console = ConsoleWorld::start().await;
    let visitor = console.admin().await;
    let subscription = console.world.subscribe("https://93.184.215.14/hook").await["id"].clone();
    let insert = format!(
        "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
         SELECT tenant_id, ('01900000-0000-7000-a000-' || lpad(to_hex(n), 12, '0'))::uuid, gen_random_uuid(), '{}', 'dead', now(), n
         FROM tenants, generate_series(1, 1234) n WHERE slug = 'acme'",
        text(&subscription)
    );
    console.world.database.execute(&insert).await;
    let question = visitor.page(&format!("{DELIVERIES}/replay?state=dead")).await;
    assert!(question.contains("<strong>1\u{2009}234</strong> deliveries match"), "{question}");
    assert!(question.contains("<option value=\"50\" selected>"), "{question}");
    let job = visitor.change(&format!("{DELIVERIES}/replay"), &[("state", "dead"), ("rate", "10")]).await;
    // No dispatcher runs, so the job stays.
    let page = visitor.page(&job).await;
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>"), "{page}");
    assert!(page.contains("data-refresh=\"2\"") && page.contains("0 of 1\u{2009}234"), "{page}");
    assert!(page.contains("10 a second at most"), "{page}");
    let (path, _) = job.split_once('?').expect("a notice");
    let viewer = console.viewer().await;
    assert!(!viewer.page(path).await.contains("/stop"), "viewers stop nothing");
    let stopped = visitor.change(&format!("{path}/stop"), &[]).await;
    assert_eq!(stopped, format!("{path}?done=replay-stopped"));
    assert!(visitor.page(path).await.contains("stopping"));
    assert_eq!(visitor.change(&format!("{path}/stop"), &[]).await, path, "it was stopped before");
    let audited = "SELECT count(*) FROM audit_records WHERE action IN ('delivery.replay', 'replay.stop')
        AND interface = 'console'";
    assert_eq!(console.world.database.count(audited).await, 2);
}
