//! Advisor actions, as the CRM publishes them to the queue `<prefix>.crm` (docs/operate.md: Advisor actions):
//! `{"action", "tenant", ...}`, parsed strictly, like the records bodies ([`crate::record`]).
//!
//! An action is malformed when it is wrong independently of the tenant's records: a missing or unknown field, a wrong type, a
//! text that is too long. An action that the records or the rules do not allow is refused.

mod bodies;
mod name;

pub use bodies::{
    Amount, Assign, BookingCancel, BookingConfirm, LeadClient, LeadOnly, Link, OpenLead, ProposalSend, RecordId,
    StageChange,
};
pub use name::ActionName;

use crate::event::Faults;
use crate::model::{ClientId, LeadId, ProposalId, Stage, TripId, text};
use crate::record::{Line, RecordBody, fault, other_kind};
use crate::write::WriteRefusal;
use deserr::{Deserr, IntoValue, Map, Value, ValueKind, ValuePointerRef};
use serde::{Deserialize, Serialize};

/// Maximum number of bytes of an action's body; its texts together are far shorter.
pub const ACTION_BYTES: usize = 64 * 1024;

/// An action and the tenant it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct AdvisorAction {
    /// The tenant's slug, in lower case.
    pub tenant: String,
    /// The action with its fields.
    pub action: Action,
}

/// An advisor's action, with its fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `open-lead`
    OpenLead(Box<OpenLead>),
    /// `assign`
    Assign(Assign),
    /// `stage`
    Stage(StageChange),
    /// `archive`
    Archive(LeadOnly),
    /// `travelled`
    Travelled(LeadOnly),
    /// `proposal-send`
    ProposalSend(ProposalSend),
    /// `proposal-view`: the traveler opened it.
    ProposalView(LeadOnly),
    /// `proposal-discard`
    ProposalDiscard(LeadOnly),
    /// `booking-confirm`
    BookingConfirm(BookingConfirm),
    /// `booking-cancel`
    BookingCancel(BookingCancel),
}

impl AdvisorAction {
    /// Parses a message's body. The error is always `invalid_request` and names every fault with its place.
    pub fn parse(body: &[u8]) -> Result<Self, WriteRefusal> {
        if body.len() > ACTION_BYTES {
            let faults = "body: must have at most 64 KiB".to_owned();
            return Err(WriteRefusal::InvalidRequest { faults });
        }
        Ok(crate::record::parse(body)?)
    }
}

impl Action {
    /// The action's name on the wire.
    pub const fn name(&self) -> ActionName {
        match self {
            Self::OpenLead(_) => ActionName::OpenLead,
            Self::Assign(_) => ActionName::Assign,
            Self::Stage(_) => ActionName::Stage,
            Self::Archive(_) => ActionName::Archive,
            Self::Travelled(_) => ActionName::Travelled,
            Self::ProposalSend(_) => ActionName::ProposalSend,
            Self::ProposalView(_) => ActionName::ProposalView,
            Self::ProposalDiscard(_) => ActionName::ProposalDiscard,
            Self::BookingConfirm(_) => ActionName::BookingConfirm,
            Self::BookingCancel(_) => ActionName::BookingCancel,
        }
    }

    /// The lead that the action names, as sent. Text, because an id of a wrong form counts as unknown (404), not as
    /// invalid (D18).
    pub fn lead(&self) -> Option<&str> {
        match self {
            Self::OpenLead(_) | Self::BookingCancel(_) => None,
            Self::Assign(Assign { lead, .. })
            | Self::Stage(StageChange { lead, .. })
            | Self::Archive(LeadOnly { lead })
            | Self::Travelled(LeadOnly { lead })
            | Self::ProposalSend(ProposalSend { lead, .. })
            | Self::ProposalView(LeadOnly { lead })
            | Self::ProposalDiscard(LeadOnly { lead })
            | Self::BookingConfirm(BookingConfirm { lead, .. }) => Some(lead.as_str()),
        }
    }

