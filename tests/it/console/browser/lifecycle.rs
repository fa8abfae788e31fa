//! Ways through the settings area: the life of a key, an event and a webhook, from the first link to the last refusal;
//! with scripts turned off, because forms and links are plain HTML; and signing in at an identity provider, to its page
//! and back.

use super::accessibility::{axe, faults};
use super::{Person, ROLES, furnished, send};
use crate::console::ConsoleWorld;
use crate::console::identity_provider::IdentityProvider;
use crate::console::keys::until_status;
use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};
use tests::browser::Browser;
use tests::{ApiKey, Behavior, MAX_WAIT, Receiver, World, eventually, text, until_equal};

/// Reloads the page until it shows a text.
async fn until_shown(person: &Person, path: &str, wanted: &str) {
    eventually(&format!("{path} shows {wanted:?}"), MAX_WAIT, async || {
        person.open(path).await;
        let shown = person.page.text().await;
        if shown.contains(wanted) { Ok(()) } else { Err(shown) }
    })
    .await;
}

/// The key whose secret the page shows.
async fn shown_key(person: &Person) -> ApiKey {
    let (prefix, secret) = (person.value_of("Key").await, person.value_of("Secret").await);
    ApiKey { tenant: "acme".to_owned(), prefix, secret }
}

/// Creates a key, and checks that its secret is shown once.
async fn create_key(person: &Person) -> ApiKey {
    person.page.follow("API keys").await;
    person.page.follow("Create a key").await;
    person.page.fill("name", "Web site").await;
    person.page.follow("Create the key").await;
    person.sees("It is shown once and cannot be read again.").await;
    let key = shown_key(person).await;
    person.page.follow("To the key").await;
    let source = person.page.evaluate("document.documentElement.outerHTML").await;
    assert!(!text(&source).contains(&key.secret), "the secret is shown again: {source}");
    key
}

/// Creates a subscription for a receiver, and returns the path of its page.
async fn create_webhook(person: &Person, url: &str) -> String {
    person.page.follow("Webhooks").await;
    person.page.follow("Create a subscription").await;
    person.page.fill("url", url).await;
    person.page.follow("Create the subscription").await;
    assert!(person.value_of("Secret").await.starts_with("whsec_"));
    person.page.follow("To the subscription").await;
    person.page.path().await
}

/// Makes the timers of pages ten times faster, so that nobody waits for a refresh, and notes their intervals.
const FASTER_TIMERS: &str = "{
    const start = setInterval;
    window.intervals = [];
    window.setInterval = (act, every) => { window.intervals.push(every); return start(act, every / 10); };
}";

/// Checks that the list of deliveries shows times of the reader's zone, and follows what happens every five seconds unless it
/// is hidden.
async fn check_list(person: &Person, mut cause_delivery: impl AsyncFnMut()) {
    person.page.add_script(FASTER_TIMERS).await;
    person.open("/agencies/acme/deliveries").await;
    let hide = "{ const get = () => { window.looks += 1; return true; };
        Object.defineProperty(document, 'hidden', { configurable: true, get });
        window.looks = 0; }";
    person.page.evaluate(hide).await;
    let time = "(({ dateTime, title, textContent }) => [dateTime, title, textContent])(document.querySelector('main td time'))";
    let shown = person.page.evaluate(time).await;
    let at = DateTime::parse_from_rfc3339(text(&shown[0])).expect("a time") + TimeDelta::minutes(330);
    let (exact, relative) = (text(&shown[1]), text(&shown[2]));
    assert!(exact.contains(&at.format("%-d %B %Y at %H:%M:%S GMT+5:30").to_string()), "{shown}");
    assert!(relative.contains(&at.format("%H:%M \u{b7} ").to_string()), "{shown}");
    assert!(relative.ends_with(" ago") || relative.ends_with("just now"), "{shown}");

    let intervals = person.page.evaluate("window.intervals").await;
    assert!(intervals.as_array().is_some_and(|all| all.contains(&json!(5000))), "{intervals}");
    let count = async || person.page.evaluate("document.querySelectorAll('main tbody tr').length").await;
    assert_eq!(count().await, 1);
    cause_delivery().await;
    let has_looked = async || person.page.evaluate("window.looks > 1").await;
    until_equal("the page looks whether it is hidden", true, has_looked).await;
    assert_eq!(count().await, 1, "a hidden page stays as it is");
    person.page.evaluate("delete document.hidden").await;
    until_equal("the deliveries are shown", 2, count).await;
    person.open("/agencies/acme/deliveries?from=2026-05-01T10:00").await;
    person.sees("Event from (your time)").await;
    assert_eq!(person.page.evaluate("document.getElementById('from').value").await, "2026-05-01T15:30");
    person.page.follow("Show").await;
    assert!(person.page.path().await.contains("from=2026-05-01T10%3A00"));
}

