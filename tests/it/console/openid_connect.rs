//! Signing in by OpenID Connect, at a real provider.

use super::identity_provider::IdentityProvider;
use super::{ConsoleWorld, Visitor, between, body};
use serde_json::json;
use tests::{HttpResponse, text};

const BEGIN: &str = "/sign-in/oidc";

/// Begins a sign-in: keeps the cookie, and returns the URL at the provider.
pub(super) async fn begin(visitor: &mut Visitor<'_>) -> String {
    let response = visitor.get(BEGIN).await;
    assert_eq!(response.status, 303, "{}", body(&response));
    let (url, cookie) = (response.header("location").to_owned(), response.header("set-cookie"));
    let name = format!("connect-sign-in-{}=", &between(&url, "&state=", "&")[..8]);
    assert!(cookie.starts_with(&name), "{cookie}");
    assert!(cookie.contains("; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
    visitor.keep_cookies(&response);
    url
}

/// Opens a page as a browser does: with its cookies, which the response may change.
async fn open(visitor: &mut Visitor<'_>, path: &str) -> HttpResponse {
    let response = visitor.get(path).await;
    visitor.keep_cookies(&response);
    response
}

/// Signs in as a user of the provider. Keeps the cookie of the session, if there is one.
async fn sign_in(provider: &IdentityProvider, visitor: &mut Visitor<'_>, user: &str) -> HttpResponse {
    let url = begin(visitor).await;
    open(visitor, &provider.authorize(&url, user).await).await
}

/// The sign-in was refused: nothing is stored, and the page says so and names the request.
async fn assert_refused(console: &ConsoleWorld, response: &HttpResponse, reason: &str) {
    let page = body(response);
    assert_eq!(response.status, 403, "{page}");
    assert!(page.contains(reason) && page.contains(response.header("x-request-id")), "{reason}: {page}");
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 0, "{reason}");
}

#[tokio::test]
async fn people_sign_in_with_the_rights_of_their_group_and_others_are_refused_and_recorded() {
    let provider = IdentityProvider::start().await;
    let console = provider.console().await;
    refuses_people_without_a_mapped_group(&provider, &console).await;
    assert!(console.visitor().page("/sign-in").await.contains("Sign in with 127.0.0.1"));
    for (id, groups, page, role) in [
        ("id-ana", json!(["other", "connect-operators"]), "/", "operator"),
        ("id-bo", json!(["acme-staff", "acme-admins"]), "/agencies/acme", "admin"),
        ("id-cy", json!("acme-staff"), "/agencies/acme", "viewer"),
    ] {
        let email = format!("{id}@example.com");
        provider.set_user(id, &json!({"email": email, "email_verified": true, "groups": groups})).await;
        let mut visitor = console.visitor();
        let response = sign_in(&provider, &mut visitor, id).await;
        assert_eq!((response.status, response.header("location")), (303, "/"), "{}", body(&response));
        let shown = visitor.page(page).await;
        assert!(shown.contains(&email) && shown.contains(&format!("Role: {role}")), "{shown}");
    }
    let records = console.world.connectctl.list(&["audit"]).await;
    let signed_in: Vec<_> = records.iter().filter(|record| record["action"] == "console.sign-in").collect();
    assert_eq!(signed_in.len(), 3, "{records:?}");
    assert_eq!(signed_in[1]["who"], "id-bo@example.com (admin)");
    let expected = (&json!("admin by openid-connect"), &json!("acme"));
    assert_eq!((&signed_in[1]["target"], &signed_in[1]["tenant"]), expected);

    // What a person does is recorded under their name. An email that the provider has not verified may be somebody else's.
    let claims = json!({"email": "boss@example.com", "email_verified": false, "groups": ["acme-admins"]});
    provider.set_user("id-eve", &claims).await;
    let mut visitor = console.visitor();
    sign_in(&provider, &mut visitor, "id-eve").await;
    visitor.change("/agencies/acme/settings", &[("discovery", "true")]).await;
    let records = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    let last = records.last().expect("a record");
    let expected = ("tenant.set", "id-eve (email not verified: boss@example.com) (admin)");
    assert_eq!((text(&last["action"]), text(&last["who"])), expected);
}

async fn refuses_people_without_a_mapped_group(provider: &IdentityProvider, console: &ConsoleWorld) {
    for (id, groups, why) in [
        ("id-1", json!(["somebody", "Connect-Operators"]), "none of their groups gives access"),
        ("id-2", json!([]), "none of their groups gives access"),
        ("id-3", json!(["lost"]), "their group is that of tenant \"nobody\", which does not exist"),
    ] {
        provider
            .set_user(id, &json!({"email": "<b>zoe</b>@example.com", "email_verified": true, "groups": groups}))
            .await;
        let response = sign_in(provider, &mut console.visitor(), id).await;
        assert_refused(console, &response, "None of your groups gives access to Connect").await;
        assert!(body(&response).contains("&lt;b&gt;zoe&lt;/b&gt;@example.com"));
        let records = console.world.connectctl.list(&["audit"]).await;
        let last = records.last().expect("a record");
        let expected = ("console.sign-in-refused", "<b>zoe</b>@example.com");
        assert_eq!((text(&last["action"]), text(&last["who"])), expected);
        assert_eq!(last["target"], format!("openid-connect: {why}"));
    }
}

#[tokio::test]
async fn a_sign_in_is_completed_once_and_only_by_the_browser_that_began_it() {
    let mut provider = IdentityProvider::start().await;
    let console = provider.console().await;
    for user in ["ana", "bo", "cy"] {
        provider.set_user(user, &json!({"groups": ["connect-operators"]})).await;
    }
    requests_have_state_nonce_and_pkce_of_their_own(&provider, &console).await;
    refuses_other_browsers(&provider, &console).await;
    console.world.database.execute("DELETE FROM console_sessions").await;
    refuses_tokens_and_answers_of_no_sign_in(&provider, &console).await;
    console.world.database.execute("DELETE FROM console_sessions; DELETE FROM console_spent_sign_ins").await;
    repeats_no_sign_in(&provider, &console).await;
    links_work_without_the_provider(&mut provider, &console).await;
}

async fn requests_have_state_nonce_and_pkce_of_their_own(provider: &IdentityProvider, console: &ConsoleWorld) {
    let (first, second) = (begin(&mut console.visitor()).await, begin(&mut console.visitor()).await);
    let base = console.http().address();
    for url in [&first, &second] {
        assert!(
            url.starts_with(&format!("{}/oauth2/authorize?response_type=code&client_id=connect&", provider.issuer()))
        );
        assert!(url.contains("&code_challenge_method=S256&") && url.contains("&scope=openid+email+profile&"), "{url}");
        let callback = format!("&redirect_uri=http%3A%2F%2F127.0.0.1%3A{}%2Fsign-in%2Foidc%2Fcallback&", base.port());
        assert!(url.contains(&callback), "{url}");
        assert!(!url.contains("client-secret-of-the-test"));
    }
    for name in ["state", "nonce", "code_challenge"] {
        let value = |url: &str| {
            let found = url.split(['?', '&']).find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            found.expect(name).to_owned()
        };
        assert!(value(&first).len() == 43 && value(&first) != value(&second), "{name}");
    }
}

async fn refuses_other_browsers(provider: &IdentityProvider, console: &ConsoleWorld) {
    let (mut attacker, mut victim) = (console.visitor(), console.visitor());
    let theirs = provider.authorize(&begin(&mut attacker).await, "ana").await;
    let began = "This browser has not begun this sign-in";
    assert_refused(console, &victim.get(&theirs).await, began).await;
    let own = begin(&mut victim).await;
    let foreign = victim.get(&theirs).await;
    assert_refused(console, &foreign, began).await;
    assert_eq!(foreign.header("set-cookie"), "", "the victim's own sign-in goes on");
    let state = between(&own, "&state=", "&");
    let guessed = theirs.replace(between(&format!("{theirs}&"), "state=", "&"), "AAAA");
    for wrong in [&guessed, "/sign-in/oidc/callback", &format!("/sign-in/oidc/callback?state={state}x&code=a")] {
        assert_refused(console, &victim.get(wrong).await, began).await;
    }
    // Another value that is as long as a real one, and an expired one.
    let name = format!("connect-sign-in-{}", &between(&format!("{theirs}&"), "state=", "&")[..8]);
    for value in [format!("9999999999.{}", "A".repeat(43)), "1.A".to_owned()] {
        victim.cookie = Some(format!("{name}={value}"));
        assert_refused(console, &victim.get(&theirs).await, began).await;
    }
    assert_eq!(attacker.get(&theirs).await.status, 303, "the code itself was not used up");
}

async fn repeats_no_sign_in(provider: &IdentityProvider, console: &ConsoleWorld) {
    let mut visitor = console.visitor();
    let url = begin(&mut visitor).await;
    let callback = provider.authorize(&url, "bo").await;
    // A page that is loaded again while it is loaded, and later without the cookie of its response.
    let (first, again) = tokio::join!(visitor.get(&callback), visitor.get(&callback));
    for again in [again, visitor.get(&callback).await] {
        assert_eq!((first.status, again.status), (303, 303), "{}", body(&again));
        assert_eq!(first.header("set-cookie"), again.header("set-cookie"), "the same session");
    }
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 1);
    console.world.database.execute("DELETE FROM console_sessions").await;
    assert_refused(console, &visitor.get(&callback).await, "is not valid for this sign-in").await;
    // The provider gives a new code for the old state, nonce and challenge.
    let again = provider.authorize(&url, "bo").await;
    assert_refused(console, &visitor.get(&again).await, "was completed before").await;
    let spent = "SELECT count(*) FROM console_spent_sign_ins WHERE expires_at <= now() + interval '10 minutes'";
    assert_eq!(console.world.database.count(spent).await, 1);
    let update = "UPDATE console_spent_sign_ins SET expires_at = now() - interval '1 minute'";
    console.world.database.execute(update).await;
    assert_eq!(sign_in(provider, &mut console.visitor(), "bo").await.status, 303);
    assert_eq!(console.world.database.count(spent).await, 1, "the expired one was removed");
}

