//! The lead body (specification: POST /leads) and what changes of an enquiry (PATCH /leads/{leadId}).

use super::RecordBody;
use super::itinerary::Itinerary;
use super::leaf::Nationality;
use super::sent::Sent;
use super::text::{Line, Prose, Verbatim};
use crate::event::{Actor, Faults};
use crate::model::{Brief, Budget, Email, Party, Phone, Stage, TravelDates, text};
use deserr::Deserr;
use serde_json::{Map, Value};

/// An enquiry to be opened.
#[derive(Clone, Debug, Default, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct LeadBody {
    /// Whose it is; needed unless `client_id` is sent, which is a rule (`identity_required`).
    #[deserr(default)]
    pub contact: Sent<Contact>,
    /// The client to attach it to. Text, because an id that can't be one is unknown (404) and not invalid (D18).
    #[deserr(default)]
    pub client_id: Sent<Line<{ text::EXTERNAL_ID }>>,
    /// The caller's own id for the enquiry.
    #[deserr(default)]
    pub external_id: Sent<Line<{ text::EXTERNAL_ID }>>,
    /// Title advisors see.
    #[deserr(default)]
    pub title: Sent<Line<{ text::NAME }>>,
    /// Where to.
    #[deserr(default)]
    pub destination: Sent<Line<{ text::LINE }>>,
    /// When.
    #[deserr(default)]
    pub travel_dates: Sent<TravelDates>,
    /// Who.
    #[deserr(default)]
    pub party: Sent<Party>,
    /// For how much.
    #[deserr(default)]
    pub budget: Sent<Budget>,
    /// Passport country of the party.
    #[deserr(default)]
    pub guest_nationality: Sent<Nationality>,
    /// For the draft proposal.
    #[deserr(default)]
    pub itinerary: Sent<Itinerary>,
    /// The customer's words: opens the inbox thread.
    #[deserr(default)]
    pub message: Sent<Prose<{ text::MESSAGE }>>,
    /// Where the enquiry came from.
    #[deserr(default)]
    pub attribution: Sent<Attribution>,
}

impl RecordBody for LeadBody {
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        self.itinerary.get_mut()
    }
}

impl LeadBody {
    /// What the traveller asks for. What wasn't sent stays unstated.
    pub fn brief(&self) -> Brief {
        let nationality = self.guest_nationality.get().cloned();
        Brief {
            destination: self.destination.get().map(|line| line.as_str().to_owned()),
            travel_dates: self.travel_dates.into_option(),
            party: self.party.get().cloned(),
            budget: self.budget.get().cloned(),
            guest_nationality: nationality.and_then(Nationality::into_option),
        }
    }
}

/// The person an enquiry is of. Whether it identifies one is a rule (`identity_required`).
#[derive(Clone, Debug, Default, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct Contact {
    /// Full name.
    #[deserr(default)]
    pub name: Sent<Line<{ text::NAME }>>,
    /// Strongest identity.
    #[deserr(default)]
    pub email: Sent<Email>,
    /// Weakest identity.
    #[deserr(default)]
    pub phone: Sent<Phone>,
    /// The caller's own id for the person.
    #[deserr(default)]
    pub external_id: Sent<Line<{ text::EXTERNAL_ID }>>,
}

/// The same person as an event would name it, so that both go through one rule.
impl From<Contact> for Actor {
    fn from(contact: Contact) -> Self {
        Self {
            email: contact.email.into_option(),
            phone: contact.phone.into_option(),
            external_id: contact.external_id.into_string(),
            name: contact.name.into_string(),
        }
    }
}

/// Where an enquiry came from. What is blank is not stated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct Attribution {
    /// Such as a search engine.
    #[deserr(default)]
    pub source: Sent<Verbatim<{ text::LINE }>>,
    /// Such as an advertisement.
    #[deserr(default)]
    pub medium: Sent<Verbatim<{ text::LINE }>>,
    /// What the pipeline can be filtered by.
    #[deserr(default)]
    pub campaign: Sent<Verbatim<{ text::LINE }>>,
    /// What was searched for.
    #[deserr(default)]
    pub term: Sent<Verbatim<{ text::LINE }>>,
    /// Which of several advertisements.
    #[deserr(default)]
    pub content: Sent<Verbatim<{ text::LINE }>>,
    /// The first page seen.
    #[deserr(default)]
    pub landing_path: Sent<Verbatim<{ text::PAGE }>>,
    /// The page before it.
    #[deserr(default)]
    pub referrer: Sent<Verbatim<{ text::PAGE }>>,
}

impl Attribution {
    /// The marketing block as it is kept, a JSON object of what is stated; `None` when nothing is.
    pub fn block(&self) -> Option<Value> {
        let fields = [
            ("source", self.source.get().map(Verbatim::as_str)),
            ("medium", self.medium.get().map(Verbatim::as_str)),
            ("campaign", self.campaign.get().map(Verbatim::as_str)),
            ("term", self.term.get().map(Verbatim::as_str)),
            ("content", self.content.get().map(Verbatim::as_str)),
            ("landingPath", self.landing_path.get().map(Verbatim::as_str)),
            ("referrer", self.referrer.get().map(Verbatim::as_str)),
        ];
        let stated = fields.into_iter().filter_map(|(name, field)| {
            let text = field?;
            (!text.trim().is_empty()).then(|| (name.to_owned(), Value::from(text)))
        });
        let block: Map<String, Value> = stated.collect();
        (!block.is_empty()).then_some(Value::Object(block))
    }
}

/// What changes of an enquiry. Without any field, nothing does.
#[derive(Clone, Debug, Default, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct LeadPatch {
    /// Any stage there is; which of them can be set is a rule (`stage_not_allowed`).
    #[deserr(default)]
    pub stage: Sent<Stage>,
    /// Why it was lost, as sent; whether it is long enough is a rule (`reason_required`).
    #[deserr(default)]
    pub reason: Sent<Verbatim<{ text::NOTES }>>,
    /// The new owner's email; whether it is a member's is a rule (`owner_not_member`).
    #[deserr(default)]
    pub owner: Sent<Email>,
    /// Flag for follow-up.
    #[deserr(default)]
    pub follow_up: Sent<bool>,
    /// Title advisors see.
    #[deserr(default)]
    pub title: Sent<Line<{ text::NAME }>>,
}

impl RecordBody for LeadPatch {}
