//! Advisor actions, as the CRM publishes them to the queue `<prefix>.crm` (operator's contract: Advisor actions):
//! `{"action", "tenant", ...}`, read strictly by the mechanism of the records bodies ([`crate::record`]).
//!
//! What is wrong with an action whatever the agency's records say makes it malformed: a missing or unknown field, a wrong
//! type, a text that is too long. What the records or the rules don't allow is refused, and is no fault of the message.

mod amount;
mod answer;
mod bodies;
mod link;
mod name;

pub use amount::Amount;
pub use answer::ActionDone;
pub use bodies::{Assign, BookingCancel, BookingConfirm, Id, OfLead, OpenLead, ProposalSend, StageMove, Who};
pub use link::Link;
pub use name::ActionName;

use crate::event::Faults;
use crate::model::text;
use crate::record::{Line, RecordBody, fault, other_kind};
use crate::write::WriteRefusal;
use deserr::{Deserr, IntoValue, Map, Value, ValueKind, ValuePointerRef};

/// Most bytes of an action; far more than all of its texts together.
pub const ACTION_BYTES: usize = 64 * 1024;

/// An action and the agency it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct AdvisorAction {
    /// The agency's slug, lower case.
    pub tenant: String,
    /// What is done.
    pub action: Action,
}

/// What an advisor does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `open-lead`
    OpenLead(Box<OpenLead>),
    /// `assign`
    Assign(Assign),
    /// `stage`
    Stage(StageMove),
    /// `archive`
    Archive(OfLead),
    /// `travelled`
    Travelled(OfLead),
    /// `proposal-send`
    ProposalSend(ProposalSend),
    /// `proposal-view`: the traveller opened it.
    ProposalView(OfLead),
    /// `proposal-discard`
    ProposalDiscard(OfLead),
    /// `booking-confirm`
    BookingConfirm(BookingConfirm),
    /// `booking-cancel`
    BookingCancel(BookingCancel),
}

impl AdvisorAction {
    /// Reads a message's body. The refusal is always `invalid_request` and names every fault with its place.
    pub fn parse(body: &[u8]) -> Result<Self, WriteRefusal> {
        if body.len() > ACTION_BYTES {
            let faults = "body: must have at most 64 KiB".to_owned();
            return Err(WriteRefusal::InvalidRequest { faults });
        }
        Ok(crate::record::parse(body)?)
    }
}

impl Action {
    /// Its name.
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

    /// The enquiry it names, as it was written. Text, because an id that can't be one is unknown (404) and not
    /// invalid (D18).
    pub fn lead(&self) -> Option<&str> {
        match self {
            Self::OpenLead(_) | Self::BookingCancel(_) => None,
            Self::Assign(Assign { lead, .. })
            | Self::Stage(StageMove { lead, .. })
            | Self::Archive(OfLead { lead })
            | Self::Travelled(OfLead { lead })
            | Self::ProposalSend(ProposalSend { lead, .. })
            | Self::ProposalView(OfLead { lead })
            | Self::ProposalDiscard(OfLead { lead })
            | Self::BookingConfirm(BookingConfirm { lead, .. }) => Some(lead.as_str()),
        }
    }

    /// The booking it is about.
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

    /// Reads the fields of the action of that name.
    fn read<V: IntoValue>(
        name: ActionName,
        fields: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
        Ok(match name {
            ActionName::OpenLead => Self::OpenLead(Box::new(OpenLead::deserialize_from_value(fields, at)?)),
            ActionName::Assign => Self::Assign(Assign::deserialize_from_value(fields, at)?),
            ActionName::Stage => Self::Stage(StageMove::deserialize_from_value(fields, at)?),
            ActionName::Archive => Self::Archive(OfLead::deserialize_from_value(fields, at)?),
            ActionName::Travelled => Self::Travelled(OfLead::deserialize_from_value(fields, at)?),
            ActionName::ProposalSend => Self::ProposalSend(ProposalSend::deserialize_from_value(fields, at)?),
            ActionName::ProposalView => Self::ProposalView(OfLead::deserialize_from_value(fields, at)?),
            ActionName::ProposalDiscard => Self::ProposalDiscard(OfLead::deserialize_from_value(fields, at)?),
            ActionName::BookingConfirm => {
                Self::BookingConfirm(BookingConfirm::deserialize_from_value(fields, at)?)
            }
            ActionName::BookingCancel => {
                Self::BookingCancel(BookingCancel::deserialize_from_value(fields, at)?)
            }
        })
    }
}

impl RecordBody for AdvisorAction {}

/// `action` and `tenant` first; what is left must be the fields of that action.
impl Deserr<Faults> for AdvisorAction {
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
        let Value::Map(mut fields) = value else {
            return Err(other_kind(value.kind(), ValueKind::Map, at));
        };
        let name = take(&mut fields, "action", at);
        let tenant = take::<Line<{ text::ENVELOPE_ID }>, V::Map>(&mut fields, "tenant", at);
        let action = name.and_then(|name| Action::read(name, Value::<V>::Map(fields), at));
        match (tenant, action) {
            (Ok(tenant), Ok(action)) => Ok(Self { tenant: tenant.as_str().to_lowercase(), action }),
            (Err(mut faults), Err(more)) => {
                faults.0.extend(more.0);
                Err(faults)
            }
            (Err(faults), Ok(_)) | (Ok(_), Err(faults)) => Err(faults),
        }
    }
}

/// Takes a required field out, with its repetitions, which are told elsewhere.
fn take<T: Deserr<Faults>, M: Map>(fields: &mut M, name: &str, at: ValuePointerRef<'_>) -> Result<T, Faults> {
    let here = at.push_key(name);
    let value = fields.remove(name).ok_or_else(|| fault(here, "is required"))?;
    while fields.remove(name).is_some() {}
    T::deserialize_from_value(value.into_value(), here)
}

#[cfg(test)]
mod tests;
