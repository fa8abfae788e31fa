//! The rules of records writes (specification: Records routes; D17-D22). Apart from its own checks, a write uses the same
//! functions as events.
//!
//! A refused write does not change the state: rules refuse before they change anything.

mod client;
mod lead;
mod trip;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use trip::NotApplied;

use super::{Cause, Context, WriteError, lead as leads};
use crate::state::{LedgerEntry, TenantState, TimelineEntry};
use chrono::{DateTime, Utc};
use common::model::{ClientId, LeadId};
use common::record::{ClientBody, LeadBody, LeadPatch, TripPatch};
use common::trace::RequestContext;
use common::version::etag;
use common::write::{IfMatch, WriteRefusal};
use uuid::Uuid;

/// A write with its parsed body.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// Creates a client: `POST /clients`
    NewClient(ClientBody),
    /// Changes a client: `PATCH /clients/{clientId}`
    Client(ClientId, ClientBody),
    /// Opens a lead: `POST /leads`
    NewLead(Box<LeadBody>),
    /// Changes a lead: `PATCH /leads/{leadId}`
    Lead(LeadId, LeadPatch),
    /// Changes the trip of a lead: `PATCH /leads/{leadId}/trip`
    Trip(LeadId, Box<TripPatch>),
}

/// The record that a write has created or changed, and that its response shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The client with this id.
    Client(ClientId),
    /// The lead with this id.
    Lead(LeadId),
    /// The trip of this lead, and whether the itinerary was applied, if one was sent.
    Trip(LeadId, Option<Result<(), NotApplied>>),
}

/// Prefix of a warning in the ledger: the itinerary was not applied. The reason follows.
const NOT_APPLIED: &str = "itinerary_not_applied:";

impl Record {
    /// The warnings of the write's ledger entry.
    pub(crate) fn warnings(self) -> Vec<String> {
        match self {
            Self::Trip(_, Some(Err(reason))) => vec![format!("{NOT_APPLIED}{}", reason.as_str())],
            Self::Trip(_, Some(Ok(())) | None) | Self::Client(_) | Self::Lead(_) => Vec::new(),
        }
    }
}

/// A write with its conditions, and the ids for its ledger entry and its outbound events.
#[derive(Clone, Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) write: &'a Write,
    /// The body as sent.
    pub(crate) body: &'a [u8],
    /// `If-Match` of a PATCH.
    pub(crate) if_match: Option<&'a IfMatch>,
    /// Whether to leave the itinerary out, for a retry after it could not be stored (D21b).
    pub(crate) skip_itinerary: bool,
    /// Its event id in the ledger: `connect-api:<request id>` (D17).
    pub(crate) event_id: &'a str,
    pub(crate) request_id: Uuid,
    /// The cause of its outbound events.
    pub(crate) cause: Cause,
}

impl Write {
    /// Its event type in the ledger.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::NewClient(_) => "client.created",
            Self::Client(..) => "client.changed",
            Self::NewLead(_) => "lead.opened",
            Self::Lead(..) => "lead.changed",
            Self::Trip(..) => "trip.changed",
        }
    }

    /// The record that the write changed when it was applied, according to its ledger entry. `None` for a POST, whose
    /// response is stored.
    pub(crate) fn record(&self, entry: &LedgerEntry) -> Option<Record> {
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

/// Applies a write. `skip_itinerary` leaves the itinerary out, for a retry after it could not be stored.
pub(crate) fn write(
    state: &mut TenantState, write: &Write, if_match: Option<&IfMatch>, skip_itinerary: bool, cause: &Cause,
    ctx: &mut Context<'_>,
) -> Result<Record, WriteError> {
    match write {
        Write::NewClient(body) => Ok(client::create(state, body, ctx)?),
        Write::Client(id, body) => Ok(client::change(state, *id, body, if_match, ctx)?),
        Write::NewLead(body) => lead::open(state, body, cause, ctx),
        Write::Lead(id, patch) => lead::change(state, *id, patch, if_match, cause, ctx),
        Write::Trip(id, patch) => trip::change(state, *id, patch, if_match, skip_itinerary, cause, ctx),
    }
}

/// Applies a write and adds it to the ledger. A new lead is also added to the timeline, as `enquiry.submitted` (D14, D17).
pub(crate) fn apply(
    state: &mut TenantState, request: &WriteRequest<'_>, ctx: &mut Context<'_>,
) -> Result<Record, WriteError> {
    let WriteRequest { if_match, skip_itinerary, ref cause, .. } = *request;
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
            actor_key: None,
            payload: std::str::from_utf8(request.body).ok().map(str::to_owned),
        });
    }
    state.add_to_ledger(LedgerEntry {
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
        trace_id: cause.request_context.and_then(RequestContext::foreign_trace_id),
    });
    Ok(record)
}

/// Refuses with 412 if the condition does not match the record's version (D19).
fn check_version(if_match: Option<&IfMatch>, updated_at: DateTime<Utc>) -> Result<(), WriteRefusal> {
    match if_match {
        Some(condition) if !condition.admits(&etag(updated_at)) => {
            Err(WriteRefusal::StaleWrite { updated_at: common::clock::to_text(updated_at) })
        }
        Some(_) | None => Ok(()),
    }
}
