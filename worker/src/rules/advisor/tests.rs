use super::*;
use crate::rules::testing::World;
use crate::state::{CreditState, Invoice, ProposalStatus, TenantState};
use common::advisor::AdvisorAction;
use common::event::OutboundType;
use serde_json::{Value, json};

/// An agency and an enquiry of Ana's, from which on what is emitted counts.
struct Desk {
    world: World,
    lead: LeadId,
}

/// What was emitted: type and payload.
type Emitted = Vec<(OutboundType, Value)>;

impl Desk {
    fn new() -> Self {
        Self::opened_by(json!({"action": "open-lead", "email": "ana@example.com", "name": "Ana"}))
    }

    /// One that was opened without a trip.
    fn without_trip() -> Self {
        Self::opened_by(json!({"action": "open-lead", "email": "ana@example.com", "noTrip": true}))
    }

    fn opened_by(body: Value) -> Self {
        let mut desk = Self { world: World::new(), lead: LeadId(uuid::Uuid::nil()) };
        desk.lead = desk.act(body).unwrap().lead_id;
        desk.world.state.outbox.clear();
        desk.world.state.notifications.clear();
        desk
    }

    /// Does an action as it would be published; `lead` is this desk's where none is given.
    fn act(&mut self, mut body: Value) -> Result<ActionDone, WriteRefusal> {
        body["tenant"] = json!("acme");
        let needs_lead = !["open-lead", "booking-cancel"].contains(&body["action"].as_str().unwrap());
        if needs_lead && body.get("lead").is_none() {
            body["lead"] = json!(self.lead);
        }
        let AdvisorAction { action, .. } = AdvisorAction::parse(body.to_string().as_bytes()).unwrap();
        let cause = Cause::crm(self.world.now);
        self.world.run(|state, ctx| {
            let lead = act(state, &action, &cause, ctx)?;
            done(state, lead, &action)
        })
    }

    /// Does an action that must be refused, and sees that it left no trace.
    #[track_caller]
    fn refused(&mut self, body: Value) -> WriteRefusal {
        let before = self.world.snapshot();
        let refusal = self.act(body).unwrap_err();
        assert_eq!(self.world.snapshot(), before);
        refusal
    }

    /// What was emitted since it was last asked for, each time as an act of the CRM's own.
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

    /// Versions of enquiry and trip.
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
fn an_enquiry_opens_with_a_trip_and_is_routed() {
    let mut desk = Desk::new();
    let done = desk.act(json!({"action": "open-lead", "email": "ben@example.com", "title": "Rome"})).unwrap();
    let lead = desk.world.lead(done.lead_id).clone();
    assert_eq!((lead.title.as_str(), lead.owner.as_deref()), ("Rome", Some("advisor@agency.com")));
    assert_eq!(
        (done.stage, done.trip_id.is_some(), done.proposal_id.is_some()),
        (Stage::Inquiry, true, true)
    );
    assert_eq!(desk.types(), [OutboundType::LeadAssigned]);
    assert_eq!(desk.state().notifications.len(), 1);
    assert!(desk.state().timeline.is_empty());
}

#[test]
fn an_enquiry_can_open_without_a_trip() {
    let mut desk = Desk::without_trip();
    let body =
        json!({"action": "open-lead", "email": "ana@example.com", "noTrip": true, "destination": "Goa"});
    let done = desk.act(body).unwrap();
    assert_eq!((done.trip_id, done.proposal_id), (None, None));
    assert_eq!(desk.world.lead(done.lead_id).brief.destination.as_deref(), Some("Goa"));
    assert_eq!(desk.state().trips.values().count(), 0);
}

#[test]
fn whose_enquiry_it_is_is_matched_made_or_named() {
    let mut desk = Desk::new();
    let ana = desk.world.lead(desk.lead).client_id;
    let matched = json!({"action": "open-lead", "email": "ANA@example.com", "name": "Ana B"});
    assert_eq!(desk.act(matched).unwrap().client_id, ana);
    assert_eq!(desk.world.client(ana).name, "Ana B");
    assert_eq!(desk.act(json!({"action": "open-lead", "client": ana})).unwrap().client_id, ana);
    let made = desk.act(json!({"action": "open-lead", "email": "new@example.com"})).unwrap().client_id;
    assert_eq!(desk.world.client(made).name, "new@example.com");
    for nobody in ["no id", "0190a5b2-0000-7000-8000-000000000001"] {
        assert_eq!(desk.refused(json!({"action": "open-lead", "client": nobody})), WriteRefusal::NotFound);
    }
}

#[test]
fn an_enquiry_that_is_not_there_is_not_found_whatever_is_done_with_it() {
    let mut desk = Desk::new();
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
            assert_eq!(desk.refused(body.clone()), WriteRefusal::NotFound, "{body}");
        }
    }
    assert_eq!(
        desk.refused(json!({"action": "booking-cancel", "bookingRef": "BR-1"})),
        WriteRefusal::NotFound
    );
}

