//! What a unit of work must load: the keys that its events, writes or action name.

use crate::rules::booking::{self, LeadReference};
use crate::rules::credit::{self, InvoiceReference};
use crate::rules::discovery;
use crate::rules::payload::Payload;
use common::event::{Actor, Envelope, InboundType};
use common::model::{Email, TenantId, is_free_mailbox};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Sorted, unique keys of one type, each with its tenant. They become two array parameters of `unnest`.
#[derive(Clone, Debug)]
pub(crate) struct TenantKeys<K>(BTreeSet<(Uuid, K)>);

impl<K> Default for TenantKeys<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord + Clone> TenantKeys<K> {
    /// Adds a key of a tenant, unless it is present.
    pub(crate) fn add(&mut self, tenant: TenantId, key: K) {
        self.0.insert((tenant.0, key));
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Uuid, K)> {
        self.0.iter()
    }

    /// The two arrays, tenants and keys.
    pub(crate) fn columns(&self) -> (Vec<Uuid>, Vec<K>) {
        self.0.iter().cloned().unzip()
    }
}

/// Identities of people (D10).
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedIdentities {
    /// Emails in lower case.
    pub(crate) emails: TenantKeys<String>,
    /// External ids, each with the lower-case email that was sent with it; `None` if there was none, or different ones.
    pub(crate) external_ids: BTreeMap<(Uuid, String), Option<String>>,
    /// Phone digits of people who were named by neither email nor external id.
    pub(crate) phones: TenantKeys<String>,
}

impl WantedIdentities {
    /// Adds a person: the identity that they are matched by, and the external id that they would be given.
    pub(crate) fn add(&mut self, tenant: TenantId, actor: &Actor) {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.emails.is_empty() && self.external_ids.is_empty() && self.phones.is_empty()
    }
}

/// References to clients other than their identities.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientReferences {
    pub(crate) ids: TenantKeys<Uuid>,
    pub(crate) leads: TenantKeys<Uuid>,
    /// Booking references of their invoices.
    pub(crate) booking_refs: TenantKeys<String>,
}

impl ClientReferences {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.leads.is_empty() && self.booking_refs.is_empty()
    }
}

/// Everything that a unit of work must load.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadRequest {
    /// Number of events, writes or actions. It bounds how many clients with one phone number are loaded: each event may change
    /// which of them the next one matches.
    pub(crate) events: i64,
    /// Number of events that can close a lead. It bounds how many open leads of a client are loaded: when one is closed, the
    /// next newest becomes the newest open one.
    pub(crate) closing_events: i64,
    /// Tenants of the unit.
    pub(crate) tenants: BTreeSet<Uuid>,
    /// Event ids to look up in the ledger.
    pub(crate) event_ids: TenantKeys<String>,
    /// All people who are named by an identity.
    pub(crate) people: WantedIdentities,
    /// Of these, the people whose leads, discoveries or credit the unit looks up, and those who may turn out to be the
    /// same person within the unit. Their clients are locked.
    pub(crate) related: WantedIdentities,
    /// Lower-case emails on domains that may belong to a company, with the domain.
    pub(crate) company_emails: TenantKeys<(String, String)>,
    /// Lower-case emails that writes assign to existing clients.
    pub(crate) assigned_emails: TenantKeys<String>,
    /// Clients that are referred to by id, lead or booking; locked.
    pub(crate) clients: ClientReferences,
    /// Leads named by id.
    pub(crate) leads: TenantKeys<Uuid>,
    pub(crate) leads_by_trip: TenantKeys<Uuid>,
    pub(crate) leads_by_external_id: TenantKeys<String>,
    /// Invoices named by their booking reference.
    pub(crate) booking_refs: TenantKeys<String>,
    pub(crate) invoices_by_trip: TenantKeys<Uuid>,
    /// Discovery records named by id.
    pub(crate) discoveries: TenantKeys<Uuid>,
    /// Whether to load leads of the related people.
    pub(crate) with_leads: bool,
    /// Whether to load discovery records and profiles of the related people.
    pub(crate) with_discoveries: bool,
    /// Whether to load the credit of the related people.
    pub(crate) with_credits: bool,
    /// Whether to load members, who own leads and are notified.
    pub(crate) with_members: bool,
    /// Whether to load the newest proposal of each lead's trip.
    pub(crate) with_proposals: bool,
    /// Whether to load the travelers of the clients named by id.
    pub(crate) with_travelers: bool,
}

impl LoadRequest {
    /// A request of one write or action of a tenant, whose event id in the ledger is `event_id`.
    pub(crate) fn single(tenant: TenantId, event_id: String) -> Self {
        let mut request = Self::default();
        request.add_single(tenant, event_id);
        request
    }

    /// Adds a write or an action of a tenant, whose event id in the ledger is `event_id`.
    pub(crate) fn add_single(&mut self, tenant: TenantId, event_id: String) {
        self.events += 1;
        self.closing_events += 1;
        self.tenants.insert(tenant.0);
        self.event_ids.add(tenant, event_id);
    }

    pub(crate) fn of_events<'e>(events: impl Iterator<Item = (TenantId, &'e Envelope<'e>)> + Clone) -> Self {
        let mut request = Self::default();
        for (tenant, event) in events.clone() {
            request.add_event(tenant, event);
        }
        for actor in super::related_people::related(events) {
            request.related.add(actor.0, actor.1);
        }
        request
    }

    /// Adds a person who is matched with a client or becomes one.
    pub(crate) fn add_person(&mut self, tenant: TenantId, actor: &Actor) {
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
                if let Ok(Some(id)) = payload(event).read("hosTripDiscoveryId", discovery::discovery_id) {
                    self.discoveries.add(tenant, id.0);
                }
            }
            InboundType::BookingStarted | InboundType::BookingAbandoned => {
                self.with_members = true;
                self.add_booking(tenant, &payload(event));
            }
            InboundType::BookingCompleted => {
                self.with_members = true;
                self.closing_events += 1;
                self.add_booking(tenant, &payload(event));
            }
            InboundType::BookingCreditApplied => {
                self.with_members = true;
                match credit::invoice_reference(&payload(event)) {
                    Some(InvoiceReference::Ref(booking_ref)) => self.booking_refs.add(tenant, booking_ref),
                    Some(InvoiceReference::Trip(trip)) => self.invoices_by_trip.add(tenant, trip.0),
                    None => {}
                }
            }
            InboundType::EmployeeCreditUpdated => self.with_credits = true,
        }
    }

    fn add_booking(&mut self, tenant: TenantId, payload: &Payload<'_>) {
        self.with_leads = true;
        match booking::lead_reference(payload) {
            Some(LeadReference::Lead(id)) => self.leads.add(tenant, id.0),
            Some(LeadReference::Trip(id)) => self.leads_by_trip.add(tenant, id.0),
            Some(LeadReference::External(id)) => self.leads_by_external_id.add(tenant, id),
            Some(LeadReference::Unreadable) | None => {}
        }
        if let Ok(Some(booking_ref)) = payload.read("bookingRef", booking::booking_ref) {
            self.booking_refs.add(tenant, booking_ref);
        }
    }
}

/// The payload, read by the rules' own reader: the keys that are loaded are those that the rules look up.
fn payload<'e>(event: &Envelope<'e>) -> Payload<'e> {
    // A payload that is no object names nothing; the rules fail its event.
    Payload::of(event.payload).unwrap_or_default()
}