async fn refuses_tokens_and_answers_of_no_sign_in(provider: &IdentityProvider, console: &ConsoleWorld) {
    let mut visitor = console.visitor();
    let url = begin(&mut visitor).await;
    let nonce = format!("nonce={}", between(&format!("{url}&"), "nonce=", "&"));
    for forged in [url.replace(&nonce, "nonce=other"), url.replace(&format!("&{nonce}"), "")] {
        let callback = provider.authorize(&forged, "cy").await;
        assert_refused(console, &visitor.get(&callback).await, "answer can't be used: nonce").await;
    }
    let of_another_client = provider.authorize(&url.replace("client_id=connect", "client_id=other"), "cy").await;
    assert_refused(console, &visitor.get(&of_another_client).await, "is not valid for this sign-in").await;
    let state = between(&format!("{url}&"), "state=", "&").to_owned();
    let unknown = format!("/sign-in/oidc/callback?code=unknown&state={state}");
    assert_refused(console, &visitor.get(&unknown).await, "is not valid for this sign-in").await;
    let declined = format!("{}&state={state}&error_description=Call+0800", provider.decline(&url).await);
    let response = visitor.get(&declined).await;
    assert_refused(console, &response, "has not signed you in").await;
    assert!(response.header("set-cookie").ends_with("Max-Age=0"), "the sign-in is over");
    assert!(!body(&response).contains("Call 0800"), "the words of whoever made the URL are not shown");
    let mixed_up = format!("{}&iss=https://attacker.example", provider.authorize(&url, "cy").await);
    assert_refused(console, &visitor.get(&mixed_up).await, "the provider's answer can't be used: iss").await;
    // The provider asks for patience: the same callback may be loaded again.
    let url = begin(&mut visitor).await;
    let state = between(&format!("{url}&"), "state=", "&").to_owned();
    let busy = format!("/sign-in/oidc/callback?error=temporarily_unavailable&state={state}");
    let response = visitor.get(&busy).await;
    assert_eq!((response.status, response.header("set-cookie")), (503, ""), "{}", body(&response));
    let callback = provider.authorize(&url, "cy").await;
    assert_eq!(visitor.get(&callback).await.status, 303, "the sign-in is not over");
}