#[test]
fn an_enquiry_is_assigned_to_a_member_who_is_told() {
    let mut desk = Desk::new();
    desk.world.members(&["advisor@agency.com", "ben@agency.com"]);
    desk.act(json!({"action": "assign", "owner": "Ben@Agency.com"})).unwrap();
    assert_eq!(desk.world.lead(desk.lead).owner.as_deref(), Some("ben@agency.com"));
    let [(OutboundType::LeadAssigned, payload)] = &desk.emitted()[..] else { panic!() };
    assert_eq!(payload["previousOwner"]["email"], "advisor@agency.com");
    let [told] = &desk.state().notifications[..] else { panic!() };
    assert_eq!(told.to, "ben@agency.com");
    desk.act(json!({"action": "assign", "owner": "ben@agency.com"})).unwrap();
    assert!(desk.emitted().is_empty());
    let stranger = json!({"action": "assign", "owner": "stranger@agency.com"});
    assert_eq!(desk.refused(stranger), WriteRefusal::OwnerNotMember);
}

#[test]
fn every_stage_can_be_set() {
    for stage in Stage::ALL {
        let mut desk = Desk::new();
        let done = desk.act(json!({"action": "stage", "stage": stage, "reason": " too dear "})).unwrap();
        assert_eq!((done.stage, desk.world.lead(desk.lead).stage), (stage, stage));
        let lost_reason = (stage == Stage::Lost).then_some("too dear");
        assert_eq!(desk.world.lead(desk.lead).lost_reason.as_deref(), lost_reason);
        if stage != Stage::Inquiry {
            let [(OutboundType::LeadStageChanged, payload)] = &desk.emitted()[..] else { panic!() };
            assert_eq!((&payload["to"], &payload["reason"]), (&json!(stage), &json!("too dear")));
        }
    }
}

#[test]
fn lost_needs_a_reason_and_work_on_a_proposal_a_trip() {
    let mut desk = Desk::without_trip();
    for reason in [json!({}), json!({"reason": ""}), json!({"reason": "  1234  "})] {
        let mut body = json!({"action": "stage", "stage": "lost"});
        body.as_object_mut().unwrap().extend(reason.as_object().unwrap().clone());
        assert_eq!(desk.refused(body), WriteRefusal::ReasonRequired);
    }
    for stage in [Stage::BuildingProposal, Stage::Negotiation] {
        let body = json!({"action": "stage", "stage": stage});
        assert_eq!(desk.refused(body), WriteRefusal::StageNotAllowed);
    }
    desk.act(json!({"action": "stage", "stage": "lost", "reason": "12345"})).unwrap();
}

