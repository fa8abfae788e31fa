//! Signing in by a link, also as a partner of an agency; sessions and their limits.

use super::{ConsoleWorld, between, body, form};
use tests::{HttpRequest, text};

#[tokio::test]
async fn a_link_works_once_and_opening_it_does_not_use_it() {
    let console = ConsoleWorld::shared().await;
    let link = console.link(&["--role", "operator"]).await;
    let mut visitor = console.visitor();
    let mut offered = String::new();
    for _ in 0..3 {
        offered = visitor.page(&link).await;
        assert!(offered.contains("<form method=\"post\" action=\"/sign-in\">"), "{offered}");
    }
    let form_id = between(&offered, "name=\"form\" value=\"", "\"");
    let head = visitor.send(HttpRequest::new("HEAD", &link, "")).await;
    assert_eq!(head.status, 200);

    // Without the cookie of the first response, as after a double click.
    let fields = [("token", link.rsplit('/').next().expect("a token")), ("form", form_id)];
    let (first, again) = tokio::join!(visitor.post("/sign-in", &fields), visitor.post("/sign-in", &fields));
    assert_eq!((first.status, again.status), (303, 303), "{}", body(&again));
    assert_eq!(first.header("set-cookie"), again.header("set-cookie"), "the same session");
    visitor.keep_cookies(&first);
    assert!(visitor.page("/").await.contains("Agencies"));

    let mut second = console.visitor();
    assert_eq!(second.sign_in(&link).await.status, 410);
    assert_eq!((second.get(&link).await.status, second.cookie), (410, None));
    let stored = console.world.database.rows("SELECT * FROM public.console_sessions", &[]).await;
    let token = visitor.cookie.as_deref().and_then(|cookie| cookie.split_once('=')).expect("a token").1;
    assert!(!format!("{stored:?}").contains(token), "only the hash of a token is stored: {stored:?}");
}

#[tokio::test]
async fn an_expired_link_does_not_sign_in() {
    let console = ConsoleWorld::shared().await;
    let login = ["console", "login", "--role", "admin", "--tenant", "acme"];
    let created = console.world.connectctl.json(&login).await;
    let expires = text(&created["expiresAt"]);
    let stored = "SELECT extract(epoch FROM expires_at - created_at)::bigint FROM console_login_links";
    assert_eq!(console.world.database.count(stored).await, 300, "{expires}");
    let link = text(&created["url"]).splitn(4, '/').nth(3).map(|path| format!("/{path}")).expect("a path");
    let update = "UPDATE console_login_links SET expires_at = now() - interval '1 minute'";
    console.world.database.execute(update).await;
    assert_eq!(console.visitor().sign_in(&link).await.status, 410);
}

#[tokio::test]
async fn signing_in_replaces_the_session_that_the_browser_had() {
    let console = ConsoleWorld::shared().await;
    let planted = console.operator().await;
    let mut victim = console.visitor();
    victim.cookie.clone_from(&planted.cookie);
    let response = victim.sign_in(&console.link(&["--role", "admin", "--tenant", "acme"]).await).await;
    assert_eq!(response.status, 303);
    assert_ne!(victim.cookie, planted.cookie, "a new token");
    assert_eq!(planted.get("/").await.header("location"), "/sign-in", "the planted session has ended");
    assert_eq!(victim.get("/").await.header("location"), "/agencies/acme");
    let cookie = response.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/"), "{cookie}");
}

