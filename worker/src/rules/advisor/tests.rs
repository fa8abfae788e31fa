use super::*;
use crate::rules::testing::{World, refusal};
use crate::state::{CreditState, Invoice, ProposalStatus, TenantState};
use common::advisor::AdvisorAction;
use common::event::OutboundType;
use serde_json::{Value, json};

/// A tenant with a lead of Ana's. Events emitted after its opening are recorded.
struct AdvisorFixture {
    world: World,
    lead: LeadId,
}

/// Emitted events: type and payload.
type Emitted = Vec<(OutboundType, Value)>;

impl AdvisorFixture {
    fn new() -> Self {
        Self::opened_by(json!({"action": "open-lead", "email": "ana@example.com", "name": "Ana"}))
    }

    /// With a lead that was opened without a trip.
    fn without_trip() -> Self {
        Self::opened_by(json!({"action": "open-lead", "email": "ana@example.com", "noTrip": true}))
    }

    fn opened_by(body: Value) -> Self {
        let mut fixture = Self { world: World::new(), lead: LeadId(uuid::Uuid::nil()) };
        fixture.lead = fixture.act(body).unwrap().lead_id;
        fixture.world.state.outbox.clear();
        fixture.world.state.notifications.clear();
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

    /// Removes and returns the emitted events; checks that each has the CRM as its origin.
    fn emitted(&mut self) -> Emitted {
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

    fn invoice(&self, booking_ref: &str) -> &Invoice {
        self.state().invoices.get(&booking_ref.to_owned()).unwrap()
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
fn a_lead_opens_with_a_trip_and_is_routed() {
    let mut fixture = AdvisorFixture::new();
    let done =
        fixture.act(json!({"action": "open-lead", "email": "ben@example.com", "title": "Rome"})).unwrap();
    let lead = fixture.world.lead(done.lead_id).clone();
    assert_eq!((lead.title.as_str(), lead.owner.as_deref()), ("Rome", Some("advisor@agency.com")));
    assert_eq!(
        (done.stage, done.trip_id.is_some(), done.proposal_id.is_some()),
        (Stage::Inquiry, true, true)
    );
    assert_eq!(fixture.types(), [OutboundType::LeadAssigned]);
    assert_eq!(fixture.state().notifications.len(), 1);
    assert!(fixture.state().timeline.is_empty());
}

#[test]
fn a_lead_can_open_without_a_trip() {
    let mut fixture = AdvisorFixture::without_trip();
    let body =
        json!({"action": "open-lead", "email": "ana@example.com", "noTrip": true, "destination": "Goa"});
    let done = fixture.act(body).unwrap();
    assert_eq!((done.trip_id, done.proposal_id), (None, None));
    assert_eq!(fixture.world.lead(done.lead_id).brief.destination.as_deref(), Some("Goa"));
    assert_eq!(fixture.state().trips.values().count(), 0);
}

#[test]
fn the_client_of_a_lead_is_matched_created_or_given_by_id() {
    let mut fixture = AdvisorFixture::new();
    let ana = fixture.world.lead(fixture.lead).client_id;
    let matched = json!({"action": "open-lead", "email": "ANA@example.com", "name": "Ana B"});
    assert_eq!(fixture.act(matched).unwrap().client_id, ana);
    assert_eq!(fixture.world.client(ana).name, "Ana B");
    assert_eq!(fixture.act(json!({"action": "open-lead", "client": ana})).unwrap().client_id, ana);
    let made = fixture.act(json!({"action": "open-lead", "email": "new@example.com"})).unwrap().client_id;
    assert_eq!(fixture.world.client(made).name, "new@example.com");
    for nobody in ["no id", "0190a5b2-0000-7000-8000-000000000001"] {
        assert_eq!(fixture.refused(json!({"action": "open-lead", "client": nobody})), WriteRefusal::NotFound);
    }
}

#[test]
fn every_action_on_a_missing_lead_is_refused_as_not_found() {
    let mut fixture = AdvisorFixture::new();
    for lead in ["no id", "0190a5b2-0000-7000-8000-000000000001"] {
        for mut body in [
            json!({"action": "assign", "owner": "advisor@agency.com"}),
            json!({"action": "stage", "stage": "follow_up"}),
            json!({"action": "archive"}),
            json!({"action": "travelled"}),
            send(),
            json!({"action": "proposal-view"}),
            json!({"action": "proposal-discard"}),
            confirm("BR-1"),
        ] {
            body["lead"] = json!(lead);
            assert_eq!(fixture.refused(body.clone()), WriteRefusal::NotFound, "{body}");
        }
    }
    assert_eq!(
        fixture.refused(json!({"action": "booking-cancel", "bookingRef": "BR-1"})),
        WriteRefusal::NotFound
    );
}

#[test]
fn a_lead_is_assigned_to_a_member_who_is_notified() {
    let mut fixture = AdvisorFixture::new();
    fixture.world.members(&["advisor@agency.com", "ben@agency.com"]);
    fixture.act(json!({"action": "assign", "owner": "Ben@Agency.com"})).unwrap();
    assert_eq!(fixture.world.lead(fixture.lead).owner.as_deref(), Some("ben@agency.com"));
    let [(OutboundType::LeadAssigned, payload)] = &fixture.emitted()[..] else { panic!() };
    assert_eq!(payload["previousOwner"]["email"], "advisor@agency.com");
    let [told] = &fixture.state().notifications[..] else { panic!() };
    assert_eq!(told.to, "ben@agency.com");
    fixture.act(json!({"action": "assign", "owner": "ben@agency.com"})).unwrap();
    assert!(fixture.emitted().is_empty());
    let stranger = json!({"action": "assign", "owner": "stranger@agency.com"});
    assert_eq!(fixture.refused(stranger), WriteRefusal::OwnerNotMember);
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
fn lost_requires_a_reason_and_proposal_stages_require_a_trip() {
    let mut fixture = AdvisorFixture::without_trip();
    for reason in [json!({}), json!({"reason": ""}), json!({"reason": "  1234  "})] {
        let mut body = json!({"action": "stage", "stage": "lost"});
        body.as_object_mut().unwrap().extend(reason.as_object().unwrap().clone());
        assert_eq!(fixture.refused(body), WriteRefusal::ReasonRequired);
    }
    for stage in [Stage::BuildingProposal, Stage::Negotiation] {
        let body = json!({"action": "stage", "stage": stage});
        assert_eq!(fixture.refused(body), WriteRefusal::StageNotAllowed);
    }
    fixture.act(json!({"action": "stage", "stage": "lost", "reason": "12345"})).unwrap();
}

#[test]
fn archive_and_travelled_move_the_stage() {
    let mut fixture = AdvisorFixture::new();
    for (action, stage) in [("archive", Stage::Archived), ("travelled", Stage::Travelled)] {
        assert_eq!(fixture.act(json!({"action": action})).unwrap().stage, stage);
        let [(OutboundType::LeadStageChanged, payload)] = &fixture.emitted()[..] else { panic!() };
        assert_eq!((&payload["to"], &payload["reason"]), (&json!(stage), &Value::Null));
        fixture.act(json!({"action": action})).unwrap();
        assert!(fixture.emitted().is_empty(), "it is there already");
    }
}

#[test]
fn a_proposal_is_sent_viewed_and_sent_again() {
    let mut fixture = AdvisorFixture::new();
    let versions = fixture.versions();
    let done = fixture.act(send()).unwrap();
    assert!(fixture.versions().iter().zip(versions).all(|(now, before)| *now > before));
    assert_eq!(
        (fixture.status(), fixture.proposal().sent_at),
        (ProposalStatus::Sent, Some(fixture.world.now))
    );
    let facts = json!({
        "leadId": fixture.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "proposalId": done.proposal_id, "title": "Goa", "proposalUrl": "https://proposals.example/1",
        "channel": "email", "sentAt": "2026-05-01T12:00:00.000Z",
    });
    assert_eq!(fixture.emitted(), [(OutboundType::ProposalSent, facts.clone())]);

    fixture.world.now += chrono::TimeDelta::hours(1);
    fixture.act(json!({"action": "proposal-view"})).unwrap();
    assert_eq!(
        (fixture.status(), fixture.proposal().viewed_at),
        (ProposalStatus::Viewed, Some(fixture.world.now))
    );
    let mut viewed = facts;
    viewed["viewedAt"] = json!("2026-05-01T13:00:00.000Z");
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
fn a_draft_cannot_be_viewed_and_without_a_trip_there_is_no_proposal() {
    let mut fixture = AdvisorFixture::new();
    assert_eq!(fixture.refused(json!({"action": "proposal-view"})), WriteRefusal::ProposalNotSent);
    let mut fixture = AdvisorFixture::without_trip();
    for body in [send(), json!({"action": "proposal-view"}), json!({"action": "proposal-discard"})] {
        assert_eq!(fixture.refused(body), WriteRefusal::TripNotOpen);
    }
}

#[test]
fn a_booking_is_confirmed_with_its_invoice_and_books_the_lead() {
    let mut fixture = AdvisorFixture::new();
    let mut body = confirm("BR-1");
    body["creditUsed"] = json!(250);
    let done = fixture.act(body).unwrap();
    assert_eq!((done.stage, done.booking_ref.as_deref()), (Stage::TripBooked, Some("BR-1")));
    let invoice = fixture.invoice("BR-1");
    assert_eq!((invoice.amount, invoice.credit_used), (Some(Money(100_050)), Some(Money(25_000))));
    assert_eq!((invoice.currency.as_deref(), invoice.trip_id), (Some("INR"), done.trip_id));
    assert_eq!(invoice.credit_state, CreditState::Pending);
    let emitted = fixture.emitted();
    let [(OutboundType::LeadStageChanged, _), (OutboundType::BookingConfirmed, payload)] = &emitted[..]
    else {
        panic!("{emitted:?}")
    };
    assert_eq!((&payload["amount"], &payload["creditUsed"]), (&json!(1000.5), &json!(250)));
    assert_eq!((&payload["bookingRef"], &payload["currency"]), (&json!("BR-1"), &json!("INR")));
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
fn a_booking_reference_belongs_to_one_lead() {
    let mut fixture = AdvisorFixture::new();
    fixture.act(confirm("BR-1")).unwrap();
    let first = fixture.lead;
    fixture.lead = fixture.act(json!({"action": "open-lead", "email": "ben@example.com"})).unwrap().lead_id;
    let conflict = WriteRefusal::BookingRefConflict { lead_id: first };
    assert_eq!(fixture.refused(confirm("BR-1")), conflict);
    assert_eq!(conflict.body()["leadId"], json!(first));
    fixture.act(confirm("BR-2")).unwrap();
}

#[test]
fn a_lead_without_a_trip_can_be_booked_without_an_amount() {
    let mut fixture = AdvisorFixture::without_trip();
    let body = json!({"action": "booking-confirm", "bookingRef": "BR-1"});
    assert_eq!(fixture.act(body).unwrap().stage, Stage::TripBooked);
    assert_eq!((fixture.invoice("BR-1").trip_id, fixture.invoice("BR-1").amount), (None, None));
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
    assert_eq!(fixture.invoice("BR-1").cancelled_at, Some(fixture.world.now));
    let expected = json!({
        "leadId": fixture.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "bookingRef": "BR-1", "reason": "illness",
    });
    assert_eq!(fixture.emitted(), [(OutboundType::BookingCancelled, expected)]);
    let before = fixture.world.snapshot();
    assert_eq!(fixture.act(body).unwrap(), done);
    assert_eq!(fixture.world.snapshot(), before);
}

#[test]
fn the_reference_of_a_cancelled_booking_is_not_used_again() {
    let mut fixture = AdvisorFixture::new();
    fixture.act(confirm("BR-1")).unwrap();
    fixture.act(json!({"action": "booking-cancel", "bookingRef": "BR-1"})).unwrap();
    let before = fixture.world.snapshot();
    let refusal = WriteRefusal::BookingCancelled { lead_id: fixture.lead };
    assert_eq!(fixture.refused(confirm("BR-1")), refusal);
    assert_eq!(fixture.world.snapshot(), before);
    let lead = fixture.lead;
    fixture.lead = fixture.act(json!({"action": "open-lead", "email": "ben@example.com"})).unwrap().lead_id;
    assert_eq!(fixture.refused(confirm("BR-1")), refusal, "not for another lead either");
    fixture.lead = lead;
    assert_eq!(fixture.act(confirm("BR-2")).unwrap().booking_ref.as_deref(), Some("BR-2"));
}

#[test]
fn a_booking_made_by_an_event_is_cancelled_by_its_reference() {
    let mut fixture = AdvisorFixture::new();
    let booked = fixture.world.booking("BR-7", 0);
    fixture.world.state.outbox.clear();
    let done = fixture.act(json!({"action": "booking-cancel", "bookingRef": "BR-7"})).unwrap();
    assert_eq!(Some(done.lead_id), booked.lead_id);
    let [(OutboundType::BookingCancelled, payload)] = &fixture.emitted()[..] else { panic!() };
    assert_eq!((&payload["bookingRef"], &payload["reason"]), (&json!("BR-7"), &Value::Null));
}