#[test]
fn archive_and_travelled_are_stages() {
    let mut desk = Desk::new();
    for (action, stage) in [("archive", Stage::Archived), ("travelled", Stage::Travelled)] {
        assert_eq!(desk.act(json!({"action": action})).unwrap().stage, stage);
        let [(OutboundType::LeadStageChanged, payload)] = &desk.emitted()[..] else { panic!() };
        assert_eq!((&payload["to"], &payload["reason"]), (&json!(stage), &Value::Null));
        desk.act(json!({"action": action})).unwrap();
        assert!(desk.emitted().is_empty(), "it is there already");
    }
}

#[test]
fn a_proposal_is_sent_viewed_and_sent_again() {
    let mut desk = Desk::new();
    let versions = desk.versions();
    let done = desk.act(send()).unwrap();
    assert!(desk.versions().iter().zip(versions).all(|(now, before)| *now > before));
    assert_eq!((desk.status(), desk.proposal().sent_at), (ProposalStatus::Sent, Some(desk.world.now)));
    let facts = json!({
        "leadId": desk.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "proposalId": done.proposal_id, "title": "Goa", "proposalUrl": "https://proposals.example/1",
        "channel": "email", "sentAt": "2026-05-01T12:00:00.000Z",
    });
    assert_eq!(desk.emitted(), [(OutboundType::ProposalSent, facts.clone())]);

    desk.world.now += chrono::TimeDelta::hours(1);
    desk.act(json!({"action": "proposal-view"})).unwrap();
    assert_eq!((desk.status(), desk.proposal().viewed_at), (ProposalStatus::Viewed, Some(desk.world.now)));
    let mut viewed = facts;
    viewed["viewedAt"] = json!("2026-05-01T13:00:00.000Z");
    assert_eq!(desk.emitted(), [(OutboundType::ProposalViewed, viewed)]);
    let versions = desk.versions();
    desk.act(json!({"action": "proposal-view"})).unwrap();
    assert!(desk.emitted().is_empty() && desk.versions() == versions, "once is enough");

    desk.act(send()).unwrap();
    assert_eq!((desk.status(), desk.proposal().viewed_at), (ProposalStatus::Sent, None));
    let [(OutboundType::ProposalSent, again)] = &desk.emitted()[..] else { panic!() };
    assert_eq!(again["sentAt"], "2026-05-01T13:00:00.000Z");
}

#[test]
fn a_proposal_is_discarded_and_can_be_sent_after_all() {
    let mut desk = Desk::new();
    let versions = desk.versions();
    desk.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(desk.status(), ProposalStatus::Discarded);
    assert!(desk.versions().iter().zip(versions).all(|(now, before)| *now > before));
    let versions = desk.versions();
    desk.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(desk.versions(), versions);
    assert_eq!(desk.refused(json!({"action": "proposal-view"})), WriteRefusal::ProposalNotSent);
    assert!(desk.emitted().is_empty());
    desk.act(send()).unwrap();
    assert_eq!((desk.status(), desk.types()), (ProposalStatus::Sent, vec![OutboundType::ProposalSent]));
    desk.act(json!({"action": "proposal-discard"})).unwrap();
    assert_eq!(desk.status(), ProposalStatus::Discarded);
}

#[test]
fn a_draft_is_not_viewed_and_without_a_trip_there_is_no_proposal() {
    let mut desk = Desk::new();
    assert_eq!(desk.refused(json!({"action": "proposal-view"})), WriteRefusal::ProposalNotSent);
    let mut desk = Desk::without_trip();
    for body in [send(), json!({"action": "proposal-view"}), json!({"action": "proposal-discard"})] {
        assert_eq!(desk.refused(body), WriteRefusal::TripNotOpen);
    }
}

