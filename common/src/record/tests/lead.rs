//! The lead body, the patch of a lead, and the texts of a trip patch.

use super::valid;
use crate::event::Actor;
use crate::model::Stage;
use crate::record::{LeadBody, LeadPatch};
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
fn a_marketing_block_without_text_is_none() {
    for nothing in ["{}", r#"{"source": ""}"#] {
        let lead: LeadBody = valid(&format!(r#"{{"attribution": {nothing}}}"#));
        assert_eq!(lead.attribution.get().unwrap().block(), None);
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
