//! "Where is my event?", in the browser and on the command line.

use super::ConsoleWorld;
use crate::records::{lead_route, new_lead, patch};
use serde_json::{Value, json};
use tests::{Receiver, batch, event, text, until, until_equal, words};

fn stages(steps: &[Value]) -> Vec<&str> {
    steps.iter().map(|step| text(&step["stage"])).collect()
}

#[tokio::test]
async fn an_event_is_followed_from_its_request_to_the_attempts_of_its_webhooks() {
    let console = ConsoleWorld::shared().await;
    let world = &console.world;
    world.connectctl.json(&words("member add --tenant acme --email m@example.com --name Mo")).await;
    let receiver = Receiver::http();
    let subscription = world.subscribe(&receiver.url("/hook")).await;
    let sent = event("enquiry.submitted").email("ana@example.com").id(" order-4711 ");
    let sent = sent.payload(json!({"externalLeadId": "their-1"}));
    let result = world.accept(sent).await;
    let found = async || world.connectctl.list(&["find", " order-4711 ", "--tenant", "acme"]).await;
    let found = until("the delivery is found", found, |found| stages(found).contains(&"attempt")).await;
    for stage in ["received", "applied", "outbox", "delivery", "attempt"] {
        assert!(stages(&found).contains(&stage), "{stage}: {found:?}");
    }
    assert!(found.is_sorted_by_key(|step| text(&step["at"]).to_owned()), "{found:?}");
    let applied = found.iter().find(|step| step["stage"] == "applied").expect("it was applied");
    assert_eq!((&applied["leadId"], &applied["clientId"]), (&result["leadId"], &result["clientId"]));
    let attempt = found.iter().find(|step| step["stage"] == "attempt").expect("an attempt");
    assert!(text(&attempt["detail"]).starts_with("number 1: status 204, "), "{attempt}");

    let by = async |id: &Value| stages(&world.connectctl.list(&["find", text(id), "--tenant", "acme"]).await).join(" ");
    assert!(by(&applied["requestId"]).await.contains("applied"));
    assert!(by(&attempt["deliveryId"]).await.contains("attempt"));
    assert!(by(&attempt["eventId"]).await.starts_with("outbox"));
    let number = world.lead(&result["leadId"]).await["enquiryNumber"].clone();
    for (id, stage) in [
        (&result["leadId"], "lead"),
        (&result["clientId"], "client"),
        (&number, "lead"),
        (&Value::from("their-1"), "lead"),
        (&Value::from("ANA@example.com"), "client"),
    ] {
        let found = by(id).await;
        assert!([stage, "received", "applied", "attempt"].iter().all(|one| found.contains(one)), "{id}: {found}");
    }
    assert_eq!(by(&Value::from("order-4712")).await, "");
    let other = event("contact.identified").email("bo@example.com").id("quiet");
    world.results(&[event("enquiry.submitted").email("cy@example.com").id("loud"), other]).await;
    assert!(by(&Value::from("loud")).await.contains("outbox"));
    assert!(!by(&Value::from("quiet")).await.contains("outbox"), "the webhooks of another event of its request");
    let lead = new_lead(world, json!({"contact": {"email": "cy@example.com"}})).await;
    let [titled, moved] = [json!({"title": "Goa"}), json!({"stage": "follow_up"})];
    let titled = patch(world, &lead_route(&lead), titled).await.assert_status(200);
    let moved = patch(world, &lead_route(&lead), moved).await.assert_status(200);
    for (response, expected) in [(titled, false), (moved, true)] {
        let found = by(&Value::from(response.header("x-request-id"))).await;
        assert_eq!(found.contains("outbox"), expected, "{found}: only what the request caused");
    }
    let failing = world.key.events(batch(&[event("contact.updated").email("nobody@example.com")]));
    let failed = Value::from(world.http().send(&failing).await.assert_status(200).header("x-request-id"));
    until_equal("the request of a failed event is found", "failed", async || by(&failed).await).await;
    let unknown = console.viewer().await.page("/agencies/acme/find?id=order-4712").await;
    assert!(unknown.contains("<div data-refresh=\"10\"><p>Nothing is known of"), "{unknown}");
    assert!(unknown.contains("An event that failed is not kept"), "{unknown}");
    world.add_tenant("other").await;
    for id in [&Value::from(" order-4711 "), &attempt["deliveryId"], &result["leadId"], &applied["requestId"]] {
        let foreign = world.connectctl.list(&["find", text(id), "--tenant", "other"]).await;
        assert_eq!(foreign, Vec::<Value>::new(), "{id}");
    }

    let (admin, viewer, operator) = (console.admin().await, console.viewer().await, console.operator().await);
    for (visitor, path) in [(&viewer, "/agencies/acme/find"), (&operator, "/find")] {
        let page = visitor.page(&format!("{path}?id=%20order-4711%20")).await;
        assert!(page.contains("number 1: status 204") && page.contains(text(&result["clientId"])), "{page}");
        let url = receiver.url("/hook");
        for part in ["Received", "Applied", "Webhook prepared", &format!("<h2>{url}</h2>"), &format!("Sent to {url}")] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains(&format!("/deliveries/{}\">delivery<", text(&attempt["deliveryId"]))), "{page}");
        assert_eq!(page.matches(text(&subscription["id"])).count(), 1, "said once: {page}");
        assert!(visitor.page(&format!("{path}?id=%3Cscript%3E")).await.contains("&lt;script&gt;"));
    }
    let email = "/agencies/acme/find?id=ana%40example.com";
    assert!(admin.page(email).await.contains("client created"));
    assert!(viewer.page(email).await.contains("Only administrators can search by email address"));
}

