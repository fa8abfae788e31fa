//! What the CRM shows: `timeline`, `inbox`, `notifications`, `discovery`, `invoice`, `pipeline`, `usage`; `pressure`;
//! exit codes and streams.

use super::{fields, is_time};
use serde_json::{Value, json};
use tests::{CommandOutput, Connectctl, Event, TestDatabase, World, event, text, words};

fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com")
}

/// A world with a lead, a credit balance and a discovery of Ana's; returns the result of the discovery event.
async fn world_with_history() -> (World, Value) {
    let world = World::shared().await;
    let submitted = ana("enquiry.submitted").payload(json!({"message": "Hello", "attribution": {"campaign": "spring"}, "externalLeadId": "x-1",
        "destination": "Goa", "travelDates": {"start": "2027-05-01", "end": "2027-05-09"}, "paxCount": 2, "budget": "2 lakh"}));
    world.accept(submitted).await;
    world
        .accept(ana("employee.credit_updated").payload(json!({"availablePaise": 5, "asOf": "2026-05-01T10:00:00Z"})))
        .await;
    let result = world
        .accept(ana("traveller.discovery_upserted").payload(json!({"discovery": {"pax": 2}, "essence": "calm"})))
        .await;
    (world, result)
}

#[tokio::test]
async fn all_views_have_the_contracts_fields() {
    let (world, result) = world_with_history().await;
    let timeline = world.timeline(&result["clientId"]).await;
    assert_eq!(timeline.len(), 3);
    for entry in &timeline {
        assert_eq!(fields(entry).join(" "), "eventId eventType occurredAt origin payload");
        assert!(is_time(&entry["occurredAt"]), "{entry}");
    }
    assert_eq!(timeline[2]["eventId"], result["eventId"], "newest last");
    let inbox = world.inbox(&result["leadId"]).await;
    assert_eq!(fields(&inbox[0]), ["at", "changes", "kind", "text"]);
    assert!(is_time(&inbox[0]["at"]), "{inbox:?}");
    let notifications = world.notifications().await;
    assert_eq!(fields(&notifications[0]), ["at", "kind", "leadId", "text", "to"]);
    assert!(is_time(&notifications[0]["at"]), "{notifications:?}");
    let discovery = world.discovery(&result["clientId"]).await;
    assert_eq!(fields(&discovery[0]), ["discovery", "discoveryId", "essence", "profile"]);
    assert_eq!(discovery[0]["discoveryId"], result["travellerDiscovery"]["discoveryId"]);
    // A pipeline row is the API's lead with attribution and credit.
    let row = world.lead(&result["leadId"]).await;
    let expected = "attribution budget clientId createdAt credit destination enquiryNumber externalId followUp id owner \
        party stage title travelDates tripId updatedAt";
    assert_eq!(fields(&row).join(" "), expected);
    assert_eq!(fields(&row["owner"]), ["email", "name"]);
    assert_eq!(fields(&row["travelDates"]), ["endDate", "startDate"]);
    assert_eq!(fields(&row["party"]), ["adults", "childAges", "children", "rooms"]);
    assert_eq!(fields(&row["budget"]), ["amount", "currency", "notes"]);
    for time in ["createdAt", "updatedAt"] {
        assert!(is_time(&row[time]) && text(&row[time]).len() == 24, "milliseconds: {row}");
    }
    assert_eq!(fields(&row["attribution"]), ["campaign"]);
    assert_eq!(row["credit"]["availablePaise"], 5);
    assert!(world.invoices(&result["leadId"]).await.is_empty());
    let payload = json!({"bookingRef": "BR-1", "amount": 2000, "currency": "INR", "creditUsed": 12.5});
    world.accept(ana("booking.completed").payload(payload)).await;
    let expected = json!({"bookingRef": "BR-1", "amount": 2000, "currency": "INR", "creditUsed": 12.5, "creditApplied": null,
        "creditState": "pending", "balanceDue": 0});
    assert_eq!(world.invoices(&result["leadId"]).await, [expected]);
}

#[tokio::test]
async fn filters_the_pipeline_by_stage_and_campaign() {
    let (world, result) = world_with_history().await;
    world.accept(event("enquiry.submitted").email("bo@example.com")).await;
    world.accept(event("booking.completed").email("bo@example.com")).await;
    let ids =
        async |options: &[&str]| world.pipeline(options).await.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&[]).await.len(), 2);
    assert_eq!(ids(&["--stage", "inquiry"]).await, [result["leadId"].clone()]);
    assert_eq!(ids(&["--stage", "trip_booked"]).await.len(), 1);
    assert_eq!(ids(&["--stage", "inquiry", "--campaign", "spring"]).await, [result["leadId"].clone()]);
    assert!(ids(&["--stage", "trip_booked", "--campaign", "spring"]).await.is_empty());
}

