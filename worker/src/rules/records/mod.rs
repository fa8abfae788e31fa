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

use super::{Cause, Context, InternalError};
use crate::state::{LedgerEntry, TenantState};
use chrono::{DateTime, Utc};
use common::model::{ClientId, LeadId};
use common::record::{ClientBody, LeadBody, LeadPatch, TripPatch};
use common::write::{IfMatch, WriteRefusal, etag};

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

impl Write {
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

impl From<InternalError> for WriteRefusal {
    fn from(error: InternalError) -> Self {
        tracing::error!(%error, "a rule found what can't be");
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
