//! What a unit of work may touch: the keys that its events name.

use common::caller::Caller;
use common::event::{Actor, Envelope, InboundType};
use common::model::{DiscoveryId, LeadId, TenantId, TripId};
use serde_json::Value;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Keys of one kind, each with its agency; sorted, no repeats. What `unnest` takes pairwise.
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

    /// The keys with their agency.
    pub fn iter(&self) -> impl Iterator<Item = &(Uuid, K)> {
        self.0.iter()
    }

    /// The two arrays, tenants and keys.
    pub fn columns(&self) -> (Vec<Uuid>, Vec<K>) {
        self.0.iter().cloned().unzip()
    }
}

/// All keys of a unit.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How many events there are: as many records of a client can be looked up one after the other, each event
    /// changing what the next one finds.
    pub events: i64,
    /// Agencies.
    pub tenants: BTreeSet<Uuid>,
    /// Events.
    pub event_ids: Keys<String>,
    /// Lower-cased emails.
    pub emails: Keys<String>,
    /// Callers' own ids of persons.
    pub external_ids: Keys<String>,
    /// Phone digits.
    pub phones: Keys<String>,
    /// Clients named by id.
    pub clients: Keys<Uuid>,
    /// Lower-case mail domains.
    pub domains: Keys<String>,
    /// Enquiries named by id.
    pub leads: Keys<Uuid>,
    /// Enquiries named by their trip.
    pub trips: Keys<Uuid>,
    /// Enquiries named by the caller's own id.
    pub lead_external_ids: Keys<String>,
    /// Bookings.
    pub booking_refs: Keys<String>,
    /// Bookings named by their trip.
    pub booking_trips: Keys<Uuid>,
    /// Discovery records named by id.
    pub discoveries: Keys<Uuid>,
    /// Whether a client's enquiries matter.
    pub client_leads: bool,
    /// Whether discovery records and profiles matter.
    pub client_discoveries: bool,
    /// Whether credit matters.
    pub client_credits: bool,
    /// Whether rosters and proposals matter, for what a records write changes and shows.
    pub shown: bool,
}

/// The fields of a payload, read as the rules read them: of a repeated name the last one counts.
type Named = serde_json::Map<String, Value>;

impl Wanted {
    /// Adds what one event may touch.
    pub fn add(&mut self, caller: &Caller, event: &Envelope<'_>) {
        let tenant = caller.tenant_id;
        self.events += 1;
        self.tenants.insert(tenant.0);
        self.event_ids.add(tenant, event.event_id.clone());
        if event.event_type != InboundType::BookingCreditApplied {
            self.add_identity(tenant, &event.actor);
        }
        match event.event_type {
            InboundType::ContactIdentified
            | InboundType::ContactUpdated
            | InboundType::EnquirySubmitted
            | InboundType::TripPlanningStarted
            | InboundType::TripDraftUpdated
            | InboundType::QuoteRequested => {}
            InboundType::DiscoveryUpserted => {
                self.client_leads = true;
                self.client_discoveries = true;
                if let Some(id) =
                    text(&named(event), "hosTripDiscoveryId").and_then(|id| DiscoveryId::parse(&id))
                {
                    self.discoveries.add(tenant, id.0);
                }
            }
            InboundType::BookingStarted | InboundType::BookingAbandoned | InboundType::BookingCompleted => {
                self.client_leads = true;
                self.add_booking(tenant, &named(event));
            }
            InboundType::BookingCreditApplied => {
                let named = named(event);
                self.add_booking_ref(tenant, &named);
                if let Some(trip) = text(&named, "tripId").and_then(|id| TripId::parse(&id)) {
                    self.booking_trips.add(tenant, trip.0);
                }
            }
            InboundType::EmployeeCreditUpdated => self.client_credits = true,
        }
    }

    /// All that identifies the contact: what it is matched by, and the external id it would take.
    pub fn add_identity(&mut self, tenant: TenantId, actor: &Actor) {
        if let Some(email) = &actor.email {
            self.emails.add(tenant, email.key().to_owned());
            self.domains.add(tenant, email.domain().to_owned());
        }
        if let Some(external_id) = &actor.external_id {
            self.external_ids.add(tenant, external_id.clone());
        }
        if let (None, None, Some(phone)) = (&actor.email, &actor.external_id, &actor.phone) {
            self.phones.add(tenant, phone.digits().to_owned());
        }
    }

    fn add_booking(&mut self, tenant: TenantId, named: &Named) {
        if let Some(lead) = text(named, "leadId").and_then(|id| LeadId::parse(&id)) {
            self.leads.add(tenant, lead.0);
        }
        if let Some(trip) = text(named, "tripId").and_then(|id| TripId::parse(&id)) {
            self.trips.add(tenant, trip.0);
        }
        if let Some(external_id) = text(named, "externalLeadId") {
            self.lead_external_ids.add(tenant, external_id);
        }
        self.add_booking_ref(tenant, named);
    }

    fn add_booking_ref(&mut self, tenant: TenantId, named: &Named) {
        if let Some(booking_ref) = text(named, "bookingRef") {
            self.booking_refs.add(tenant, booking_ref);
        }
    }
}

fn named(event: &Envelope<'_>) -> Named {
    event.payload.and_then(|payload| serde_json::from_str(payload.get()).ok()).unwrap_or_default()
}

fn text(named: &Named, field: &str) -> Option<String> {
    named.get(field)?.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