#[tokio::test]
async fn a_session_ends_after_its_limits_and_when_it_is_signed_out() {
    let console = ConsoleWorld::start().await;
    let visitor = console.operator().await;
    let is_signed_in = async || visitor.get("/").await.status == 200;
    let database = &console.world.database;
    assert!(is_signed_in().await);
    database.execute("UPDATE console_sessions SET last_used_at = now() - interval '31 minutes'").await;
    assert!(!is_signed_in().await, "idle for too long");
    database.execute("UPDATE console_sessions SET last_used_at = now() - interval '29 minutes'").await;
    let refresh = visitor.send(HttpRequest::new("GET", "/", "").with("x-refresh", "1")).await;
    assert_eq!(refresh.status, 200);
    let stale = "SELECT count(*) FROM console_sessions WHERE last_used_at < now() - interval '28 minutes'";
    assert_eq!(database.count(stale).await, 1, "a page that refreshes itself does not keep the session");
    database.execute("UPDATE console_sessions SET last_used_at = now() - interval '7.5 minutes'").await;
    assert!(is_signed_in().await);
    let fresh = "SELECT count(*) FROM console_sessions WHERE last_used_at > now() - interval '7 minutes'";
    assert_eq!(database.count(fresh).await, 1, "a use is noted at least four times within the limit");
    database.execute("UPDATE console_sessions SET expires_at = now() - interval '1 minute'").await;
    assert!(!is_signed_in().await, "older than the absolute limit");

    let (one, other) = (console.operator().await, console.operator().await);
    let admin = console.admin().await;
    let response = one.post("/sign-out", &[]).await;
    assert_eq!((response.status, response.header("location")), (303, "/sign-in"));
    assert!(response.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(one.get("/").await.status, 303, "the token is not accepted any more");
    let third = console.operator().await;
    other.change("/sign-out-everywhere", &[]).await;
    for ended in [&other, &third] {
        assert_eq!(ended.get("/").await.header("location"), "/sign-in");
    }
    assert_eq!(admin.get("/agencies/acme").await.status, 200, "somebody else stays signed in");
    admin.change("/sign-out", &[]).await;
    let records = console.world.connectctl.list(&["audit"]).await;
    let signed_out = records.iter().filter(|record| record["action"] == "console.sign-out");
    let signed_out: Vec<_> = signed_out.map(|record| (text(&record["who"]), text(&record["target"]))).collect();
    let expected = [("operator", "this browser"), ("operator", "everywhere"), ("admin", "this browser")];
    assert_eq!(signed_out, expected);
    database.execute("DELETE FROM console_sessions").await;
    an_operator_ends_the_sessions_of_a_person_or_of_everybody(&console).await;
}

async fn an_operator_ends_the_sessions_of_a_person_or_of_everybody(console: &ConsoleWorld) {
    let (viewer, connectctl) = (console.viewer().await, &console.world.connectctl);
    for (name, ended) in [("Eve@x.example", "eve@X.example"), ("Ada", "ada"), ("\u{c9}ve", "e\u{301}VE")] {
        let admin = ["--role", "admin", "--tenant", "acme", "--name", name];
        let (one, other) = (console.signed_in(&admin).await, console.signed_in(&admin).await);
        one.change("/sign-out", &[]).await;
        assert_eq!(other.get("/agencies/acme").await.status, 200, "{name}");
        assert_eq!(connectctl.json(&["console", "end-sessions", "--name", ended]).await["sessions"], 1, "{name}");
        assert_eq!(other.get("/agencies/acme").await.header("location"), "/sign-in", "{name}");
    }
    assert_eq!(viewer.get("/agencies/acme").await.status, 200);
    assert_eq!(connectctl.json(&["console", "end-sessions", "--all"]).await["sessions"], 1);
    assert_eq!(viewer.get("/agencies/acme").await.header("location"), "/sign-in");
}

#[tokio::test]
async fn failures_of_one_link_are_limited_and_leave_other_links_usable() {
    let console = ConsoleWorld::shared().await;
    let mut visitor = console.visitor();
    for number in 0..11 {
        assert_eq!(visitor.sign_in(&format!("/sign-in/cl_unknown{number}")).await.status, 410);
    }
    for _ in 0..10 {
        assert_eq!(visitor.sign_in("/sign-in/cl_unknown").await.status, 410);
    }
    let refused = visitor.sign_in("/sign-in/cl_unknown").await;
    assert_eq!(refused.status, 429, "{}", body(&refused));
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds <= 60));
    let link = console.link(&["--role", "operator"]).await;
    assert_eq!(visitor.sign_in(&link).await.status, 303, "from the same address");
}

#[tokio::test]
async fn without_a_session_pages_lead_to_sign_in_and_changes_are_refused() {
    let console = ConsoleWorld::shared().await;
    let mut visitor = console.visitor();
    for cookie in [None, Some("connect-console=cn_unknown"), Some("connect-console=")] {
        visitor.cookie = cookie.map(str::to_owned);
        let page = visitor.get("/agencies/acme/keys?next=https://attacker.example").await;
        assert_eq!((page.status, page.header("location")), (303, "/sign-in"));
        assert_eq!(visitor.post("/agencies/acme/keys", &[("name", "x")]).await.status, 401);
    }
}

