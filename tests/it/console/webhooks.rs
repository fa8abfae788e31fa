//! Webhook subscriptions in the browser.

use super::{ConsoleWorld, between, body, sample};
use common::signature::sign_webhook;
use tests::{Behavior, Receiver, World, text};

const WEBHOOKS: &str = "/agencies/acme/webhooks";

#[tokio::test]
async fn a_subscription_is_created_paused_resumed_rotated_and_removed() {
    let console = ConsoleWorld::shared().await;
    let visitor = console.admin().await;
    let fields = [
        ("url", "https://93.184.215.14/hook?token=unseen"),
        ("events", "lead.assigned"),
        ("events", "proposal.sent"),
        ("key", console.world.key.prefix.as_str()),
    ];
    let created = body(&visitor.post(WEBHOOKS, &fields).await);
    let secret = between(&created, "<code data-copy>", "</code>").to_owned();
    assert!(secret.starts_with("whsec_") && created.contains("Webhook-Signature"), "{created}");
    let page = between(&created, "<p><a href=\"", "\"").to_owned();
    assert!(page.starts_with(WEBHOOKS), "{page}");
    let shown = visitor.page(&page).await;
    assert!(shown.contains("lead.assigned, proposal.sent"), "{shown}");
    assert!(shown.contains("Nothing was sent in the last 24 hours"), "{shown}");
    assert!(!shown.contains("unseen") && !shown.contains(&secret), "{shown}");
    assert!(created.contains("Send a test event"), "{created}");
    verify_by_samples(&created, &secret).await;
    let count = async |condition: &str| {
        let query = format!("SELECT count(*) FROM subscriptions WHERE {condition}");
        console.world.database.count(&query).await
    };
    let failing = "INSERT INTO public.failure_minutes
        SELECT tenant_id, 'receiver:' || subscription_id, 0, now(), 5, 0, NULL FROM subscriptions
        UNION ALL SELECT tenant_id, cause, 0, now() - interval '5 minutes', 9, 0, NULL
        FROM subscriptions, unnest(ARRAY['response:overloaded', 'event:internal_error']) cause";
    // It has recovered after three minutes without a failure, unless the newest one has more failures than successes.
    for (change, is_told) in [
        (failing, true),
        ("INSERT INTO failure_minutes SELECT tenant_id, cause, 1, now(), 0, 1, NULL FROM failure_minutes", true),
        ("UPDATE failure_minutes SET minute = now() - interval '150 seconds' WHERE failed = 5", true),
        ("UPDATE failure_minutes SET minute = now() - interval '3 minutes' WHERE failed = 5", false),
        ("UPDATE failure_minutes SET minute = now() - interval '4 minutes', succeeded = 5", false),
        ("UPDATE failure_minutes SET succeeded = 4", true),
    ] {
        console.world.database.execute(change).await;
        assert_eq!(visitor.page("/agencies/acme").await.contains(" fails: 5 of "), is_told, "{change}");
    }
    let changed = [("url", "https://93.184.215.14/moved?token=unseen")];
    assert_eq!(visitor.change(&format!("{page}/url"), &changed).await, format!("{page}?done=url"));
    assert_eq!(count("display_url = 'https://93.184.215.14/moved?token=***'").await, 1);
    assert!(visitor.page("/agencies/acme").await.contains("Nothing needs attention."));
    let refused = visitor.post(&format!("{page}/url"), &[("url", "https://10.0.0.1/")]).await;
    assert!(refused.status == 422 && body(&refused).contains("address 10.0.0.1 is not public"), "{}", body(&refused));
    let recorded = console.world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    let changes: Vec<_> = recorded.iter().filter(|record| record["action"] == "subscription.url").collect();
    let target = text(&changes[0]["target"]);
    let told = " from=https://93.184.215.14/hook?token=*** to=https://93.184.215.14/moved?token=***";
    assert!(changes.len() == 1 && target.ends_with(told), "{changes:?}");
    visitor.change(&format!("{page}/pause"), &[]).await;
    assert_eq!(count("paused_at IS NOT NULL").await, 1);
    assert!(visitor.page("/agencies/acme").await.contains("1 subscription is paused"));
    visitor.change(&format!("{page}/resume"), &[]).await;
    assert_eq!(count("paused_at IS NULL").await, 1);
    let rotated = body(&visitor.post(&format!("{page}/rotate"), &[("overlap", "24h")]).await);
    assert_ne!(between(&rotated, "<code data-copy>", "</code>"), secret);
    assert_eq!(count("old_secret_until > now()").await, 1);
    assert!(visitor.page(&page).await.contains("<dt>Old secret</dt><dd>valid until <time "));
    assert_eq!(visitor.post(&format!("{page}/rotate"), &[("overlap", "x")]).await.status, 422);
    let again = visitor.post(&format!("{page}/rotate"), &[("overlap", "7d")]).await;
    assert!(again.status == 422 && body(&again).contains("is still valid (until <time "), "{}", body(&again));
    assert!(body(&again).contains("<option value=\"7d\" selected>"), "{}", body(&again));
    assert_eq!(count("old_secret_until < now() + interval '2 days'").await, 1, "nothing was changed");
    let forced = visitor.post(&format!("{page}/rotate"), &[("overlap", "7d"), ("replace", "yes")]).await;
    assert_eq!((forced.status, count("old_secret_until > now() + interval '2 days'").await), (200, 1));
    assert!(visitor.page(&format!("{page}/remove")).await.contains("https://93.184.215.14/moved"));
    assert_eq!(visitor.change(&format!("{page}/remove"), &[]).await, format!("{WEBHOOKS}?done=removed"));
    assert_eq!(count("removed_at IS NOT NULL").await, 1);
    assert_eq!(visitor.get(&page).await.status, 404);
    assert!(visitor.page(WEBHOOKS).await.contains("There is no subscription"));
}

