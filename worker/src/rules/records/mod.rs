//! The records API's door to the rules (specification: Records routes; D17-D22). What a write does beyond its own checks,
//! it does through the functions that events use.
//!
//! A refused write leaves no trace: rules refuse before they change anything.

mod client;
mod lead;
mod trip;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use trip::NotApplied;

use super::{Cause, Context, InternalError, lead as leads};
use crate::state::{LedgerEntry, TenantState, TimelineEntry};
use chrono::{DateTime, Utc};
use common::limited;
use common::log_limit::LogLimit;
use common::model::{ClientId, LeadId};
use common::record::{ClientBody, LeadBody, LeadPatch, TripPatch};
use common::write::{IfMatch, WriteRefusal, etag};
use uuid::Uuid;

/// Which internal errors are logged.
static INTERNAL_ERRORS: LogLimit<1> = LogLimit::new();

/// A write whose body was read.
#[derive(Clone, Debug)]
pub enum Write {
    /// `POST /clients`
    NewClient(ClientBody),
    /// `PATCH /clients/{clientId}`
    Client(ClientId, ClientBody),
    /// `POST /leads`
    NewLead(Box<LeadBody>),
    /// `PATCH /leads/{leadId}`
    Lead(LeadId, LeadPatch),
    /// `PATCH /leads/{leadId}/trip`
    Trip(LeadId, Box<TripPatch>),
}

/// The record that a write leaves: what its answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A client.
    Client(ClientId),
    /// An enquiry.
    Lead(LeadId),
    /// The trip of an enquiry, and what became of the itinerary sent, if one was.
    Trip(LeadId, Option<Result<(), NotApplied>>),
}

/// What the ledger calls an itinerary that wasn't applied, before the reason.
const NOT_APPLIED: &str = "itinerary_not_applied:";

impl Record {
    /// What the ledger keeps of a write besides its ids.
    pub fn warnings(self) -> Vec<String> {
        match self {
            Self::Trip(_, Some(Err(reason))) => vec![format!("{NOT_APPLIED}{}", reason.as_str())],
            Self::Trip(_, Some(Ok(())) | None) | Self::Client(_) | Self::Lead(_) => Vec::new(),
        }
    }
}

/// A write with what the ledger and its effects name.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What is written.
    pub write: &'a Write,
    /// The body as sent.
    pub body: &'a [u8],
    /// `If-Match` of a PATCH.
    pub if_match: Option<&'a IfMatch>,
    /// Leave the itinerary out, on a second try after it could not be stored (D21b).
    pub skip_itinerary: bool,
    /// What the ledger knows it by: `connect-api:<request id>` (D17).
    pub event_id: &'a str,
    /// The request.
    pub request_id: Uuid,
    /// What its outbound events are due to.
    pub cause: Cause,
}

impl Write {
    /// What the ledger calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NewClient(_) => "client.created",
            Self::Client(..) => "client.changed",
            Self::NewLead(_) => "lead.opened",
            Self::Lead(..) => "lead.changed",
            Self::Trip(..) => "trip.changed",
        }
    }

    /// The record that it left when it was applied, by its entry in the ledger. `None` for what makes records: the answer
    /// to that is kept.
    pub fn record(&self, entry: &LedgerEntry) -> Option<Record> {
        match self {
            Self::NewClient(_) | Self::NewLead(_) => None,
            Self::Client(id, _) => Some(Record::Client(*id)),
            Self::Lead(id, _) => Some(Record::Lead(*id)),
            Self::Trip(id, patch) => {
                let reason = entry.warnings.iter().find_map(|warning| warning.strip_prefix(NOT_APPLIED));
                let outcome = reason.and_then(NotApplied::parse).map_or(Ok(()), Err);
                Some(Record::Trip(*id, patch.itinerary.is_sent().then_some(outcome)))
            }
        }
    }
}

/// Does a write. `skip_itinerary` leaves the itinerary out, on a second try after it couldn't be stored.
pub fn write(
    state: &mut TenantState,
    write: &Write,
    if_match: Option<&IfMatch>,
    skip_itinerary: bool,
    cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<Record, WriteRefusal> {
    match write {
        Write::NewClient(body) => client::create(state, body, ctx),
        Write::Client(id, body) => client::change(state, *id, body, if_match, ctx),
        Write::NewLead(body) => lead::open(state, body, cause, ctx),
        Write::Lead(id, patch) => lead::change(state, *id, patch, if_match, cause, ctx),
        Write::Trip(id, patch) => trip::change(state, *id, patch, if_match, skip_itinerary, cause, ctx),
    }
}

/// Does a write and enters it in the ledger; a lead that it opened also on the timeline, as `enquiry.submitted` is (D14,
/// D17).
pub fn apply(
    state: &mut TenantState,
    request: &Request<'_>,
    ctx: &mut Context<'_>,
) -> Result<Record, WriteRefusal> {
    let Request { if_match, skip_itinerary, ref cause, .. } = *request;
    let record = write(state, request.write, if_match, skip_itinerary, cause, ctx)?;
    let (client_id, lead_id) = match record {
        Record::Client(id) => (id, None),
        Record::Lead(id) | Record::Trip(id, _) => (leads::get(state, id)?.client_id, Some(id)),
    };
    if matches!(request.write, Write::NewLead(_)) {
        state.timeline.push(TimelineEntry {
            entry_id: (ctx.next_id)(),
            client_id,
            event_id: request.event_id.to_owned(),
            event_type: "enquiry.submitted".to_owned(),
            occurred_at: cause.occurred_at,
            origin: cause.origin.clone(),
            payload: std::str::from_utf8(request.body).ok().map(str::to_owned),
        });
    }
    state.enter(LedgerEntry {
        event_id: request.event_id.to_owned(),
        event_type: request.write.name().to_owned(),
        key_prefix: cause.key_prefix.clone().unwrap_or_default(),
        request_id: request.request_id,
        ordinal: 0,
        client_id: Some(client_id),
        lead_id,
        trip_id: lead_id.and_then(|id| leads::trip_id(state, id)),
        discovery_id: None,
        warnings: record.warnings(),
    });
    Ok(record)
}

impl From<InternalError> for WriteRefusal {
    fn from(error: InternalError) -> Self {
        limited!(INTERNAL_ERRORS[0], error, %error, "a rule found what can't be");
        Self::InternalError
    }
}

/// 412 when the condition names another version than the record has (D19).
fn check_version(if_match: Option<&IfMatch>, updated_at: DateTime<Utc>) -> Result<(), WriteRefusal> {
    match if_match {
        Some(condition) if !condition.admits(&etag(updated_at)) => {
            Err(WriteRefusal::StaleWrite { updated_at: common::clock::to_text(updated_at) })
        }
        Some(_) | None => Ok(()),
    }
}
