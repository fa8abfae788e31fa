use super::*;
use crate::rules::testing::{World, refusal};
use crate::state::{ProposalStatus, TenantState};
use common::advisor::AdvisorAction;
use common::event::OutboundType;
use serde_json::{Value, json};

/// A tenant with a lead of Ana's. Events emitted after its opening are recorded.
struct AdvisorFixture {
    world: World,
    lead: LeadId,
}

impl AdvisorFixture {
    fn new() -> Self {
        let mut fixture = Self { world: World::new(), lead: LeadId(uuid::Uuid::nil()) };
        let open = json!({"action": "open-lead", "email": "ana@example.com", "name": "Ana"});
        fixture.lead = fixture.act(open).unwrap().lead_id;
        fixture.world.state.outbox.clear();
        fixture
    }

    /// Applies an action as it would be published; `lead` is this tenant's lead if none is given.
    fn act(&mut self, mut body: Value) -> Result<ActionReply, WriteRefusal> {
        body["tenant"] = json!("acme");
        let needs_lead = !["open-lead", "booking-cancel"].contains(&body["action"].as_str().unwrap());
        if needs_lead && body.get("lead").is_none() {
            body["lead"] = json!(self.lead);
        }
        let AdvisorAction { action, .. } = AdvisorAction::parse(body.to_string().as_bytes()).unwrap();
        let cause = Cause::crm(self.world.now);
        self.world.run(|state, ctx| {
            let lead = act(state, &action, &cause, ctx).map_err(refusal)?;
            Ok(reply_to(state, lead, &action).unwrap())
        })
    }

    /// Applies an action that must be refused, and checks that it did not change the state.
    #[track_caller]
    fn refused(&mut self, body: Value) -> WriteRefusal {
        let before = self.world.snapshot();
        let refusal = self.act(body).unwrap_err();
        assert_eq!(self.world.snapshot(), before);
        refusal
    }

    /// Removes the emitted events and returns their types and payloads; checks that each has the CRM as its origin.
    fn emitted(&mut self) -> Vec<(OutboundType, Value)> {
        let events = std::mem::take(&mut self.world.state.outbox);
        assert!(events.iter().all(|event| event.origin == "crm" && event.key_prefix.is_none()));
        events.into_iter().map(|event| (event.event_type, event.payload)).collect()
    }

    fn types(&mut self) -> Vec<OutboundType> {
        self.emitted().into_iter().map(|(event_type, _)| event_type).collect()
    }

    fn state(&self) -> &TenantState {
        &self.world.state
    }

    fn status(&self) -> ProposalStatus {
        self.proposal().status
    }

    fn proposal(&self) -> &crate::state::Proposal {
        let trip = self.state().trip_of(self.lead).unwrap();
        self.state().proposal_of(trip.id).unwrap()
    }

    /// Versions of lead and trip.
    fn versions(&self) -> [chrono::DateTime<chrono::Utc>; 2] {
        [self.world.lead(self.lead).updated_at, self.state().trip_of(self.lead).unwrap().updated_at]
    }
}

fn send() -> Value {
    json!({"action": "proposal-send", "title": "Goa", "url": "https://proposals.example/1", "channel": "email"})
}

fn confirm(booking_ref: &str) -> Value {
    json!({"action": "booking-confirm", "bookingRef": booking_ref, "amount": "1000.50", "currency": "INR"})
}

#[test]
fn a_reason_of_invisible_characters_is_none() {
    let mut fixture = AdvisorFixture::new();
    fixture.act(json!({"action": "stage", "stage": "follow_up", "reason": "\u{200b}"})).unwrap();
    let [(OutboundType::LeadStageChanged, payload)] = &fixture.emitted()[..] else { panic!() };
    assert_eq!(payload.get("reason").filter(|reason| !reason.is_null()), None);
}

#[test]
fn every_stage_can_be_set() {
    for stage in Stage::ALL {
        let mut fixture = AdvisorFixture::new();
        let done = fixture.act(json!({"action": "stage", "stage": stage, "reason": " too dear "})).unwrap();
        assert_eq!((done.stage, fixture.world.lead(fixture.lead).stage), (stage, stage));
        let lost_reason = (stage == Stage::Lost).then_some("too dear");
        assert_eq!(fixture.world.lead(fixture.lead).lost_reason.as_deref(), lost_reason);
        if stage != Stage::Inquiry {
            let [(OutboundType::LeadStageChanged, payload)] = &fixture.emitted()[..] else { panic!() };
            assert_eq!((&payload["to"], &payload["reason"]), (&json!(stage), &json!("too dear")));
        }
    }
}