/// Runs the code that a page shows, on a webhook with a valid signature and on one with another body.
async fn verify_by_samples(page: &str, secret: &str) {
    let header = sign_webhook([secret.as_bytes()], common::clock::now().timestamp(), b"{}");
    for (heading, command, calls) in [
        ("Python 3", ["python3", "-c"], "print(verify(SECRET, 'HEADER', b'{}'), verify(SECRET, 'HEADER', b'{ }'))"),
        (
            "Node 18 or later",
            ["node", "-e"],
            "console.log(verify(SECRET, 'HEADER', Buffer.from('{}')), verify(SECRET, 'HEADER', Buffer.from('{ }')))",
        ),
        (
            "PHP 8",
            ["php", "-r"],
            "echo var_export(verify(SECRET, 'HEADER', '{}'), true), ' ', var_export(verify(SECRET, 'HEADER', '{ }'), true);",
        ),
    ] {
        let code = sample(page, heading);
        let code = format!("{}\n{}", code.trim_start_matches("<?php"), calls.replace("HEADER", &header));
        let mut run = tokio::process::Command::new(command[0]);
        let output = run.arg(command[1]).arg(&code).output().await.expect("the sample runs");
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_lowercase();
        assert_eq!(printed, "true false", "{heading}: {output:?}\n{code}");
    }
}