    /// The booking reference that the action names.
    pub fn booking_ref(&self) -> Option<&str> {
        match self {
            Self::BookingConfirm(BookingConfirm { booking_ref, .. })
            | Self::BookingCancel(BookingCancel { booking_ref, .. }) => Some(booking_ref.as_str()),
            Self::OpenLead(_)
            | Self::Assign(_)
            | Self::Stage(_)
            | Self::Archive(_)
            | Self::Travelled(_)
            | Self::ProposalSend(_)
            | Self::ProposalView(_)
            | Self::ProposalDiscard(_) => None,
        }
    }

    fn from_fields<V: IntoValue>(name: ActionName, fields: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        Ok(match name {
            ActionName::OpenLead => Self::OpenLead(Box::new(OpenLead::deserialize_from_value(fields, at)?)),
            ActionName::Assign => Self::Assign(Assign::deserialize_from_value(fields, at)?),
            ActionName::Stage => Self::Stage(StageChange::deserialize_from_value(fields, at)?),
            ActionName::Archive => Self::Archive(LeadOnly::deserialize_from_value(fields, at)?),
            ActionName::Travelled => Self::Travelled(LeadOnly::deserialize_from_value(fields, at)?),
            ActionName::ProposalSend => Self::ProposalSend(ProposalSend::deserialize_from_value(fields, at)?),
            ActionName::ProposalView => Self::ProposalView(LeadOnly::deserialize_from_value(fields, at)?),
            ActionName::ProposalDiscard => Self::ProposalDiscard(LeadOnly::deserialize_from_value(fields, at)?),
            ActionName::BookingConfirm => Self::BookingConfirm(BookingConfirm::deserialize_from_value(fields, at)?),
            ActionName::BookingCancel => Self::BookingCancel(BookingCancel::deserialize_from_value(fields, at)?),
        })
    }
}

impl RecordBody for AdvisorAction {}

/// Takes `action` and `tenant`; the remaining fields must be those of the action.
impl Deserr<Faults> for AdvisorAction {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let Value::Map(mut fields) = value else {
            return Err(other_kind(value.kind(), ValueKind::Map, at));
        };
        let name = take(&mut fields, "action", at);
        let tenant = take::<Line<{ text::ENVELOPE_ID }>, V::Map>(&mut fields, "tenant", at);
        let action = name.and_then(|name| Action::from_fields(name, Value::<V>::Map(fields), at));
        match (tenant, action) {
            (Ok(tenant), Ok(action)) => Ok(Self { tenant: tenant.as_str().to_ascii_lowercase(), action }),
            (Err(mut faults), Err(more)) => {
                faults.0.extend(more.0);
                Err(faults)
            }
            (Err(faults), Ok(_)) | (Ok(_), Err(faults)) => Err(faults),
        }
    }
}

/// Removes a required field and its repetitions, which `record::repeated` reports.
fn take<T: Deserr<Faults>, M: Map>(fields: &mut M, name: &str, at: ValuePointerRef<'_>) -> Result<T, Faults> {
    let here = at.push_key(name);
    let value = fields.remove(name).ok_or_else(|| fault(here, "is required"))?;
    while fields.remove(name).is_some() {}
    T::deserialize_from_value(value.into_value(), here)
}

#[cfg(test)]
mod tests;

/// `{"ok": true, ..}` with the ids and the stage of the lead after the action. A refused action is replied to with an error
/// body instead ([`crate::write::WriteRefusal::body`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionReply {
    /// Always true; an error body has no `ok`.
    pub ok: bool,
    /// The lead's client.
    pub client_id: ClientId,
    /// The lead that was opened or changed.
    pub lead_id: LeadId,
    /// The lead's trip workspace; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trip_id: Option<TripId>,
    /// The trip's newest proposal; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<ProposalId>,
    /// The booking that was confirmed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking_ref: Option<String>,
    /// The lead's stage after the action.
    pub stage: Stage,
}