async fn links_work_without_the_provider(provider: &mut IdentityProvider, console: &ConsoleWorld) {
    let mut visitor = console.visitor();
    let callback = provider.authorize(&begin(&mut visitor).await, "ana").await;
    provider.stop().await;
    let unredeemed = visitor.get(&callback).await;
    assert_eq!(unredeemed.status, 503);
    assert!(body(&unredeemed).contains(unredeemed.header("x-request-id")), "{}", body(&unredeemed));

    // One that has not read the discovery document.
    let restarted = tests::Program::console(console.world.settings()).await;
    let begun = restarted.http().get(BEGIN).await.expect("a response");
    let page = body(&begun);
    assert_eq!((begun.status, begun.header("retry-after")), (503, "5"), "{page}");
    assert!(page.contains("links work without it") && page.contains(begun.header("x-request-id")), "{page}");
    assert_eq!(console.operator().await.get("/").await.status, 200);
}

#[tokio::test]
async fn a_browser_has_one_session_and_a_few_sign_ins_under_way_that_do_not_affect_each_other() {
    let provider = IdentityProvider::start().await;
    let console = provider.console().await;
    provider.set_user("staff", &json!({"groups": ["acme-staff"]})).await;
    for user in ["ana", "bo"] {
        provider.set_user(user, &json!({"groups": ["connect-operators"]})).await;
    }
    replaces_the_session_and_leads_nowhere_else(&provider, &console).await;
    each_tab_completes_its_sign_in(&provider, &console).await;
    at_most_eight_are_under_way(&provider, &console).await;
    failures_of_one_leave_others_usable(&provider, &console).await;
}

