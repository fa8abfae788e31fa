//! The settings area in Chromium, as people use it: by its links, buttons and fields.

pub(crate) mod accessibility;
mod keyboard;
mod lifecycle;
mod pages;

use super::ConsoleWorld;
use serde_json::Value;
use tests::browser::{Browser, Page};
use tests::{ApiKey, Behavior, Receiver, World, event, text, until};

/// Somebody at a browser.
pub(super) struct Person {
    pub(super) page: Page,
    base: String,
}

impl Person {
    /// Somebody who has not opened the console yet.
    pub(super) async fn at(console: &ConsoleWorld, browser: &Browser) -> Self {
        let base = format!("http://{}", console.http().address());
        Self { page: browser.page().await, base }
    }

    /// Somebody who has signed in with a link of these options.
    pub(super) async fn signed_in(console: &ConsoleWorld, browser: &Browser, options: &[&str]) -> Self {
        let person = Self::at(console, browser).await;
        person.sign_in(console, options).await;
        person
    }

    pub(super) async fn sign_in(&self, console: &ConsoleWorld, options: &[&str]) {
        assert_eq!(self.open(&console.link(options).await).await, 200);
        self.page.follow("Sign in").await;
        assert_eq!(self.page.status().await, 200, "{}", self.page.text().await);
    }

    pub(super) async fn open(&self, path: &str) -> u16 {
        self.page.open(&format!("{}{path}", self.base)).await
    }

    /// Checks that the page shows a text.
    pub(super) async fn sees(&self, text: &str) {
        let shown = self.page.text().await;
        assert!(shown.contains(text), "{}: no {text:?} in {shown}", self.page.path().await);
    }

    /// The text of the element after the term of this name, such as a key or a secret.
    pub(super) async fn value_of(&self, term: &str) -> String {
        let find = format!(
            "[...document.querySelectorAll('dt')].find((one) => one.textContent === {term:?})
                .nextElementSibling.querySelector('code').textContent"
        );
        text(&self.page.evaluate(&find).await).to_owned()
    }

    /// The same-origin paths that the page links to.
    pub(super) async fn links(&self) -> Vec<String> {
        let all = "[...document.querySelectorAll('a[href]')].map((link) => new URL(link.href))
            .filter((url) => url.origin === location.origin && url.hash === '').map((url) => url.pathname + url.search)";
        let found = self.page.evaluate(all).await;
        found.as_array().expect("links").iter().map(|link| text(link).to_owned()).collect()
    }
}

/// The options of `connectctl console login` for each role.
pub(super) const ROLES: [&[&str]; 3] =
    [&["--role", "viewer", "--tenant", "acme"], &["--role", "admin", "--tenant", "acme"], &["--role", "operator"]];

/// A console with one of everything that its pages show: a key, enquiries, a receiver that fails and one that is
/// paused, dead letters, a member, usage.
pub(super) async fn furnished() -> (ConsoleWorld, Receiver) {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let console = ConsoleWorld::of(builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    let world = &console.world;
    let receiver = Receiver::http();
    receiver.respond("/down", Behavior::status(500).with_body("no such table"));
    for path in ["/hook", "/down"] {
        world.subscribe(&receiver.url(path)).await;
    }
    let paused = world.subscribe(&receiver.url("/paused")).await;
    world.connectctl.json(&["subscription", "pause", text(&paused["id"])]).await;
    for number in 0..3 {
        world.accept(event("enquiry.submitted").email(&format!("ana{number}@example.com")).name("Ana")).await;
    }
    let dead = "SELECT count(*) FROM deliveries WHERE state = 'dead'";
    let count = async || world.database.count(dead).await;
    until("the receiver's deliveries are dead-lettered", count, |&count| count > 0).await;
    let insert = "INSERT INTO usage_counters (tenant_id, month, writes)
     SELECT tenant_id, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 1234 FROM tenants WHERE slug = 'acme'";
    world.database.execute(insert).await;
    (console, receiver)
}

/// The ids of what the event of this id has caused.
pub(super) async fn send(world: &World, key: &ApiKey, id: &str) -> Value {
    let sent = event("enquiry.submitted").id(id).email("bea@example.com").name("Bea");
    world.http().send(&key.events(tests::event::batch(&[sent]))).await.assert_status(200).json()["results"][0].clone()
}
