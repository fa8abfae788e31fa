//! What a unit of work needs loaded: the keys that its events, write or action name.

use common::event::{Actor, Envelope, InboundType};
use common::model::{DiscoveryId, Email, LeadId, TenantId, TripId, is_free_mailbox};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Keys of one kind, each with its tenant; sorted and unique. What `unnest` takes pairwise.
#[derive(Clone, Debug)]
pub struct Keys<K>(BTreeSet<(Uuid, K)>);

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord + Clone> Keys<K> {
    /// Adds a key.
    pub fn add(&mut self, tenant: TenantId, key: K) {
        self.0.insert((tenant.0, key));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys with their tenants.
    pub fn iter(&self) -> impl Iterator<Item = &(Uuid, K)> {
        self.0.iter()
    }

    /// The two arrays, tenants and keys.
    pub fn columns(&self) -> (Vec<Uuid>, Vec<K>) {
        self.0.iter().cloned().unzip()
    }
}

/// What people are known by (D10).
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Lower-cased emails.
    pub emails: Keys<String>,
    /// Callers' own ids of people, each with the lower-cased email that came with it, unless several did.
    pub external_ids: BTreeMap<(Uuid, String), Option<String>>,
    /// Phone digits of people who were named by nothing stronger.
    pub phones: Keys<String>,
}

impl Identities {
    /// Adds all that identifies a person: what they are matched by, and the external id that they would take.
    pub fn add(&mut self, tenant: TenantId, actor: &Actor) {
        let email = actor.email.as_ref().map(|email| email.key().to_owned());
        if let Some(external_id) = &actor.external_id {
            self.external_ids
                .entry((tenant.0, external_id.clone()))
                .and_modify(|known| {
                    if *known != email {
                        *known = None;
                    }
                })
                .or_insert_with(|| email.clone());
        }
        if let (None, None, Some(phone)) = (&email, &actor.external_id, &actor.phone) {
            self.phones.add(tenant, phone.digits().to_owned());
        }
        if let Some(email) = email {
            self.emails.add(tenant, email);
        }
    }

    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.emails.is_empty() && self.external_ids.is_empty() && self.phones.is_empty()
    }
}

/// Clients that are named by something else than what they are known by.
#[derive(Clone, Debug, Default)]
pub struct NamedClients {
    /// By their ids.
    pub ids: Keys<Uuid>,
    /// By the ids of their leads.
    pub leads: Keys<Uuid>,
    /// By the references of their bookings.
    pub booking_refs: Keys<String>,
}

impl NamedClients {
    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.leads.is_empty() && self.booking_refs.is_empty()
    }
}

/// All that a unit needs.
#[derive(Clone, Debug, Default)]
pub struct LoadRequest {
    /// Number of events: as many clients of one phone can be matched one after the other, each event changing whom
    /// the next one finds.
    pub events: i64,
    /// Number of events that can close a lead: as many leads of a client can be the newest open one.
    pub closing_events: i64,
    /// The tenants.
    pub tenants: BTreeSet<Uuid>,
    /// Events, as the ledger knows them.
    pub event_ids: Keys<String>,
    /// Everybody who is named by an identity.
    pub people: Identities,
    /// Of these, those whose leads, discoveries or credit the unit looks up, and whoever may turn out to be the same
    /// person within the unit. Their clients are locked.
    pub related: Identities,
    /// Lower-cased emails on domains that may be a company's, with the domain.
    pub company_emails: Keys<(String, String)>,
    /// Lower-cased emails that writes give to clients who exist.
    pub given_emails: Keys<String>,
    /// Clients named otherwise; locked.
    pub clients: NamedClients,
    /// Leads named by id.
    pub leads: Keys<Uuid>,
    /// Leads named by their trip.
    pub trips: Keys<Uuid>,
    /// Leads named by the caller's own id.
    pub lead_external_ids: Keys<String>,
    /// Bookings.
    pub booking_refs: Keys<String>,
    /// Bookings named by their trip.
    pub booking_trips: Keys<Uuid>,
    /// Discovery records named by id.
    pub discoveries: Keys<Uuid>,
    /// Whether leads of the related people matter.
    pub with_leads: bool,
    /// Whether discovery records and profiles of the related people matter.
    pub with_discoveries: bool,
    /// Whether the credit of the related people matters.
    pub with_credits: bool,
    /// Whether members matter: for who owns a lead and is notified.
    pub with_members: bool,
    /// Whether the proposal of a lead's trip matters.
    pub with_proposals: bool,
    /// Whether the travelers of the clients named by id matter.
    pub with_travelers: bool,
}