async fn replaces_the_session_and_leads_nowhere_else(provider: &IdentityProvider, console: &ConsoleWorld) {
    let planted = console.operator().await;
    let mut victim = console.visitor();
    victim.cookie.clone_from(&planted.cookie);
    let url = begin(&mut victim).await;
    let callback = provider.authorize(&url, "staff").await;
    let hostile = format!("{callback}&next=https://attacker.example&redirect_uri=//attacker.example");
    let response = victim.get(&hostile).await;
    assert_eq!((response.status, response.header("location")), (303, "/"), "{}", body(&response));
    victim.keep_cookies(&response);
    assert_ne!(victim.cookie, planted.cookie, "a new token");
    assert_eq!(planted.get("/").await.header("location"), "/sign-in", "the planted session has ended");
    assert_eq!(victim.get("/agencies/acme").await.status, 200);
    assert_eq!(victim.get("/queues").await.status, 403);
}

async fn each_tab_completes_its_sign_in(provider: &IdentityProvider, console: &ConsoleWorld) {
    let mut browser = console.visitor();
    let (first, second) = (begin(&mut browser).await, begin(&mut browser).await);
    let (first, second) = (provider.authorize(&first, "ana").await, provider.authorize(&second, "ana").await);
    assert_eq!(open(&mut browser, "/sign-in/oidc/callback?state=x&code=y").await.status, 403);
    for callback in [&first, &second] {
        let response = open(&mut browser, callback).await;
        assert_eq!((response.status, response.header("location")), (303, "/"), "{}", body(&response));
    }
    let back = open(&mut browser, &first).await;
    assert_eq!((back.status, back.header("location")), (303, "/"), "signed in already");
    assert_eq!(browser.get("/").await.status, 200);
}

async fn at_most_eight_are_under_way(provider: &IdentityProvider, console: &ConsoleWorld) {
    let mut browser = console.visitor();
    let mut begun = Vec::new();
    for _ in 0..11 {
        begun.push(begin(&mut browser).await);
    }
    assert_eq!(browser.cookie.as_deref().map(|cookies| cookies.split(';').count()), Some(8));
    assert_eq!(sign_in(provider, &mut console.visitor(), "ana").await.status, 303, "others sign in");
    for (number, status) in [(2, 403), (3, 303), (10, 303)] {
        let callback = provider.authorize(&begun[number], "ana").await;
        assert_eq!(open(&mut browser, &callback).await.status, status, "{number}");
    }
}

async fn failures_of_one_leave_others_usable(provider: &IdentityProvider, console: &ConsoleWorld) {
    let mut visitor = console.visitor();
    let url = begin(&mut visitor).await;
    let declined = format!("/sign-in/oidc/callback?state={}&error=access_denied", between(&url, "&state=", "&"));
    for _ in 0..10 {
        assert_eq!(visitor.get("/sign-in/oidc/callback?state=a&code=b").await.status, 403);
        assert_eq!(visitor.get(&declined).await.status, 403);
    }
    assert_eq!(visitor.get(&declined).await.status, 429);
    assert_eq!(sign_in(provider, &mut visitor, "bo").await.status, 303, "another sign-in of this browser");
}

#[tokio::test]
async fn without_a_provider_there_is_no_such_way_to_sign_in() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.visitor();
    assert!(!visitor.page("/sign-in").await.contains("Sign in with 127"));
    assert_eq!(visitor.get(BEGIN).await.status, 404);
    assert_eq!(visitor.get("/sign-in/oidc/callback?state=a&code=b").await.status, 404);
    assert_eq!(visitor.post("/sign-in/proxy", &[]).await.status, 404);
}