#[tokio::test]
async fn lists_are_ordered_newest_last() {
    let world = World::shared().await;
    for i in 0..5 {
        world.accept(ana("enquiry.submitted").id(&format!("e-{i}"))).await;
    }
    let pipeline = world.pipeline(&[]).await;
    let numbers: Vec<_> = pipeline.iter().map(|row| text(&row["enquiryNumber"])).collect();
    assert!(numbers.is_sorted() && numbers.len() == 5, "{numbers:?}");
    let timeline = world.timeline(&pipeline[0]["clientId"]).await;
    let events: Vec<_> = timeline.iter().map(|entry| text(&entry["eventId"])).collect();
    assert_eq!(events, ["e-0", "e-1", "e-2", "e-3", "e-4"]);
    let notifications: Vec<_> = world.notifications().await.iter().map(|one| one["leadId"].clone()).collect();
    assert_eq!(notifications, pipeline.iter().map(|row| row["id"].clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn usage_shows_month_writes_and_quota() {
    let world = World::shared().await;
    let month = common::clock::now().format("%Y-%m").to_string();
    let usage = world.connectctl.json(&["usage", "--tenant", "acme"]).await;
    assert_eq!(usage, json!({"month": month, "writes": 0, "quota": null}));
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "10"]).await;
    world.accept(ana("enquiry.submitted")).await;
    let usage = world.connectctl.json(&["usage", "--tenant", "acme"]).await;
    assert_eq!((&usage["writes"], &usage["quota"]), (&json!(0), &json!(10)), "events are not metered");
}

#[tokio::test]
async fn sums_the_newest_report_of_each_ingest_that_still_reports() {
    let database = TestDatabase::new().await;
    // Two ingests report, one of which last reported events long ago; a third one has stopped.
    let reports = "INSERT INTO intake_pressure (tenant_id, queue, ingest_id, waiting, refused, reported_at)
        SELECT tenant_id, queue, ingest_id::uuid, waiting, refused, now() + age::interval
        FROM tenants, (VALUES
            ('events', '01900000-0000-7000-8000-000000000001', 70, 3, '1 minute'),
            ('events', '01900000-0000-7000-8000-000000000002', 20, 2, '1 minute'),
            ('events', '01900000-0000-7000-8000-000000000003', 400, 9, '-20 seconds'),
            ('records', '01900000-0000-7000-8000-000000000001', 5, 1, '-20 seconds'),
            ('records', '01900000-0000-7000-8000-000000000003', 6, 1, '-11 minutes')
        ) AS r (queue, ingest_id, waiting, refused, age)
        WHERE slug = 'acme'";
    database.execute(reports).await;
    let listed = Connectctl::for_database(database.url()).list(&["pressure"]).await;
    let shown: Vec<_> =
        listed.iter().map(|row| json!([row["tenant"], row["queue"], row["waiting"], row["refused"]])).collect();
    assert_eq!(shown, [json!(["acme", "records", 0, 0]), json!(["acme", "events", 90, 5])]);
}

#[tokio::test]
async fn wrong_usage_exits_with_two() {
    let connectctl = Connectctl::with(Vec::new());
    for arguments in [
        "frobnicate", "tenant", "tenant create --slug x", "tenant list --unknown",
        "pipeline --tenant acme --stage nowhere",
    ] {
        let ran = connectctl.run(&words(arguments)).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
        assert_ne!(ran.errors, "", "{arguments:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_a_password() {
    for (setting, url, arguments, says) in [
        ("DATABASE_URL", "postgres://connect:hunter2@127.0.0.1:1/connect", "tenant list", "the database"),
        ("AMQP_URL", "amqp://guest:hunter2@127.0.0.1:1/%2f", "queue list", "the broker cannot be reached"),
    ] {
        let connectctl = Connectctl::with(Vec::new());
        connectctl.assert_refusal(&words(arguments), setting).await;
        let away = connectctl.and(setting, url).refusal(&words(arguments)).await;
        assert!(away.contains(says) && !away.contains("hunter2"), "{away}");
    }
}

#[tokio::test]
async fn prints_a_table_without_json() {
    let world = World::shared().await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await;
    for arguments in ["tenant list", "pipeline --tenant acme", "member list --tenant acme"] {
        let ran = world.connectctl.run(&words(arguments)).await;
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert!(ran.output.lines().count() >= 2, "{arguments:?}: {ran:?}");
        assert!(serde_json::from_str::<serde_json::Value>(&ran.output).is_err(), "{arguments:?}: {ran:?}");
    }
}

#[tokio::test]
async fn the_completions_of_bash_complete_commands_options_and_values() {
    let script = r#"source <(connectctl completions bash)
complete_last() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _connectctl connectctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[@]}"
}
complete -p connectctl | grep -o -- '-F _connectctl connectctl'
complete_last connectctl sub
complete_last connectctl subscription cr
complete_last connectctl key create --sc
complete_last connectctl delivery list --state ''"#;
    let ran = CommandOutput::bash(script, &[]).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    let expected =
        ["-F _connectctl connectctl", "subscription", "create", "--scopes", "pending delivered dead dropped"];
    assert_eq!(ran.output.lines().collect::<Vec<_>>(), expected);
}