#[tokio::test]
async fn a_link_needs_a_tenant_that_fits_its_role() {
    let console = ConsoleWorld::shared().await;
    let refused =
        async |options: &[&str]| console.world.connectctl.refusal(&[&["console", "login"], options].concat()).await;
    assert!(refused(&["--role", "admin", "--tenant", "nobody"]).await.contains("\"nobody\" does not exist"));
    let limited = refused(&["--role", "operator", "--tenant", "acme"]).await;
    assert!(limited.contains("an operator is not limited to a tenant"), "{limited}");
    let named = console.signed_in(&["--role", "viewer", "--tenant", "acme", "--name", "Ada <b>Byron</b>"]).await;
    assert!(named.page("/agencies/acme").await.contains("Ada &lt;b&gt;Byron&lt;/b&gt;"));
    assert_eq!(named.send(form("/sign-out", &[])).await.status, 403, "without the header of a browser");
}

const LINKS: &str = "/agencies/acme/partner-links";
const REVOKE: &str = "/agencies/acme/partner-links/revoke";

fn link_in(page: &str) -> String {
    format!("/sign-in/{}", between(page, "/sign-in/", "<"))
}

#[tokio::test]
async fn an_administrator_lets_a_partner_in_for_one_agency() {
    let console = ConsoleWorld::shared().await;
    console.world.add_tenant("other").await;
    let admin = console.signed_in(&["--role", "admin", "--tenant", "acme", "--name", "Ada"]).await;
    let shown = body(&admin.post(LINKS, &[("partner", "dev@partner.example"), ("role", "viewer")]).await);
    let stored = "SELECT extract(epoch FROM expires_at - created_at)::bigint FROM console_login_links";
    assert_eq!(console.world.database.count(stored).await, 900, "fifteen minutes");

    let mut partner = console.visitor();
    assert_eq!(partner.sign_in(&link_in(&shown)).await.status, 303, "{shown}");
    assert!(partner.page("/agencies/acme").await.contains("dev@partner.example"));
    assert_eq!(partner.get("/").await.header("location"), "/agencies/acme");
    assert_eq!(partner.get("/agencies/other").await.status, 404, "a foreign tenant");
    assert_eq!(partner.get("/queues").await.status, 403);
    assert_eq!(partner.get("/agencies/acme/keys/new").await.status, 403, "a viewer");
    assert_eq!(console.visitor().sign_in(&link_in(&shown)).await.status, 410, "it works once");
    let records = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    let last: Vec<_> =
        records.iter().rev().take(2).map(|record| (text(&record["action"]), text(&record["who"]))).collect();
    assert_eq!(last[0], ("console.sign-in", "dev@partner.example (viewer, partner)"));
    assert_eq!(last[1], ("console.partner-link", "Ada (admin)"));
    assert!(!format!("{records:?}").contains(between(&shown, "/sign-in/", "<")), "the token is recorded nowhere");
}

#[tokio::test]
async fn an_expired_or_changed_link_does_not_sign_in() {
    let console = ConsoleWorld::shared().await;
    let admin = console.admin().await;
    let shown = body(&admin.post(LINKS, &[("partner", "dev"), ("role", "admin")]).await);
    let link = link_in(&shown);
    let mut partner = console.visitor();
    let last = if link.ends_with('A') { 'B' } else { 'A' };
    let changed = format!("{}{last}", &link[..link.len() - 1]);
    for wrong in [&changed, &link.to_lowercase(), &format!("{link}A"), "/sign-in/cl_"] {
        assert_eq!(partner.sign_in(wrong).await.status, 410, "{wrong}");
    }
    let update = "UPDATE console_login_links SET expires_at = now() - interval '1 minute'";
    console.world.database.execute(update).await;
    assert_eq!(partner.sign_in(&link).await.status, 410, "expired");
    let found = console.world.database.count("SELECT count(*) FROM console_sessions").await;
    assert_eq!(found, 1, "the administrator's");
}