#[tokio::test]
async fn a_key_and_a_webhook_live_from_their_creation_to_their_end() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let console = ConsoleWorld::of(builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    let (world, browser) = (&console.world, Browser::start().await);
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500).with_body("the disk is full"));
    let person = Person::at(&console, &browser).await;
    person.page.set_time_zone("Asia/Kolkata").await;
    person.sign_in(&console, ROLES[1]).await;

    let key = create_key(&person).await;
    let subscription = create_webhook(&person, &receiver.url("/hook")).await;
    until_status(world, &key, 200).await;
    let result = send(world, &key, "from-the-site-1").await;

    // The event is found by its id, with the enquiry that it opened.
    until_shown(&person, "/agencies/acme/find?id=from-the-site-1", "enquiry").await;
    let links = person.links().await;
    let lead = format!("/agencies/acme/leads/{}", text(&result["leadId"]));
    assert!(links.contains(&lead), "{lead}: {links:?}");

    // The failure is seen, its cause is corrected, and the delivery is sent again.
    until_shown(&person, "/agencies/acme/deliveries?state=dead", "status 500").await;
    person.page.follow("lead.assigned").await;
    person.sees("the disk is full").await;
    let delivery = person.page.path().await;
    receiver.respond_to_all(Behavior::status(204));
    person.page.follow("Send it again").await;
    person.sees("The delivery is being sent again.").await;
    until_shown(&person, &delivery, "status 204").await;
    check_list(&person, async || drop(send(world, &key, "from-the-site-2").await)).await;
    person.open(&subscription).await;
    person.sees("Health").await;
    // The page is refreshed, and can be copied from all the same.
    person
        .page
        .evaluate("{ document.activeElement.blur(); document.querySelector('main').dataset.old = 'yes'; }")
        .await;
    let is_old = async || person.page.evaluate("!!document.querySelector('main').dataset.old").await;
    until_equal("the page is as it was", false, is_old).await;
    assert_eq!(person.page.evaluate("document.querySelectorAll('main .copy').length").await, 1);
    // What somebody has ticked stays: the page looks whether it may be refreshed, and does not ask for another.
    let tick = "(() => {
        window.looks = window.fetches = 0;
        const [look, load] = [window.getSelection, window.fetch];
        window.getSelection = () => { window.looks += 1; return look.call(window); };
        window.fetch = (...all) => { window.fetches += 1; return load(...all); };
        document.querySelector('main input[type=checkbox]').click();
    })()";
    person.page.evaluate(tick).await;
    let has_looked = async || person.page.evaluate("window.looks > 0").await;
    until_equal("the page looks whether it may be refreshed", true, has_looked).await;
    assert_eq!(person.page.evaluate("window.fetches").await, 0);
    let value = "((chart) => {
        chart.focus();
        return [chart.querySelector('g:last-of-type time').dateTime, chart.closest('figure').querySelector('output').textContent];
    })(document.querySelector('[data-chart]'))";
    let value = person.page.evaluate(value).await;
    let at = DateTime::parse_from_rfc3339(text(&value[0])).expect("a time") + TimeDelta::minutes(330);
    assert!(text(&value[1]).starts_with(&at.format("%H:%M: ").to_string()), "{value}");
    assert!(text(&value[1]).contains(" delivered, "), "{value}");

    // A new secret without an overlap: the old one is refused, the new one accepted.
    person.open(&format!("/agencies/acme/keys/{}", key.prefix)).await;
    person.page.evaluate("document.getElementById('overlap').value = ''").await;
    person.page.follow("Create a new secret").await;
    let rotated = shown_key(&person).await;
    assert_ne!(rotated.secret, key.secret);
    until_status(world, &key, 401).await;
    until_status(world, &rotated, 200).await;

    person.open(&format!("/agencies/acme/keys/{}", key.prefix)).await;
    person.page.follow("Revoke the key").await;
    person.page.follow("Revoke the key for good").await;
    person.sees("The key was revoked.").await;
    until_status(world, &rotated, 401).await;

    assert_eq!(person.page.take_complaints(), [""; 0]);
    person.page.follow("Sign out").await;
    person.open(&delivery).await;
    assert_eq!(person.page.path().await, "/sign-in", "a page needs a session");
}

