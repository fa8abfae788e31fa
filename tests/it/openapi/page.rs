//! The page in a real browser.

use super::{DOCS, document, endpoints, get};
use serde_json::json;
use tests::browser::{Browser, Page};
use tests::{ApiKey, HttpClient, MAX_WAIT, World, eventually, text, until_equal};

/// Opens the page, and waits until Swagger UI shows all operations.
async fn open(browser: &Browser, ingest: &HttpClient) -> Page {
    let page = browser.page().await;
    assert_eq!(page.open(&format!("http://{}{DOCS}", ingest.address())).await, 200);
    until_equal("the operations are shown", 14 + 7, async || {
        page.evaluate("document.querySelectorAll('.opblock').length").await
    })
    .await;
    page
}

/// Has an operation sent with these changes of its fields, and returns the response as the page shows it, which must begin with
/// `expected`. Opens the operation unless it is open.
async fn send(page: &Page, id: &str, fields: &[(&str, &str)], expected: &str) -> String {
    let operation = format!("document.querySelector('[id$=\"-{id}\"]')");
    let click = async |selector: &str| {
        eventually("there is a button", MAX_WAIT, async || {
            let find = format!("const button = {operation}.querySelector('{selector}')");
            let button = format!("(() => {{ {find}; button?.click(); return !!button; }})()");
            if page.evaluate(&button).await == true { Ok(()) } else { Err(selector.to_owned()) }
        })
        .await;
    };
    if page.evaluate(&format!("{operation}.classList.contains('is-open')")).await == false {
        click(".opblock-control-arrow").await;
        click(".try-out__btn:not(.cancel)").await;
    }
    for (selector, value) in fields {
        // React notices a change only if the element's own setter made it.
        let set = format!(
            "{{ const field = {operation}.querySelector({}); const own = Object.getPrototypeOf(field);
                Object.getOwnPropertyDescriptor(own, 'value').set.call(field, {});
                field.dispatchEvent(new Event('input', {{ bubbles: true }})); }}",
            json!(selector),
            json!(value)
        );
        page.evaluate(&set).await;
    }
    click(".execute").await;
    let shown = eventually("there is a response", MAX_WAIT, async || {
        let shown = format!("{operation}.querySelector('.live-responses-table .response')?.innerText ?? ''");
        let shown = text(&page.evaluate(&shown).await).to_owned();
        if !shown.is_empty() && shown.starts_with(expected) { Ok(shown) } else { Err(shown) }
    });
    shown.await
}

async fn paste(page: &Page, key: &ApiKey) {
    for (id, value) in [("try-key", &key.prefix), ("try-tenant", &key.tenant), ("try-secret", &key.secret)] {
        page.fill(id, value).await;
    }
}

#[tokio::test]
async fn the_page_shows_every_operation_and_sends_signed_requests_only_where_that_is_set() {
    let url = "https://console.example.com";
    let mut world = World::with().set("CONNECT_CONSOLE_URL", url).start().await;
    let browser = Browser::start().await;
    let page = open(&browser, world.http()).await;
    let document = document(&world).await;
    assert_eq!(document["info"]["contact"]["url"], url);
    let shown = page.text().await;
    for (path, method, operation) in endpoints(&document) {
        assert!(shown.contains(text(&operation["summary"])) && shown.contains(&method), "{path}");
    }
    for kind in document["webhooks"].as_object().expect("webhooks").keys() {
        assert!(shown.contains(kind.as_str()), "{kind}");
    }
    // One operation: a browser takes half a minute to show the details of all.
    page.evaluate("document.querySelector('.opblock-control-arrow').click()").await;
    let details = "document.querySelectorAll('.opblock.is-open .parameters-container').length";
    until_equal("the details are shown", 1, async || page.evaluate(details).await).await;
    let buttons =
        "document.querySelectorAll('.try-out__btn, .authorize, .authorization__btn, input[type=password]').length";
    assert_eq!(page.evaluate(buttons).await, 0);
    assert_eq!(page.evaluate(&format!("document.querySelectorAll('a[href^=\"{url}\"]').length")).await, 1);
    assert_eq!(page.take_complaints(), [""; 0]);
    let policy = get(&world, DOCS).await.header("content-security-policy").to_owned();
    assert!(!policy.contains("connect-src"), "{policy}");

    world.set("CONNECT_DOCS_TRY_IT", "true");
    world.add_ingest().await;
    // The page does not repeat a request that gets 503.
    world.until_ready().await;
    let key = world.add_tenant("demo").await;
    let page = open(&browser, world.ingests[1].http()).await;
    assert!(send(&page, "findLeads", &[], "").await.contains("paste a key and its secret first"));
    paste(&page, &key).await;
    let response = send(&page, "sendEvents", &[], "200").await;
    assert!(response.contains("\"accepted\": 1") && response.contains("x-request-id: "), "{response}");

    let response = send(&page, "findLeads", &[], "200").await;
    assert!(response.contains("\"externalId\": \"order-4711\""), "{response}");

    let body = r#"{"email": "zoë@example.com", "name": "Zoë"}"#;
    let fields = [("tr[data-param-name=Idempotency-Key] input", "k-1"), ("textarea.body-param__text", body)];
    let response = send(&page, "createClient", &fields, "201").await;
    assert!(response.contains("etag: "), "{response}");
    assert_eq!(page.take_complaints(), [""; 0]);

    page.fill("try-secret", "another").await;
    send(&page, "findLeads", &[], "401").await;
    let stored = "localStorage.length + sessionStorage.length + document.cookie.length";
    assert_eq!(page.evaluate(stored).await, 0);
    page.open("about:blank").await;
}