#[test]
fn a_booking_is_confirmed_with_its_invoice_and_books_the_enquiry() {
    let mut desk = Desk::new();
    let mut body = confirm("BR-1");
    body["creditUsed"] = json!(250);
    let done = desk.act(body).unwrap();
    assert_eq!((done.stage, done.booking_ref.as_deref()), (Stage::TripBooked, Some("BR-1")));
    let invoice = desk.invoice("BR-1");
    assert_eq!((invoice.amount, invoice.credit_used), (Some(Money(100_050)), Some(Money(25_000))));
    assert_eq!((invoice.currency.as_deref(), invoice.trip_id), (Some("INR"), done.trip_id));
    assert_eq!(invoice.credit_state, CreditState::Pending);
    let emitted = desk.emitted();
    let [(OutboundType::LeadStageChanged, _), (OutboundType::BookingConfirmed, payload)] = &emitted[..]
    else {
        panic!("{emitted:?}")
    };
    assert_eq!((&payload["amount"], &payload["creditUsed"]), (&json!(1000.5), &json!(250)));
    assert_eq!((&payload["bookingRef"], &payload["currency"]), (&json!("BR-1"), &json!("INR")));
}

#[test]
fn a_booking_that_was_confirmed_before_changes_nothing() {
    let mut desk = Desk::new();
    desk.act(confirm("BR-1")).unwrap();
    desk.act(json!({"action": "travelled"})).unwrap();
    desk.emitted();
    let before = desk.world.snapshot();
    let done = desk.act(confirm("BR-1")).unwrap();
    assert_eq!((done.stage, done.booking_ref.as_deref()), (Stage::Travelled, Some("BR-1")));
    assert_eq!(desk.world.snapshot(), before);
}

#[test]
fn a_reference_is_one_enquirys() {
    let mut desk = Desk::new();
    desk.act(confirm("BR-1")).unwrap();
    let first = desk.lead;
    desk.lead = desk.act(json!({"action": "open-lead", "email": "ben@example.com"})).unwrap().lead_id;
    let conflict = WriteRefusal::BookingRefConflict { lead_id: first };
    assert_eq!(desk.refused(confirm("BR-1")), conflict);
    assert_eq!(conflict.body()["leadId"], json!(first));
    desk.act(confirm("BR-2")).unwrap();
}

#[test]
fn a_booking_without_a_trip_and_without_an_amount_is_one_too() {
    let mut desk = Desk::without_trip();
    let body = json!({"action": "booking-confirm", "bookingRef": "BR-1"});
    assert_eq!(desk.act(body).unwrap().stage, Stage::TripBooked);
    assert_eq!((desk.invoice("BR-1").trip_id, desk.invoice("BR-1").amount), (None, None));
}

#[test]
fn a_booking_is_cancelled_once_and_the_stage_stays() {
    let mut desk = Desk::new();
    desk.act(confirm("BR-1")).unwrap();
    desk.emitted();
    let body = json!({"action": "booking-cancel", "bookingRef": " BR-1 ", "reason": "illness"});
    let done = desk.act(body.clone()).unwrap();
    assert_eq!((done.lead_id, done.stage), (desk.lead, Stage::TripBooked));
    assert_eq!(done.booking_ref.as_deref(), Some("BR-1"));
    assert_eq!(desk.invoice("BR-1").cancelled_at, Some(desk.world.now));
    let expected = json!({
        "leadId": desk.lead, "tripId": done.trip_id, "clientId": done.client_id, "enquiryNumber": "ENQ-2026-000001",
        "bookingRef": "BR-1", "reason": "illness",
    });
    assert_eq!(desk.emitted(), [(OutboundType::BookingCancelled, expected)]);
    let before = desk.world.snapshot();
    assert_eq!(desk.act(body).unwrap(), done);
    assert_eq!(desk.world.snapshot(), before);
}

#[test]
fn a_booking_that_an_event_made_is_cancelled_by_its_reference() {
    let mut desk = Desk::new();
    let booked = desk.world.booking("BR-7", 0);
    desk.world.state.outbox.clear();
    let done = desk.act(json!({"action": "booking-cancel", "bookingRef": "BR-7"})).unwrap();
    assert_eq!(Some(done.lead_id), booked.lead_id);
    let [(OutboundType::BookingCancelled, payload)] = &desk.emitted()[..] else { panic!() };
    assert_eq!((&payload["bookingRef"], &payload["reason"]), (&json!("BR-7"), &Value::Null));
}