#[tokio::test]
async fn an_event_is_found_by_its_trace_whoever_has_begun_it() {
    let trace = uuid::Uuid::now_v7().simple().to_string();
    let console = ConsoleWorld::shared().await;
    let world = &console.world;
    let key = world.add_key("events:ingest").await;
    let send = async |id: &str, traceparent: Option<&str>| {
        let request = key.events(
            json!({"events": [event("contact.identified").email("ana@example.com").id(id).to_json()]}).to_string(),
        );
        let request = match traceparent {
            Some(traceparent) => request.with("traceparent", traceparent),
            None => request,
        };
        world.http().send(&request).await.assert_status(200).header("x-request-id").to_owned()
    };
    let sent = format!("00-{trace}-b7ad6b7169203331-01");
    send("traced-1", Some(&sent)).await;
    send("traced-2", Some(&format!("00-{trace}-00f067aa0ba902b7-00"))).await;
    let request = send("untraced", None).await;

    let found = async |id: &str, options: &[&str]| {
        let found = world.connectctl.list(&[&["find", id], options].concat()).await;
        let applied = found.iter().filter(|step| step["stage"] == "applied");
        applied.map(|step| text(&step["eventId"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&trace, &[]).await, ["traced-1", "traced-2"]);
    assert_eq!(found(&sent, &[]).await, ["traced-1", "traced-2"], "a whole traceparent");
    // The trace that ingest begins is named like the request.
    assert_eq!(found(&request.replace('-', ""), &[]).await, ["untraced"]);
    let stored = "SELECT count(*) FROM event_ledger WHERE trace_id IS NOT NULL";
    assert_eq!(world.database.count(stored).await, 2, "only traces of callers are stored");
    world.add_tenant("other").await;
    assert_eq!(found(&trace, &["--tenant", "other"]).await, [""; 0]);

    let viewer = console.viewer().await;
    let page = viewer.page(&format!("/agencies/acme/find?id={trace}")).await;
    assert!(page.contains("traced-1") && page.contains("traced-2") && !page.contains("untraced"), "{page}");
}

#[tokio::test]
async fn enquiries_of_a_campaign_are_found_as_it_was_sent_and_trimmed() {
    let console = ConsoleWorld::shared().await;
    let of = |campaign: &str| json!({"attribution": {"campaign": campaign}});
    for (campaign, email) in [(" spring", "ana@example.com"), ("autumn", "bo@example.com")] {
        let event = event("enquiry.submitted").email(email).payload(of(campaign));
        console.world.accept(event).await;
    }
    let viewer = console.viewer().await;
    for (sent, expected) in [("+spring", true), ("+autumn+", true), ("spring", false), ("+winter", false)] {
        let page = viewer.page(&format!("/agencies/acme/pipeline?campaign={sent}")).await;
        assert_eq!(page.contains("ENQ-"), expected, "{sent}: {page}");
    }
    let page = viewer.page("/agencies/acme/pipeline?stage=xyz").await;
    assert!(page.contains("stage &quot;xyz&quot; is not known: choose inquiry, follow_up, "), "{page}");
}
