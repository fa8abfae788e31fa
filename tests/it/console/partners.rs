//! Links for partners of an agency.

use super::{ConsoleWorld, between, body};
use tests::text;

const LINKS: &str = "/agencies/acme/partner-links";
const REVOKE: &str = "/agencies/acme/partner-links/revoke";

/// The path of a link that the page shows.
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
    assert!(
        !format!("{records:?}").contains(between(&shown, "/sign-in/", "<")),
        "the token is recorded nowhere"
    );
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
    let settings = "/agencies/acme/settings";
    assert!(
        !partner.page(settings).await.contains("partner-links") && admin.page(settings).await.contains(LINKS)
    );
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
    assert_eq!(admin.change(REVOKE, &[]).await, "/agencies/acme/settings?done=partners-revoked");
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
    assert!(page.contains("role must be viewer or admin") && page.contains("value=\"Typed"), "{page}");
    let created = ["console", "partner-link", "--tenant", "acme", "--name", "dev@partner.example"];
    let link = console.world.connectctl.json(&created).await;
    let mut partner = console.visitor();
    let path = format!("/sign-in/{}", text(&link["url"]).rsplit('/').next().expect("a token"));
    assert_eq!(partner.sign_in(&path).await.status, 303);
    assert!(partner.page("/agencies/acme").await.contains("Role: viewer"));
}
