//! Signing in at an identity provider, as people do: to its page and back.

use super::Person;
use super::accessibility::{axe, faults};
use crate::console::identity_provider::IdentityProvider;
use serde_json::json;
use tests::browser::Browser;

#[tokio::test]
async fn a_person_signs_in_at_the_provider_and_comes_back() {
    let provider = IdentityProvider::with(&["--user", "zoe"]).await;
    provider
        .set_user(
            "ana",
            &json!({"email": "ana@example.com", "email_verified": true, "groups": ["acme-admins"]}),
        )
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
    person.page.follow("Agency").await;
    person.sees("Partners").await;
    person.page.fill("partner", "dev@partner.example").await;
    person.page.follow("Create the link").await;
    let link = person.value_of("Link").await;
    assert_eq!(faults(&person.page, &axe).await, [""; 0]);

    let partner = Person::at(&console, &browser).await;
    assert_eq!(partner.page.open(&link).await, 200);
    partner.page.follow("Sign in").await;
    partner.sees("dev@partner.example").await;
    person.page.follow("To the agency").await;
    person.page.follow("End the access of all partners").await;
    person.sees("All links and sessions of partners were ended.").await;
    partner.page.follow("API keys").await;
    assert_eq!(partner.page.path().await, "/sign-in");
    assert_eq!(partner.page.take_complaints(), [""; 0]);
}
