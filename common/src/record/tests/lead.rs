//! The lead body, the patch of a lead, and the texts of a trip patch.

use super::{faults, refuses, valid};
use crate::event::Actor;
use crate::model::Stage;
use crate::record::{LeadBody, LeadPatch, TripPatch};
use serde_json::json;

#[test]
fn parses_every_field_of_a_lead() {
    let lead: LeadBody = valid(
        r#"{"contact": {"name": "Ana", "email": "Ana@B.c", "phone": "+1", "externalId": "p-1"}, "clientId": "no uuid",
            "externalId": "e-1", "title": "Goa in May", "message": " Hello\n", "attribution": {"source": "web",
            "landingPath": "/goa ", "term": "", "referrer": " "}}"#,
    );
    let actor = Actor::from(lead.contact.into_option().unwrap());
    assert_eq!(actor.email.unwrap().key(), "ana@b.c");
    assert_eq!(actor.phone.unwrap().digits(), "1");
    assert_eq!((actor.external_id.as_deref(), actor.name.as_deref()), (Some("p-1"), Some("Ana")));
    assert_eq!(lead.client_id.into_string().as_deref(), Some("no uuid"));
    assert_eq!(lead.external_id.into_string().as_deref(), Some("e-1"));
    assert_eq!(lead.title.into_string().as_deref(), Some("Goa in May"));
    assert_eq!(lead.message.into_string().as_deref(), Some(" Hello\n"));
    let attribution = lead.attribution.into_option().unwrap();
    assert_eq!(attribution.block(), Some(json!({"source": "web", "landingPath": "/goa "})));
}

