//! Signing in by the headers of a proxy.

use super::identity_provider::GROUPS;
use super::{ConsoleWorld, Visitor, between, body, form};
use tests::{HttpRequest, HttpResponse, World, text};

const USER: &str = "x-forwarded-email";
const IN_GROUPS: &str = "x-forwarded-groups";

/// A console behind a proxy in `networks`.
async fn behind(networks: &str) -> ConsoleWorld {
    let world = World::with().ingests(0).workers(0);
    let world = world.set("CONNECT_CONSOLE_PROXY_USER_HEADER", "X-Forwarded-Email");
    let world = world.set("CONNECT_CONSOLE_PROXY_GROUPS_HEADER", "X-Forwarded-Groups");
    ConsoleWorld::of(world.set("CONNECT_CONSOLE_PROXY_NETWORKS", networks).set("CONNECT_OIDC_GROUPS", GROUPS)).await
}

fn get(path: &str, user: &str, groups: &str) -> HttpRequest {
    HttpRequest::new("GET", path, "").with(USER, user).with(IN_GROUPS, groups)
}

fn continue_as(user: &str, groups: &str) -> HttpRequest {
    let request = form("/sign-in/proxy", &[]).with("sec-fetch-site", "same-origin");
    request.with(USER, user).with(IN_GROUPS, groups)
}

/// Signs in as the person of the headers, and keeps the cookie.
async fn sign_in(visitor: &mut Visitor<'_>, user: &str, groups: &str) -> HttpResponse {
    let response = visitor.send(continue_as(user, groups)).await;
    visitor.keep_cookies(&response);
    response
}

#[tokio::test]
async fn a_proxy_of_the_network_names_the_person_as_long_as_the_session_lasts() {
    let console = behind("10.0.0.0/8,127.0.0.1").await;
    a_form_that_is_sent_twice_begins_one_session(&console).await;
    a_session_ends_with_another_person_or_other_groups(&console).await;
    let mut visitor = console.visitor();
    let offered = body(&visitor.send(get("/sign-in", "ana@example.com", "acme-admins")).await);
    assert!(offered.contains("Continue as ana@example.com"), "{offered}");
    assert!(!visitor.page("/sign-in").await.contains("Continue as"));
    assert_eq!(visitor.send(get("/", "ana@example.com", "acme-admins")).await.header("location"), "/sign-in");

    let response = sign_in(&mut visitor, "ana@example.com", "other, acme-admins").await;
    assert_eq!((response.status, response.header("location")), (303, "/"), "{}", body(&response));
    let page = visitor.send(get("/agencies/acme", "ana@example.com", "acme-admins")).await;
    assert!(page.status == 200 && body(&page).contains("Role: admin"), "{}", body(&page));
    let records = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    let last = records.last().expect("a record");
    assert_eq!((text(&last["who"]), text(&last["target"])), ("ana@example.com (admin)", "admin by proxy"));
}

async fn a_form_that_is_sent_twice_begins_one_session(console: &ConsoleWorld) {
    let offered = async || {
        let page = body(&console.visitor().send(get("/sign-in", "bo@example.com", "acme-admins")).await);
        let field = |name| between(&page, &format!("name=\"{name}\" value=\""), "\"").to_owned();
        [("form", field("form")), ("state", field("state"))]
    };
    let send = async |fields: &[(&str, String)]| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = form("/sign-in/proxy", &fields).with("sec-fetch-site", "same-origin");
        console.visitor().send(request.with(USER, "bo@example.com").with(IN_GROUPS, "acme-admins")).await
    };
    let (one, other) = (offered().await, offered().await);
    let (first, second) = tokio::join!(send(&one), send(&one));
    assert_eq!((first.status, first.header("location")), (303, "/"), "{}", body(&first));
    assert_eq!(first.header("set-cookie"), second.header("set-cookie"), "{second:?}");
    let sessions = async || console.world.database.count("SELECT count(*) FROM console_sessions").await;
    assert_eq!(sessions().await, 1);
    let mixed = [one[0].clone(), other[1].clone()];
    assert_eq!(send(&mixed).await.header("location"), "/sign-in", "a form of nobody shows a new one");
    assert_eq!(sessions().await, 1);
    assert_ne!(send(&other).await.header("set-cookie"), first.header("set-cookie"));
    assert_eq!(sessions().await, 2);
    console.world.database.execute("DELETE FROM console_sessions").await;
    let again = send(&one).await;
    let expected = ("/sign-in", "");
    assert_eq!((again.header("location"), again.header("set-cookie")), expected, "its session has ended");
}

async fn a_session_ends_with_another_person_or_other_groups(console: &ConsoleWorld) {
    let mut visitor = console.visitor();
    sign_in(&mut visitor, "ana@example.com", "acme-admins").await;
    let location = async |request| visitor.send(request).await.header("location").to_owned();
    let keys = "/agencies/acme/keys";
    assert_eq!(visitor.send(get(keys, "ana@example.com", "acme-admins,other")).await.status, 200);
    for (user, groups) in [
        ("bo@example.com", "acme-admins"),
        ("ana@example.com", "acme-staff"),
        ("", "acme-admins"),
        ("ana@example.com", ""),
    ] {
        assert_eq!(location(get(keys, user, groups)).await, "/sign-in", "{user} {groups}");
    }
    assert_eq!(visitor.get(keys).await.header("location"), "/sign-in", "past the proxy");
    let change = form("/agencies/acme/settings", &[("discovery", "true")]).with("sec-fetch-site", "same-origin");
    assert_eq!(visitor.send(change).await.status, 401);
    // A link works behind the proxy as well, whoever it names.
    let linked = console.admin().await;
    assert_eq!(linked.send(get(keys, "bo@example.com", "other")).await.status, 200);
}

