//! The settings area with scripts turned off: everything works, because forms and links are plain HTML.

use super::{Person, ROLES, furnished};
use tests::browser::Browser;
use tests::text;

#[tokio::test]
async fn the_main_paths_work_without_scripts() {
    let (console, receiver) = furnished().await;
    let browser = Browser::start().await;
    let person = Person::at(&console, &browser).await;
    person.page.disable_scripts().await;
    person.sign_in(&console, ROLES[1]).await;
    let copied = person.page.evaluate("document.querySelectorAll('.copy').length").await;
    assert_eq!(copied, 0, "scripts are off");

    person.page.follow("API keys").await;
    person.page.follow("Create a key").await;
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
    let revoked =
        audit.iter().any(|record| record["action"] == "key.revoke" && text(&record["target"]) == key);
    assert!(revoked, "{audit:?}");

    receiver.respond("/down", tests::Behavior::status(204));
    person.open("/agencies/acme/deliveries?state=dead").await;
    person.page.follow("Replay everything that matches").await;
    person.page.follow("Send them again").await;
    person.sees("The deliveries are being sent again.").await;
    console.world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'dead'", 0).await;
    person.page.follow("Sign out").await;
    assert_eq!(person.page.path().await, "/sign-in");
    assert_eq!(person.page.take_complaints(), [""; 0]);
}