#[test]
fn accepts_a_contact_without_an_identity() {
    let lead: LeadBody = valid(r#"{"contact": {}}"#);
    assert_eq!(Actor::from(lead.contact.into_option().unwrap()), Actor::default());
}

#[test]
fn the_marketing_block_holds_seven_texts() {
    let names = ["source", "medium", "campaign", "term", "content", "landingPath", "referrer"];
    for name in names {
        let body = |length: usize| format!(r#"{{"attribution": {{"{name}": "{}"}}}}"#, "x".repeat(length));
        let max = if matches!(name, "landingPath" | "referrer") { 2_000 } else { 500 };
        let lead: LeadBody = valid(&body(max));
        assert_eq!(lead.attribution.get().unwrap().block(), Some(json!({name: "x".repeat(max)})));
        let expected = format!("attribution.{name}: must have at most {max} characters");
        assert_eq!(faults::<LeadBody>(&body(max + 1)), [expected]);
        let null = format!(r#"{{"attribution": {{"{name}": null}}}}"#);
        assert_eq!(faults::<LeadBody>(&null), [format!("attribution.{name}: must not be null")]);
    }
    for nothing in ["{}", r#"{"source": ""}"#] {
        let lead: LeadBody = valid(&format!(r#"{{"attribution": {nothing}}}"#));
        assert_eq!(lead.attribution.get().unwrap().block(), None);
    }
    refuses::<LeadBody>(&[
        (r#"{"attribution": {"utm_source": "x"}}"#, "attribution.utm_source: is not a known field"),
        (r#"{"attribution": {"source": 1}}"#, "attribution.source: must be a string"),
        (r#"{"attribution": "x"}"#, "attribution: must be an object"),
    ]);
}

#[test]
fn the_fields_of_a_contact_are_checked_like_a_clients() {
    refuses::<LeadBody>(&[
        (r#"{"contact": "a@b.c"}"#, "contact: must be an object"),
        (r#"{"contact": null}"#, "contact: must not be null"),
        (r#"{"contact": {"email": "x"}}"#, "contact.email: must be an email address"),
        (r#"{"contact": {"phone": "-"}}"#, "contact.phone: must have a digit"),
        (r#"{"contact": {"name": ""}}"#, "contact.name: must not be empty"),
        (r#"{"contact": {"externalId": " "}}"#, "contact.externalId: must not be empty"),
        (r#"{"contact": {"company": "x"}}"#, "contact.company: is not a known field"),
        (r#"{"clientId": 1}"#, "clientId: must be a string"),
        (r#"{"clientId": ""}"#, "clientId: must not be empty"),
    ]);
}

#[test]
fn the_texts_of_a_lead_and_a_trip_have_limits() {
    let body = |field: &str, length: usize| format!(r#"{{"{field}": "{}"}}"#, "ü".repeat(length));
    let expected = |field: &str, max: usize| [format!("{field}: must have at most {max} characters")];
    let empty = |field: &str| [format!("{field}: must not be empty")];
    let fields =
        [("title", 200), ("destination", 500), ("message", 10_000), ("externalId", 200), ("clientId", 200)];
    for (field, max) in fields {
        valid::<LeadBody>(&body(field, max));
        assert_eq!(faults::<LeadBody>(&body(field, max + 1)), expected(field, max));
        assert_eq!(faults::<LeadBody>(&body(field, 0)), empty(field));
    }
    for (field, max) in [("title", 200), ("destination", 500), ("message", 10_000), ("changeSummary", 500)] {
        valid::<TripPatch>(&body(field, max));
        assert_eq!(faults::<TripPatch>(&body(field, max + 1)), expected(field, max));
        assert_eq!(faults::<TripPatch>(&body(field, 0)), empty(field));
    }
}

#[test]
fn parses_every_field_of_a_lead_patch() {
    let patch: LeadPatch = valid(
        r#"{"stage": "lost", "reason": " no ", "owner": "Adv@Agency.com", "followUp": true, "title": "Goa"}"#,
    );
    assert_eq!(patch.stage.into_option(), Some(Stage::Lost));
    assert_eq!(patch.reason.into_string().as_deref(), Some(" no "));
    assert_eq!(patch.owner.get().unwrap().key(), "adv@agency.com");
    assert_eq!(patch.follow_up.into_option(), Some(true));
    assert_eq!(patch.title.into_string().as_deref(), Some("Goa"));
}

#[test]
fn accepts_exactly_the_known_stages() {
    for stage in Stage::ALL {
        let patch: LeadPatch = valid(&format!(r#"{{"stage": "{stage}"}}"#));
        assert_eq!(patch.stage.into_option(), Some(stage));
    }
    for stage in ["", "Lost", "won", "follow-up"] {
        let found = faults::<LeadPatch>(&format!(r#"{{"stage": "{stage}"}}"#));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("stage: must be one of inquiry, follow_up, "), "{found:?}");
    }
}

#[test]
fn accepts_a_short_or_blank_reason() {
    for reason in ["", "    ", "no"] {
        let patch: LeadPatch = valid(&format!(r#"{{"reason": "{reason}"}}"#));
        assert_eq!(patch.reason.into_string().as_deref(), Some(reason));
    }
    let long = format!(r#"{{"reason": "{}"}}"#, "x".repeat(2_001));
    assert_eq!(faults::<LeadPatch>(&long), ["reason: must have at most 2000 characters"]);
}

#[test]
fn the_fields_of_a_lead_patch_have_their_types() {
    refuses::<LeadPatch>(&[
        (r#"{"stage": 1}"#, "stage: must be a string"),
        (r#"{"stage": null}"#, "stage: must not be null"),
        (r#"{"reason": null}"#, "reason: must not be null"),
        (r#"{"owner": {"email": "a@b.c"}}"#, "owner: must be a string"),
        (r#"{"owner": "me"}"#, "owner: must be an email address"),
        (r#"{"owner": ""}"#, "owner: must not be empty"),
        (r#"{"followUp": 1}"#, "followUp: must be true or false"),
        (r#"{"followUp": "true"}"#, "followUp: must be true or false"),
        (r#"{"title": ""}"#, "title: must not be empty"),
    ]);
}