#[tokio::test]
async fn headers_from_outside_the_network_are_ignored() {
    let console = behind("10.0.0.0/8").await;
    let mut visitor = console.visitor();
    let page = body(&visitor.send(get("/sign-in", "ana@example.com", "connect-operators")).await);
    assert!(!page.contains("Continue as"), "{page}");
    assert_eq!(sign_in(&mut visitor, "ana@example.com", "connect-operators").await.status, 404);
    let repeated = get("/sign-in", "ana@example.com", "connect-operators").with(USER, "bo@example.com");
    assert_eq!(visitor.send(repeated).await.status, 200);
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 0);
    let logs = console.program().logs();
    assert!(logs.contains("ignored the headers of a proxy in a request from outside"), "{logs}");
}

#[tokio::test]
async fn people_whom_the_headers_do_not_name_clearly_or_too_often_are_refused() {
    let console = behind("127.0.0.0/8").await;
    let mut visitor = console.visitor();
    let repeated = continue_as("ana@example.com", "acme-staff").with(IN_GROUPS, "connect-operators");
    assert_eq!(visitor.send(repeated).await.status, 400);
    let repeated = continue_as("ana@example.com", "acme-staff").with(USER, "bo@example.com");
    assert_eq!(visitor.send(repeated).await.status, 400);
    let from_elsewhere = form("/sign-in/proxy", &[]).with(USER, "ana").with(IN_GROUPS, "acme-staff");
    assert_eq!(visitor.send(from_elsewhere.with("sec-fetch-site", "cross-site")).await.status, 403);

    let refused = sign_in(&mut visitor, "zoe@example.com", "nobody").await;
    assert_eq!(refused.status, 403);
    assert!(body(&refused).contains("None of your groups gives access"), "{}", body(&refused));
    let records = console.world.connectctl.list(&["audit"]).await;
    let last = records.last().expect("a record");
    assert_eq!((text(&last["action"]), text(&last["who"])), ("console.sign-in-refused", "zoe@example.com"));
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 0);
    names_of_people_are_visible_and_those_of_groups_compare_exactly(&console).await;
    console.world.database.execute("DELETE FROM console_sessions").await;
    a_person_who_signs_in_too_often_waits(&console).await;
}

async fn names_of_people_are_visible_and_those_of_groups_compare_exactly(console: &ConsoleWorld) {
    let operator = console.operator().await;
    for other in ["an\u{a0}a@example.com", "ana\u{202e}@example.com", "ana@example.com\u{200b}"] {
        let refused = sign_in(&mut console.visitor(), other, "acme-admins").await;
        assert_eq!(refused.status, 400, "{other:?} {}", body(&refused));
        for (path, fields) in [
            ("/agencies/acme/members", [("email", "m@example.com"), ("name", other)]),
            ("/agencies/acme/partner-links", [("role", "viewer"), ("partner", other)]),
        ] {
            let refused = operator.post(path, &fields).await;
            assert_eq!(refused.status, 422, "{path} {other:?} {}", body(&refused));
        }
        for command in [
            &["member", "add", "--tenant", "acme", "--email", "m@example.com"][..],
            &["console", "login", "--role", "operator"],
            &["console", "partner-link", "--tenant", "acme"],
            &["console", "end-sessions"],
        ] {
            let ran = console.world.connectctl.run(&[command, &["--name", other]].concat()).await;
            assert_eq!(ran.code, Some(1), "{command:?} {other:?} {ran:?}");
        }
    }
    for (groups, expected) in [
        ("\u{a0}acme-admins", 403),
        ("acme-admins\u{a0}", 403),
        ("\u{3000}acme-admins,\u{2003}acme-staff", 403),
        ("\"friends of, acme-admins\"", 403),
        ("friends of, acme-admins", 303),
        ("other,\t acme-admins \t", 303),
    ] {
        let response = sign_in(&mut console.visitor(), "ana@example.com", groups).await;
        assert_eq!(response.status, expected, "{groups:?} {}", body(&response));
    }
    assert_eq!(sign_in(&mut console.visitor(), "\u{a0}Zoe\u{308} ", "acme-admins").await.status, 303);
    let records = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    assert_eq!(text(&records.last().expect("a record")["who"]), "Zo\u{eb} (admin)", "trimmed, and in NFC");
}

async fn a_person_who_signs_in_too_often_waits(console: &ConsoleWorld) {
    for _ in 0..10 {
        let visitor = &mut console.visitor();
        assert_eq!(sign_in(visitor, "bo@example.com", "acme-admins").await.status, 303);
    }
    let refused = sign_in(&mut console.visitor(), "bo@example.com", "acme-admins").await;
    assert_eq!(refused.status, 429, "{}", body(&refused));
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds <= 60));
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 10);
    assert_eq!(sign_in(&mut console.visitor(), "ben@example.com", "acme-admins").await.status, 303);
}