#[test]
fn a_proposal_is_sent_viewed_and_sent_again() {
    let mut fixture = AdvisorFixture::new();
    let versions = fixture.versions();
    let done = fixture.act(send()).unwrap();
    assert!(fixture.versions().iter().zip(versions).all(|(now, before)| *now > before));
    let expected = (ProposalStatus::Sent, Some(fixture.world.now));
    assert_eq!((fixture.status(), fixture.proposal().sent_at), expected);
    let facts = json!({
        "leadId": fixture.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "proposalId": done.proposal_id, "title": "Goa", "proposalUrl": "https://proposals.example/1",
        "channel": "email", "sentAt": "2026-05-01T12:00:00.000Z", "version": "2026-05-01T12:00:00.001Z",
    });
    assert_eq!(fixture.emitted(), [(OutboundType::ProposalSent, facts.clone())]);

    fixture.world.now += chrono::TimeDelta::hours(1);
    fixture.act(json!({"action": "proposal-view"})).unwrap();
    let expected = (ProposalStatus::Viewed, Some(fixture.world.now));
    assert_eq!((fixture.status(), fixture.proposal().viewed_at), expected);
    let mut viewed = facts;
    viewed["viewedAt"] = json!("2026-05-01T13:00:00.000Z");
    viewed["version"] = viewed["viewedAt"].clone();
    assert_eq!(fixture.emitted(), [(OutboundType::ProposalViewed, viewed)]);
    let versions = fixture.versions();
    fixture.act(json!({"action": "proposal-view"})).unwrap();
    assert!(fixture.emitted().is_empty() && fixture.versions() == versions, "once is enough");

    fixture.act(send()).unwrap();
    assert_eq!((fixture.status(), fixture.proposal().viewed_at), (ProposalStatus::Sent, None));
    let [(OutboundType::ProposalSent, again)] = &fixture.emitted()[..] else { panic!() };
    assert_eq!(again["sentAt"], "2026-05-01T13:00:00.000Z");
}

#[test]
fn a_discarded_proposal_can_be_sent() {
    let mut fixture = AdvisorFixture::new();
    let versions = fixture.versions();
    fixture.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(fixture.status(), ProposalStatus::Discarded);
    assert!(fixture.versions().iter().zip(versions).all(|(now, before)| *now > before));
    let versions = fixture.versions();
    fixture.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(fixture.versions(), versions);
    assert_eq!(fixture.refused(json!({"action": "proposal-view"})), WriteRefusal::ProposalNotSent);
    assert!(fixture.emitted().is_empty());
    fixture.act(send()).unwrap();
    assert_eq!((fixture.status(), fixture.types()), (ProposalStatus::Sent, vec![OutboundType::ProposalSent]));
    fixture.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(fixture.status(), ProposalStatus::Discarded);
}

#[test]
fn a_booking_that_was_confirmed_before_changes_nothing() {
    let mut fixture = AdvisorFixture::new();
    fixture.act(confirm("BR-1")).unwrap();
    fixture.act(json!({"action": "travelled"})).unwrap();
    fixture.emitted();
    let before = fixture.world.snapshot();
    let done = fixture.act(confirm("BR-1")).unwrap();
    assert_eq!((done.stage, done.booking_ref.as_deref()), (Stage::Travelled, Some("BR-1")));
    assert_eq!(fixture.world.snapshot(), before);
}

#[test]
fn a_booking_is_cancelled_once_and_the_stage_does_not_change() {
    let mut fixture = AdvisorFixture::new();
    fixture.act(confirm("BR-1")).unwrap();
    fixture.emitted();
    let body = json!({"action": "booking-cancel", "bookingRef": " BR-1 ", "reason": "illness"});
    let done = fixture.act(body.clone()).unwrap();
    assert_eq!((done.lead_id, done.stage), (fixture.lead, Stage::TripBooked));
    assert_eq!(done.booking_ref.as_deref(), Some("BR-1"));
    let expected = Some(fixture.world.now);
    assert_eq!(fixture.state().invoices.get(&"BR-1".to_owned()).unwrap().cancelled_at, expected);
    let expected = json!({
        "leadId": fixture.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "bookingRef": "BR-1", "reason": "illness", "version": "2026-05-01T12:00:00.003Z",
    });
    assert_eq!(fixture.emitted(), [(OutboundType::BookingCancelled, expected)]);
    let before = fixture.world.snapshot();
    assert_eq!(fixture.act(body).unwrap(), done);
    assert_eq!(fixture.world.snapshot(), before);
}