/// Checks that each row of a list has one line, and that a window of 800 pixels leaves out columns.
async fn check_lines(person: &Person) {
    let lists = ["deliveries", "keys", "webhooks", "audit", "pipeline", "refusals"];
    for (width, path) in [800, 1280].into_iter().flat_map(|width| lists.map(|path| (width, path))) {
        person.page.set_size(width, 900).await;
        person.open(&format!("/agencies/acme/{path}")).await;
        let heights = "[...document.querySelectorAll('main tbody tr')].map((row) => row.offsetHeight)";
        let heights = person.page.evaluate(heights).await;
        let is_line = |height: &Value| height.as_u64().is_some_and(|height| height < 50);
        let all = heights.as_array().expect("heights");
        assert!(!all.is_empty() && all.iter().all(is_line), "{path} at {width}: {heights}");
        let minor = person.page.evaluate("document.querySelector('th[data-minor]').checkVisibility()").await;
        assert_eq!(minor, width == 1280, "{path}");
    }
}

/// Checks that on a phone the menu is folded until it is opened with a key, or with a finger, and that each row of a table is a card.
async fn check_phone(person: &Person) {
    const PAGE: &str = "/agencies/acme/deliveries";
    let layout = "(() => {
        const of = (selector, pseudo) => getComputedStyle(document.querySelector(selector), pseudo);
        return [of('main tbody tr').display, of('main thead').display, of('main td', '::before').content].join();
    })()";
    let is_open = async || person.page.evaluate("document.querySelector('.folded').checkVisibility()").await;
    assert_eq!(person.open(PAGE).await, 200);
    assert_eq!(person.page.evaluate(layout).await, "table-row,table-header-group,none");
    assert_eq!(is_open().await, true);

    person.page.set_size(390, 844).await;
    person.open(PAGE).await;
    assert_eq!(person.page.evaluate(layout).await, "block,none,\"State: \"");
    assert_eq!(is_open().await, false);
    // Before it are the link to the content and the title.
    for _ in 0..3 {
        person.page.press("Tab").await;
    }
    person.page.press(" ").await;
    assert_eq!(is_open().await, true);
    person.page.click("Menu").await;
    assert_eq!(is_open().await, false);
    person.page.click("Menu").await;
    person.page.follow("API keys").await;
    assert_eq!(person.page.path().await, "/agencies/acme/keys");
    assert_eq!(is_open().await, false, "another page has its menu folded");
    person.page.set_size(1280, 900).await;
}

