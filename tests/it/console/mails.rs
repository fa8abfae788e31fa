//! Mails about what needs attention.

use super::ConsoleWorld;
use admin::attention::claim_news;
use common::model::TenantId;
use tests::{Behavior, MAX_WAIT, MailServer, Program, Receiver, World, event, eventually, until_equal, words};

/// Waits until the server has taken so many mails, and returns the last one.
async fn until_mails(server: &MailServer, count: usize) -> String {
    eventually(&format!("{count} mails"), MAX_WAIT, async || {
        let mails = server.mails();
        if mails.len() == count { Ok(mails[count - 1].clone()) } else { Err(format!("{mails:?}")) }
    })
    .await
}

#[tokio::test]
async fn an_agency_is_told_once_what_needs_attention_and_once_that_it_has_recovered() {
    let server = MailServer::start();
    let builder = World::with()
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "60m")
        .set("CONNECT_SMTP_URL", &server.url())
        .set("CONNECT_SMTP_FROM", "Connect <connect@example.com>");
    let console = ConsoleWorld::of(builder).await;
    let (world, ctl) = (&console.world, &console.world.connectctl);
    let second = Program::console(world.settings()).await;
    ctl.json(&words("member add --tenant acme --email m@example.com --name Mo")).await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hook")).await;
    for _ in 0..5 {
        world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    }
    let viewer = console.viewer().await;
    viewer.until_shown("/agencies/acme", &["fails: 5 of 5 attempts"]).await;

    // An address that is refused for good is not tried again for an hour.
    server.set_refusing(true);
    let set = ctl.json(&words("tenant set --tenant acme --attention-email Ops@Acme.example")).await;
    assert_eq!(set["attentionEmail"], "ops@acme.example");
    let postponed = "SELECT count(*) FROM attention_mails WHERE claimed_until > now() + interval '30 minutes'";
    world.database.until_count(postponed, 1).await;
    server.set_refusing(false);

    // A server that does not respond delays neither pages nor the mail that follows.
    server.set_silent(true);
    let before = server.connections();
    world.database.execute("UPDATE attention_mails SET claimed_until = now()").await;
    until_equal("a console waits for the server", true, async || server.connections() > before).await;
    viewer.page("/agencies/acme").await;
    assert_eq!(server.mails(), Vec::<String>::new());
    server.set_silent(false);
    world.database.execute("UPDATE attention_mails SET claimed_until = now()").await;
    let mail = until_mails(&server, 1).await;
    let failing = format!("{} fails: 5 of 5 attempts of the last 10 minutes", receiver.url("/hook"));
    let link = format!("http://{}/agencies/acme", console.http().address());
    let other = format!("http://{}/agencies/acme", second.http().address());
    assert!(mail.contains("To: ops@acme.example") && mail.contains("Subject: Connect: acme needs attention"));
    assert!(mail.contains(&failing) && (mail.contains(&link) || mail.contains(&other)), "{mail}");
    assert!(!mail.contains("ana@example.com") && !mail.contains("Ana"), "nothing of a person: {mail}");

    // A receiver that is attempted seldom has not recovered, nor has a paused one, of which nothing is shown.
    drop(second);
    let _restarted = Program::console(world.settings()).await;
    world.database.execute("UPDATE failure_minutes SET minute = minute - interval '11 minutes'").await;
    viewer.until_shown("/agencies/acme", &["fails: all of its last 5 attempts"]).await;
    let later = "UPDATE attention_mails SET told_at = told_at - interval '1 hour'";
    world.database.execute(later).await;
    let client = world.database.connect().await;
    let tenant = client.query_one("SELECT tenant_id FROM tenants", &[]).await.expect("the only tenant").get(0);
    assert_eq!(claim_news(&client, TenantId(tenant), &[]).await.expect("what there is to tell"), []);

    // After an attempt has succeeded, it is told once that it has recovered.
    receiver.respond_to_all(Behavior::status(204));
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    viewer.until_shown("/agencies/acme", &["Nothing needs attention."]).await;
    let mail = until_mails(&server, 2).await;
    assert!(mail.contains("Subject: Connect: acme has recovered") && mail.contains(&failing), "{mail}");

    // Who has no address any more is told nothing, and nothing is remembered for another one.
    ctl.json(&words("tenant set --tenant acme --attention-email none")).await;
    assert_eq!(world.database.count("SELECT count(*) FROM attention_mails").await, 0);
    assert_eq!(world.database.count("SELECT count(*) FROM audit_records WHERE action = 'tenant.set'").await, 2);
    assert_eq!(server.mails().len(), 2);
}
