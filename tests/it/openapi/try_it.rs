//! The page signs and sends requests in the browser, if a setting allows it.

use super::{DOCS, document, get};
use crate::console::browser::accessibility::{axe, faults};
use serde_json::json;
use tests::browser::{Browser, ColorScheme, Page};
use tests::{ApiKey, MAX_WAIT, World, eventually, text};

/// Fills in a key.
async fn paste(page: &Page, key: &ApiKey) {
    for (id, value) in [("try-key", &key.prefix), ("try-tenant", &key.tenant), ("try-secret", &key.secret)] {
        page.fill(id, value).await;
    }
}

/// Chooses a request by its method and path.
async fn choose(page: &Page, request: &str) {
    let choose = format!(
        "{{ const select = document.getElementById('try-operation');
            select.value = [...select.options].find((one) => one.text.startsWith({}))?.value;
            select.dispatchEvent(new Event('change')); }}",
        json!(format!("{request}: "))
    );
    page.evaluate(&choose).await;
}

/// Sends the chosen request, and returns the response as the page shows it.
async fn send(page: &Page) -> String {
    page.evaluate("{ document.getElementById('try-result').textContent = ''; }").await;
    page.click("Sign and send").await;
    eventually("there is a response", MAX_WAIT, async || {
        let shown = page.evaluate("document.getElementById('try-result').textContent").await;
        let shown = text(&shown).to_owned();
        if shown.is_empty() || shown.starts_with("Sending") { Err(shown) } else { Ok(shown) }
    })
    .await
}

#[tokio::test]
async fn the_page_signs_requests_of_both_schemes_and_stores_nothing() {
    let world = World::with().set("CONNECT_DOCS_TRY_IT", "true").start().await;
    // The page does not repeat a request that gets 503.
    world.until_ready().await;
    let key = world.add_tenant("demo").await;
    let browser = Browser::start().await;
    let page = browser.page().await;
    assert_eq!(page.open(&format!("http://{}{DOCS}", world.http().address())).await, 200);
    paste(&page, &key).await;
    let response = send(&page).await;
    assert!(response.starts_with("200") && response.contains("\"accepted\": 1"), "{response}");
    assert!(response.contains("x-request-id: "), "{response}");

    choose(&page, "GET /api/v1/crm/connect/clients").await;
    page.fill("try-target", "/api/v1/crm/connect/clients?email=ana%40example.com").await;
    let response = send(&page).await;
    assert!(response.starts_with("200") && response.contains("\"name\": \"Ana\""), "{response}");

    choose(&page, "POST /api/v1/crm/connect/clients").await;
    page.fill("try-body", r#"{"email": "zoë@example.com", "name": "Zoë"}"#).await;
    let response = send(&page).await;
    assert!(response.starts_with("201") && response.contains("etag: "), "{response}");
    assert_eq!(page.take_complaints(), [""; 0]);

    page.fill("try-target", "https://other.example/").await;
    assert_eq!(send(&page).await, "Not sent: the target must be a path of this server");
    page.fill("try-target", "/api/v1/crm/connect/clients").await;
    page.fill("try-secret", "another").await;
    assert!(send(&page).await.starts_with("401"));

    let stored =
        "localStorage.length + sessionStorage.length + document.cookie.length + document.forms.length";
    assert_eq!(page.evaluate(stored).await, 0);
    page.open("about:blank").await;
}

#[tokio::test]
async fn the_page_violates_no_rule_of_accessibility_with_and_without_the_form() {
    let (browser, axe) = (Browser::start().await, axe().await);
    for tries in ["false", "true"] {
        let world = World::with().workers(0).set("CONNECT_DOCS_TRY_IT", tries).start().await;
        let page = browser.page().await;
        page.open(&format!("http://{}{DOCS}", world.http().address())).await;
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            page.set_colors(scheme).await;
            assert_eq!(faults(&page, &axe).await, [""; 0], "{tries} {scheme:?}");
        }
        assert_eq!(page.take_complaints(), [""; 0]);
    }
}

#[tokio::test]
async fn the_page_has_no_script_unless_the_setting_allows_it() {
    let world = World::with().workers(0).start().await;
    let served = get(&world, DOCS).await;
    let policy = served.header("content-security-policy");
    assert!(!policy.contains("script-src") && !policy.contains("connect-src"), "{policy}");
    let page = String::from_utf8_lossy(&served.body).into_owned();
    assert!(!page.contains("<script") && !page.contains("try-it"));
    assert!(!page.contains("Settings area"), "no setting names one");
}

#[tokio::test]
async fn the_page_and_the_document_link_to_the_settings_area_that_a_setting_names() {
    let url = "https://console.example.com";
    let world = World::with().workers(0).set("CONNECT_CONSOLE_URL", url).start().await;
    let page = String::from_utf8_lossy(&get(&world, DOCS).await.body).into_owned();
    assert!(page.contains(&format!("<a href=\"{url}\">Settings area</a>")), "no link");
    assert_eq!(document(&world).await["info"]["contact"]["url"], url);
}