#[tokio::test]
async fn the_main_paths_work_without_scripts() {
    let (console, receiver) = furnished().await;
    let browser = Browser::start().await;
    let person = Person::at(&console, &browser).await;
    person.page.disable_scripts().await;
    person.sign_in(&console, ROLES[1]).await;
    assert_eq!(person.page.evaluate("document.querySelectorAll('.copy').length").await, 0, "scripts are off");
    let refused = "INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, body_bytes, detail)
        SELECT tenant_id, gen_random_uuid(), 'ck_1', now(), 'POST', '/api/v1/crm/connect/clients', 401,
               'secret_or_text_differs', 0, repeat('a long text ', 20) FROM tenants, generate_series(1, 2)";
    console.world.database.execute(refused).await;
    check_lines(&person).await;
    check_phone(&person).await;

    person.page.follow("API keys").await;
    person.page.follow("Create a key").await;
    person.page.follow("Create the key").await;
    let focused = async || person.page.evaluate("document.activeElement.id").await;
    until_equal("the field with the first fault has the focus", "name", focused).await;
    let complaints = person.page.take_complaints();
    assert!(complaints.iter().all(|one| one.contains("status of 422")), "{complaints:?}");
    person.page.fill("name", "Plain").await;
    person.page.follow("Create the key").await;
    let key = person.value_of("Key").await;
    person.page.follow("To the key").await;
    person.page.follow("Create a new secret").await;
    person.sees("The secret was replaced").await;
    person.page.follow("To the key").await;
    person.page.follow("End the overlap now").await;
    person.sees("The old secret is no longer valid.").await;
    person.page.follow("Revoke the key").await;
    person.page.follow("Revoke the key for good").await;
    person.sees("Revoked").await;
    let audit = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    let revoked = audit.iter().any(|record| record["action"] == "key.revoke" && text(&record["target"]) == key);
    assert!(revoked, "{audit:?}");

    receiver.respond("/down", tests::Behavior::status(204));
    person.open("/agencies/acme/deliveries?state=dead").await;
    person.page.follow("Replay everything that matches").await;
    person.page.follow("Send them again").await;
    person.sees("The replay was created.").await;
    console.world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'dead'", 0).await;
    person.page.follow("Sign out").await;
    assert_eq!(person.page.path().await, "/sign-in");
    assert_eq!(person.page.take_complaints(), [""; 0]);
}

#[tokio::test]
async fn a_person_signs_in_at_the_provider_and_comes_back() {
    let provider = IdentityProvider::with(&["--user", "zoe"]).await;
    provider
        .set_user("ana", &json!({"email": "ana@example.com", "email_verified": true, "groups": ["acme-admins"]}))
        .await;
    let console = provider.console().await;
    let (browser, axe) = (Browser::start().await, axe().await);
    let person = Person::at(&console, &browser).await;
    assert_eq!(person.open("/agencies/acme/keys").await, 200);
    assert_eq!(person.page.path().await, "/sign-in");
    assert_eq!(faults(&person.page, &axe).await, [""; 0]);
    assert_eq!(person.page.take_complaints(), [""; 0]);

    person.page.follow("Sign in with 127.0.0.1").await;
    person.page.follow("zoe").await;
    person.sees("None of your groups gives access to Connect").await;
    assert_eq!(faults(&person.page, &axe).await, [""; 0]);

    person.page.follow("Other ways to sign in").await;
    person.page.follow("Sign in with 127.0.0.1").await;
    person.page.evaluate("document.querySelector('input[name=sub]').value = 'ana'").await;
    person.page.follow("Authorize").await;
    assert_eq!(person.page.path().await, "/agencies/acme", "signed in, without the code in the address");
    person.sees("ana@example.com").await;
    person.page.follow("Partners").await;
    person.page.fill("partner", "dev@partner.example").await;
    person.page.follow("Create the link").await;
    let link = person.value_of("Link").await;
    assert_eq!(faults(&person.page, &axe).await, [""; 0]);

    let partner = Person::at(&console, &browser).await;
    assert_eq!(partner.page.open(&link).await, 200);
    partner.page.follow("Sign in").await;
    partner.sees("dev@partner.example").await;
    person.page.follow("To the partners").await;
    person.page.follow("End the access of all partners").await;
    person.sees("All links and sessions of partners were ended.").await;
    partner.page.follow("API keys").await;
    assert_eq!(partner.page.path().await, "/sign-in");
    assert_eq!(partner.page.take_complaints(), [""; 0]);
}
