//! The lead body (specification: POST /leads) and the patch of a lead (PATCH /leads/{leadId}).

use super::RecordBody;
use super::itinerary::Itinerary;
use super::scalar::Nationality;
use super::sent::Sent;
use super::text::{Line, Prose, Verbatim};
use crate::event::{Actor, Faults};
use crate::model::{Brief, Budget, Email, Party, Phone, Stage, TravelDates, text};
use deserr::Deserr;
use serde_json::{Map, Value};

crate::record::optional_fields! {
    /// The fields of a lead to be opened.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct LeadBody {
        /// The lead's contact; the rules require it unless `client_id` is sent (`identity_required`).
        pub contact: Sent<Contact>,
        /// The client to attach it to. Text, because an id of a wrong form counts as unknown (404), not as invalid (D18).
        pub client_id: Sent<Line<{ text::EXTERNAL_ID }>>,
        /// The caller's own id for the lead.
        pub external_id: Sent<Line<{ text::EXTERNAL_ID }>>,
        /// Title advisors see.
        pub title: Sent<Line<{ text::NAME }>>,
        /// Where the trip goes, in free text.
        pub destination: Sent<Line<{ text::LINE }>>,
        /// When the trip takes place; both dates are optional.
        pub travel_dates: Sent<TravelDates>,
        /// Who travels, by number.
        pub party: Sent<Party>,
        /// What the trip may cost.
        pub budget: Sent<Budget>,
        /// Passport country of the party.
        pub guest_nationality: Sent<Nationality>,
        /// For the draft proposal.
        pub itinerary: Sent<Itinerary>,
        /// The customer's message, the first of the inbox thread.
        pub message: Sent<Prose<{ text::MESSAGE }>>,
        /// Marketing attribution of the lead.
        pub attribution: Sent<Attribution>,
    }
}

impl RecordBody for LeadBody {
    fn itinerary_mut(&mut self) -> Option<&mut Itinerary> {
        self.itinerary.get_mut()
    }
}

impl LeadBody {
    /// The fields of the body that describe the wanted trip; fields that were not sent are absent.
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

crate::record::optional_fields! {
    /// The contact of a lead. Whether it identifies a client is decided by the rules (`identity_required`).
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Contact {
        /// Full name.
        pub name: Sent<Line<{ text::NAME }>>,
        /// Strongest identity.
        pub email: Sent<Email>,
        /// Weakest identity.
        pub phone: Sent<Phone>,
        /// The caller's own id for the person.
        pub external_id: Sent<Line<{ text::EXTERNAL_ID }>>,
    }
}

/// The contact as an event's actor, so that one rule handles both.
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

crate::record::optional_fields! {
    /// Marketing attribution of a lead. Blank fields count as absent.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Attribution {
        /// `utm_source`, such as the name of a search engine.
        pub source: Sent<Verbatim<{ text::LINE }>>,
        /// `utm_medium`, such as `cpc`.
        pub medium: Sent<Verbatim<{ text::LINE }>>,
        /// `utm_campaign`; the pipeline can be filtered by it.
        pub campaign: Sent<Verbatim<{ text::LINE }>>,
        /// `utm_term`: the search term.
        pub term: Sent<Verbatim<{ text::LINE }>>,
        /// `utm_content`: identifies one of several advertisements.
        pub content: Sent<Verbatim<{ text::LINE }>>,
        /// The first page seen.
        pub landing_path: Sent<Verbatim<{ text::PAGE }>>,
        /// The page that linked to the landing page.
        pub referrer: Sent<Verbatim<{ text::PAGE }>>,
    }
}

impl Attribution {
    /// The stored marketing block: a JSON object of the stated fields; `None` when there are none.
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
            (!text::is_blank(text)).then(|| (name.to_owned(), Value::from(text)))
        });
        let block: Map<String, Value> = stated.collect();
        (!block.is_empty()).then_some(Value::Object(block))
    }
}

crate::record::optional_fields! {
    /// The fields of a lead to change; an empty patch changes nothing.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct LeadPatch {
        /// Any known stage; which of them may be set is decided by the rules (`stage_not_allowed`).
        pub stage: Sent<Stage>,
        /// Why it was lost, as sent; whether it suffices is decided by the rules (`reason_required`).
        pub reason: Sent<Verbatim<{ text::NOTES }>>,
        /// The new owner's email; whether it is a member's is decided by the rules (`owner_not_member`).
        pub owner: Sent<Email>,
        /// Flag for follow-up.
        pub follow_up: Sent<bool>,
        /// Title advisors see.
        pub title: Sent<Line<{ text::NAME }>>,
    }
}

impl RecordBody for LeadPatch {}
