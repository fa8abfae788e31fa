//! Response bodies of records writes: the written record as the API shows it. Pure functions of the state after the write.

use crate::rules::InternalError;
use crate::rules::records::{NotApplied, Record};
use crate::state::{Lead, TenantState, Trip};
use chrono::{DateTime, Utc};
use common::model::{ClientId, Email, LeadId, Phone};
use common::view::{ClientView, LeadView, OwnerView, ProposalView, TripView};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The response body `{"data": ..}` of a record, and the record's version.
pub(crate) fn render(state: &TenantState, record: Record) -> Result<(Box<RawValue>, DateTime<Utc>), InternalError> {
    match record {
        Record::Client(id) => {
            let view = client(state, id)?;
            Ok((data(&view), view.updated_at))
        }
        Record::Lead(id) => {
            let view = lead(state, id)?;
            Ok((data(&view), view.updated_at))
        }
        Record::Trip(id, itinerary) => {
            let view = trip(state, id, itinerary)?;
            Ok((data(&view), view.updated_at))
        }
    }
}

/// The body of a dry run: without what a record gets when it is created, its ids, its enquiry number, and the owner, whose turn
/// depends on the number.
pub(crate) fn without_new_ids(state: &TenantState, record: Record, body: &RawValue) -> Box<RawValue> {
    let mut absent = match record {
        Record::Client(id) if state.clients().is_new(&id) => vec!["id"],
        Record::Lead(id) if state.leads.is_new(&id) => vec!["id", "enquiryNumber", "tripId", "owner"],
        Record::Client(_) | Record::Lead(_) | Record::Trip(..) => Vec::new(),
    };
    if let Record::Lead(id) = record
        && state.leads.get(&id).is_some_and(|lead| state.clients().is_new(&lead.client_id))
    {
        absent.push("clientId");
    }
    let mut shown: Value = serde_json::from_str(body.get()).expect("a body is JSON");
    if let Some(fields) = shown["data"].as_object_mut() {
        fields.retain(|name, _| !absent.contains(&name.as_str()));
    }
    to_raw_value(&shown).expect("it has string keys")
}

fn data(view: &impl serde::Serialize) -> Box<RawValue> {
    #[derive(serde::Serialize)]
    struct Data<'a, V> {
        data: &'a V,
    }
    to_raw_value(&Data { data: view }).expect("views have string keys")
}

fn client(state: &TenantState, id: ClientId) -> Result<ClientView, InternalError> {
    let client = state.client(id).ok_or(InternalError("the state holds a written client"))?;
    Ok(ClientView {
        id,
        name: client.name.clone(),
        email: client.email.as_ref().map(Email::as_str).map(str::to_owned),
        phone: client.phone.as_ref().map(Phone::as_str).map(str::to_owned),
        company: client.company.clone(),
        external_id: client.external_id.clone(),
        marketing_opt_in: client.marketing_opt_in,
        client_type: client.client_type.as_str().to_owned(),
        travelers: state.rosters.get(&id).map(|roster| roster.travelers.clone()).unwrap_or_default(),
        created_at: client.created_at,
        updated_at: client.updated_at,
    })
}

fn owner(state: &TenantState, lead: &Lead) -> Option<OwnerView> {
    let email = lead.owner.as_deref()?;
    let name = state.member(email).map_or(email, |member| member.name.as_str());
    Some(OwnerView { email: email.to_owned(), name: name.to_owned() })
}

fn lead(state: &TenantState, id: LeadId) -> Result<LeadView, InternalError> {
    let lead = crate::rules::lead::get(state, id)?;
    let trip = state.trip_of(id);
    Ok(LeadView {
        id,
        enquiry_number: lead.enquiry_number.clone(),
        title: lead.title.clone(),
        stage: lead.stage,
        follow_up: lead.follow_up,
        client_id: lead.client_id,
        trip_id: trip.map(|trip| trip.id),
        external_id: lead.external_id.clone(),
        owner: owner(state, lead),
        brief: trip.map_or(&lead.brief, |trip| &trip.brief).clone().into(),
        created_at: lead.created_at,
        updated_at: lead.updated_at,
    })
}

fn trip(state: &TenantState, id: LeadId, itinerary: Option<Result<(), NotApplied>>) -> Result<TripView, InternalError> {
    let lead = crate::rules::lead::get(state, id)?;
    let trip = state.trip_of(id).ok_or(InternalError("the state holds a written trip"))?;
    Ok(TripView {
        id: trip.id,
        lead_id: id,
        enquiry_number: lead.enquiry_number.clone(),
        title: trip.title.clone(),
        stage: lead.stage,
        brief: trip.brief.clone().into(),
        guest_nationality: trip.brief.guest_nationality.clone(),
        owner: owner(state, lead),
        proposal: proposal(state, trip)?,
        created_at: trip.created_at,
        updated_at: trip.updated_at,
        itinerary_applied: itinerary.map(|outcome| outcome.is_ok()),
        itinerary_not_applied_reason: itinerary.and_then(Result::err).map(NotApplied::as_str),
    })
}

fn proposal(state: &TenantState, trip: &Trip) -> Result<ProposalView, InternalError> {
    let newest = state.proposal_of(trip.id).ok_or(InternalError("a trip has a proposal"))?;
    Ok(ProposalView { status: newest.status.as_str().to_owned(), sent_at: newest.sent_at })
}