#[tokio::test]
async fn a_refused_receiver_is_explained_beside_its_field() {
    let console = ConsoleWorld::of(World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_PORTS", "443")).await;
    let visitor = console.admin().await;
    for (url, key, why) in [
        ("https://10.0.0.1/", "", "address 10.0.0.1 is not public: private"),
        ("http://93.184.215.14/", "", "URL of the receiver must begin with https://"),
        ("https://93.184.215.14:22/", "", "URL of the receiver must have a port that CONNECT_WEBHOOK_PORTS lists"),
        ("https://localhost/", "", "host &quot;localhost&quot; is not public</p>"),
        ("javascript:alert(1)", "", ">URL of the receiver must"),
        ("", "", ">URL of the receiver must not be empty"),
        ("https://93.184.215.14/", "ck_unknown", "is not an active key of this tenant"),
    ] {
        let response = visitor.post(WEBHOOKS, &[("url", url), ("key", key), ("events", "lead.assigned")]).await;
        let page = body(&response);
        assert_eq!(response.status, 422, "{url}: {page}");
        assert!(page.contains(why), "{why}: {page}");
        assert!(page.contains(&format!("value=\"{url}\"")), "{page}");
        assert!(page.contains("value=\"lead.assigned\" checked"), "{page}");
    }
    console.program().until_logged("is not public: loopback").await;
    let unknown = visitor.post(WEBHOOKS, &[("url", "https://93.184.215.14/"), ("events", "message.posted")]).await;
    assert_eq!(unknown.status, 422);
    assert_eq!(console.world.database.count("SELECT count(*) FROM subscriptions").await, 0);
}

#[tokio::test]
async fn event_types_are_changed_and_a_test_event_shows_the_health_of_the_receiver() {
    let builder = World::with().ingests(0).workers(0).dispatchers(1);
    let console = ConsoleWorld::of(builder.set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")).await;
    let visitor = console.admin().await;
    let receiver = Receiver::http();
    receiver.respond_to_next("/hook", [Behavior::status(503).with_body("<busy>"), Behavior::status(204)]);
    let created = console.world.subscribe(&receiver.url("/hook")).await;
    let id = text(&created["id"]).to_owned();
    let page = format!("{WEBHOOKS}/{id}");
    let set = [("events", "lead.assigned"), ("events", "booking.confirmed")];
    assert_eq!(visitor.change(&format!("{page}/events"), &set).await, format!("{page}?done=events"));
    let shown = visitor.page(&page).await;
    assert!(shown.contains("lead.assigned, booking.confirmed"), "{shown}");
    assert_eq!(visitor.post(&format!("{page}/events"), &[("events", "webhook.test")]).await.status, 400);
    let result = visitor.change(&format!("{page}/test"), &[]).await;
    let failed = visitor.until_shown(&result, &["did not accept the test event", "<code>&lt;busy&gt;</code>"]).await;
    assert!(failed.contains("status 503") && !failed.contains("http-equiv"), "{failed}");
    let result = visitor.change(&format!("{page}/test"), &[]).await;
    visitor.until_shown(&result, &["accepted the test event"]).await;
    assert!(receiver.received_at("/hook").iter().all(|sent| sent.header("x-connect-event") == "webhook.test"));
    let health = visitor.page(&page).await;
    assert!(health.contains("1 of 2") && health.contains("attempts succeeded"), "{health}");
    assert!(health.contains("Last failure") && health.contains("status 503"), "{health}");
    assert!(health.contains("1 delivered and 1 failed in the last 24 hours") && !health.contains("\"Receiver\""));
    // What waits for an hour is sent at once, and cannot be once it has arrived.
    let waits =
        "UPDATE deliveries SET state = 'pending', next_attempt_at = now() + interval '1 hour' WHERE state = 'dropped'";
    console.world.database.execute(waits).await;
    let delivery = between(&failed, "/agencies/acme/deliveries/", "\"");
    let delivery = format!("/agencies/acme/deliveries/{delivery}");
    visitor.until_shown(&delivery, &["Retrying", "Send now", "It counts as one of the "]).await;
    visitor.change(&format!("{page}/pause"), &[]).await;
    let waits = "when the subscription is resumed</a>; without the pause: <time ";
    assert!(!visitor.until_shown(&delivery, &[waits]).await.contains("Send now"));
    visitor.until_shown("/agencies/acme/deliveries", &[">when resumed</td>"]).await;
    let refused = visitor.post(&format!("{delivery}/send-now"), &[]).await;
    assert!(refused.status == 409 && body(&refused).contains("is paused"), "{}", body(&refused));
    visitor.change(&format!("{page}/resume"), &[]).await;
    let sent = visitor.change(&format!("{delivery}/send-now"), &[]).await;
    assert_eq!(sent, format!("{delivery}?sent-after=1"));
    let shown = visitor.until_shown(&sent, &["Delivered"]).await;
    assert!(shown.contains("status 503") && shown.contains("status 204") && !shown.contains("being made"), "{shown}");
    assert_eq!(visitor.post(&format!("{delivery}/send-now"), &[]).await.status, 409);
    let listed = visitor.page(WEBHOOKS).await;
    assert!(listed.contains("66 %") && listed.contains("status 503"), "{listed}");
    visitor.change(&format!("{page}/url"), &[("url", &receiver.url("/new"))]).await;
    let moved = visitor.page(&page).await;
    assert!(moved.contains("Nothing was sent") && moved.contains("0 delivered and 0 failed in the last 24 hours"));
    let sent_before = visitor.page(&delivery).await;
    assert!(sent_before.contains(&receiver.url("/hook")) && !sent_before.contains("/new"), "{sent_before}");
    let found = visitor.page(&delivery.replace("deliveries/", "find?id=")).await;
    assert!(found.contains(&format!("number 1 to {}: status 503", receiver.url("/hook"))), "{found}");
    visitor.change(&format!("{page}/events"), &[]).await;
    let all = "SELECT count(*) FROM subscriptions WHERE event_types IS NULL";
    assert_eq!(console.world.database.count(all).await, 1);
    visitor.change(&format!("{page}/pause"), &[]).await;
    let refused = body(&visitor.post(&format!("{page}/test"), &[]).await);
    assert!(refused.contains("is paused; resume it"), "{refused}");
    assert!(!visitor.page(&page).await.contains("Send a test event"));
    let waiting = visitor.page(&format!("{page}/test?event={}", uuid::Uuid::now_v7())).await;
    assert!(waiting.contains("is on its way") && waiting.contains("http-equiv=\"refresh\""), "{waiting}");
    assert_eq!(visitor.get(&format!("{page}/test?event=x")).await.status, 404);
}