/// The fields of a payload, read as the rules read them: of a repeated name the last one counts.
type Fields = serde_json::Map<String, Value>;

impl LoadRequest {
    /// A request of one write or action of a tenant, known to the ledger as `event_id`.
    pub fn single(tenant: TenantId, event_id: String) -> Self {
        let mut request = Self::default();
        request.add_single(tenant, event_id);
        request
    }

    /// Adds a write or an action of a tenant, known to the ledger as `event_id`.
    pub fn add_single(&mut self, tenant: TenantId, event_id: String) {
        self.events += 1;
        self.closing_events += 1;
        self.tenants.insert(tenant.0);
        self.event_ids.add(tenant, event_id);
    }

    /// A request for events, each with its tenant.
    pub fn of_events<'e>(events: impl Iterator<Item = (TenantId, &'e Envelope<'e>)> + Clone) -> Self {
        let mut request = Self::default();
        for (tenant, event) in events.clone() {
            request.add_event(tenant, event);
        }
        for actor in super::kinship::related(events) {
            request.related.add(actor.0, actor.1);
        }
        request
    }

    /// Adds a person who is to be matched or made.
    pub fn add_person(&mut self, tenant: TenantId, actor: &Actor) {
        self.people.add(tenant, actor);
        if let Some(email) = &actor.email {
            self.add_company_email(tenant, email);
        }
    }

    fn add_company_email(&mut self, tenant: TenantId, email: &Email) {
        if !is_free_mailbox(email.domain()) {
            self.company_emails.add(tenant, (email.key().to_owned(), email.domain().to_owned()));
        }
    }

    fn add_event(&mut self, tenant: TenantId, event: &Envelope<'_>) {
        self.events += 1;
        self.tenants.insert(tenant.0);
        self.event_ids.add(tenant, event.event_id.clone());
        if event.event_type != InboundType::BookingCreditApplied {
            self.add_person(tenant, &event.actor);
        }
        match event.event_type {
            InboundType::ContactIdentified
            | InboundType::ContactUpdated
            | InboundType::TripPlanningStarted
            | InboundType::TripDraftUpdated
            | InboundType::QuoteRequested => {}
            InboundType::EnquirySubmitted => self.with_members = true,
            InboundType::DiscoveryUpserted => {
                self.with_members = true;
                self.with_leads = true;
                self.with_discoveries = true;
                if let Some(id) =
                    text(&fields(event), "hosTripDiscoveryId").and_then(|id| DiscoveryId::parse(&id))
                {
                    self.discoveries.add(tenant, id.0);
                }
            }
            InboundType::BookingStarted | InboundType::BookingAbandoned => {
                self.with_members = true;
                self.add_booking(tenant, &fields(event));
            }
            InboundType::BookingCompleted => {
                self.with_members = true;
                self.closing_events += 1;
                self.add_booking(tenant, &fields(event));
            }
            InboundType::BookingCreditApplied => {
                self.with_members = true;
                let fields = fields(event);
                self.add_booking_ref(tenant, &fields);
                if let Some(trip) = text(&fields, "tripId").and_then(|id| TripId::parse(&id)) {
                    self.booking_trips.add(tenant, trip.0);
                }
            }
            InboundType::EmployeeCreditUpdated => self.with_credits = true,
        }
    }

    fn add_booking(&mut self, tenant: TenantId, fields: &Fields) {
        self.with_leads = true;
        if let Some(lead) = text(fields, "leadId").and_then(|id| LeadId::parse(&id)) {
            self.leads.add(tenant, lead.0);
        }
        if let Some(trip) = text(fields, "tripId").and_then(|id| TripId::parse(&id)) {
            self.trips.add(tenant, trip.0);
        }
        if let Some(external_id) = text(fields, "externalLeadId") {
            self.lead_external_ids.add(tenant, external_id);
        }
        self.add_booking_ref(tenant, fields);
    }

    fn add_booking_ref(&mut self, tenant: TenantId, fields: &Fields) {
        if let Some(booking_ref) = text(fields, "bookingRef") {
            self.booking_refs.add(tenant, booking_ref);
        }
    }
}

fn fields(event: &Envelope<'_>) -> Fields {
    event.payload.and_then(|payload| serde_json::from_str(payload.get()).ok()).unwrap_or_default()
}

fn text(fields: &Fields, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