#[tokio::test]
async fn a_partner_invites_nobody_whatever_their_role() {
    let console = ConsoleWorld::shared().await;
    let admin = console.admin().await;
    let shown = body(&admin.post(LINKS, &[("partner", "dev"), ("role", "admin")]).await);
    let mut partner = console.visitor();
    partner.sign_in(&link_in(&shown)).await;
    assert_eq!(partner.get("/agencies/acme/keys/new").await.status, 200, "an administrator otherwise");
    assert_eq!(partner.post(LINKS, &[("partner", "friend"), ("role", "viewer")]).await.status, 403);
    assert_eq!(partner.post(REVOKE, &[]).await.status, 403);
    let partners = "/agencies/acme/partners";
    let refused = partner.get(partners).await;
    assert!(refused.status == 403 && body(&refused).contains("href=\"/agencies/acme/deliveries\""), "a menu");
    let missing = body(&partner.get("/nothing").await);
    assert!(missing.contains("Not found") && missing.contains("href=\"/agencies/acme/deliveries\""), "{missing}");
    assert!(missing.contains("<bdi>Your agency</bdi></a></li>") && !missing.contains("href=\"/sign-in\""), "{missing}");
    assert!(body(&console.visitor().get("/nothing").await).contains("href=\"/sign-in\""));
    assert!(!partner.page("/agencies/acme").await.contains(partners) && admin.page(partners).await.contains(LINKS));
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_login_links").await, 0);
}

#[tokio::test]
async fn the_access_of_partners_is_ended_at_once_and_nobody_elses() {
    let console = ConsoleWorld::shared().await;
    console.world.add_tenant("other").await;
    let operator = console.operator().await;
    let admin = console.admin().await;
    let links = ["acme", "acme", "other"].map(|tenant| format!("/agencies/{tenant}/partner-links"));
    let mut created = Vec::new();
    for path in &links {
        created.push(link_in(&body(&operator.post(path, &[("partner", "dev"), ("role", "viewer")]).await)));
    }
    let (mut partner, mut of_other) = (console.visitor(), console.visitor());
    partner.sign_in(&created[0]).await;
    of_other.sign_in(&created[2]).await;
    assert_eq!(admin.change(REVOKE, &[]).await, "/agencies/acme/partners?done=partners-revoked");
    assert_eq!(partner.get("/agencies/acme").await.header("location"), "/sign-in");
    assert_eq!(console.visitor().sign_in(&created[1]).await.status, 410, "a link that nobody had used");
    assert_eq!(of_other.get("/agencies/other").await.status, 200);
    assert_eq!(admin.get("/agencies/acme").await.status, 200);

    let revoked = console.world.connectctl.json(&["console", "revoke-partners", "--tenant", "other"]).await;
    assert_eq!((&revoked["links"], &revoked["sessions"]), (&0.into(), &1.into()));
    assert_eq!(of_other.get("/agencies/other").await.header("location"), "/sign-in");
}

#[tokio::test]
async fn a_partner_with_the_name_of_somebody_else_ends_no_session_of_theirs() {
    let console = ConsoleWorld::shared().await;
    // No other test has somebody of this name.
    let name = console.world.key.prefix.as_str();
    let admin = console.signed_in(&["--role", "admin", "--tenant", "acme", "--name", name]).await;
    let shown = body(&admin.post(LINKS, &[("partner", name), ("role", "admin")]).await);
    let mut partner = console.visitor();
    partner.sign_in(&link_in(&shown)).await;
    partner.change("/sign-out-everywhere", &[]).await;
    assert_eq!(partner.get("/agencies/acme").await.header("location"), "/sign-in");
    assert_eq!(admin.get("/agencies/acme").await.status, 200);
}

#[tokio::test]
async fn the_form_says_what_is_wrong_and_keeps_what_was_typed() {
    let console = ConsoleWorld::shared().await;
    let admin = console.admin().await;
    let refused = admin.post(LINKS, &[("partner", "Typed\u{7}"), ("role", "operator")]).await;
    let page = body(&refused);
    assert_eq!(refused.status, 422, "{page}");
    assert!(page.contains(">Role must be viewer or admin") && page.contains("value=\"Typed"), "{page}");
    let created = ["console", "partner-link", "--tenant", "acme", "--name", "dev@partner.example"];
    let link = console.world.connectctl.json(&created).await;
    let mut partner = console.visitor();
    let path = format!("/sign-in/{}", text(&link["url"]).rsplit('/').next().expect("a token"));
    assert_eq!(partner.sign_in(&path).await.status, 303);
    assert!(partner.page("/agencies/acme").await.contains("Role: viewer"));
}
