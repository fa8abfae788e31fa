//! The in-memory state that a unit of work decides on: the loaded records of one tenant, and their changes.
//!
//! `store` fills a [`TenantState`] and writes its changes back; `rules` work on nothing else. A state belongs to one
//! tenant, so a rule cannot reach the records of another one.

mod records;
mod table;

pub(crate) use records::*;
pub use records::{ClientType, Member, ProposalStatus, Tenant};
pub(crate) use table::{RowState, Table};

use common::model::{ClientId, DiscoveryId, LeadId, ProposalId, TripId};
use foldhash::{HashMap, HashMapExt};

/// One tenant's part of a unit of work.
///
/// Invariant: for every event of the unit, everything that its rules may look up is loaded. A record that is missing
/// here does not exist in the database.
#[derive(Debug)]
pub struct TenantState {
    pub(crate) tenant: Tenant,
    /// Active members, in the order of routing (D16).
    pub(crate) members: Vec<Member>,
    /// Removed members: leads may still name them as owners.
    pub(crate) former_members: Vec<Member>,
    /// Ledger entries by event id: of events applied before, and of those applied by this unit.
    pub(crate) ledger: HashMap<String, LedgerEntry>,
    /// Event ids that this unit added to `ledger`, in their order.
    pub(crate) ledger_added: Vec<String>,
    /// Clients; found through the `client_by_*` methods.
    clients: Table<ClientId, Client>,
    /// Whether a client of this unit no longer has an email or external id, so that another client of the unit may take it.
    pub(crate) has_freed_identity: bool,
    by_email: HashMap<String, ClientId>,
    by_external_id: HashMap<String, ClientId>,
    by_phone: HashMap<String, Vec<ClientId>>,
    by_domain: HashMap<String, ClientId>,
    /// Travelers of clients. Only records writes load them.
    pub(crate) rosters: Table<ClientId, Roster>,
    /// Colleagues on company accounts, by account and lower-cased email.
    pub(crate) account_contacts: Table<(ClientId, String), AccountContact>,
    pub(crate) leads: Table<LeadId, Lead>,
    pub(crate) trips: Table<TripId, Trip>,
    pub(crate) proposals: Table<ProposalId, Proposal>,
    /// New itinerary snapshots, by their proposal. Stored ones are never loaded.
    pub(crate) itineraries: Table<ProposalId, Itinerary>,
    /// Invoices, by booking reference.
    pub(crate) invoices: Table<String, Invoice>,
    pub(crate) discoveries: Table<DiscoveryId, Discovery>,
    pub(crate) profiles: Table<ClientId, TravellerProfile>,
    /// Corporate credit shown for clients.
    pub(crate) credits: Table<ClientId, Credit>,
    /// New timeline entries, in their order.
    pub(crate) timeline: Vec<TimelineEntry>,
    /// New inbox messages, in their order.
    pub(crate) inbox: Vec<InboxMessage>,
    /// New notifications, in their order.
    pub(crate) notifications: Vec<Notification>,
    /// New outbound events, in their order.
    pub(crate) outbox: Vec<OutboundEvent>,
}

impl TenantState {
    /// Creates a state in which nothing but the tenant and its members is loaded.
    pub fn new(tenant: Tenant, members: Vec<Member>) -> Self {
        Self {
            tenant,
            members,
            former_members: Vec::new(),
            ledger: HashMap::new(),
            ledger_added: Vec::new(),
            clients: Table::default(),
            has_freed_identity: false,
            by_email: HashMap::new(),
            by_external_id: HashMap::new(),
            by_phone: HashMap::new(),
            by_domain: HashMap::new(),
            rosters: Table::default(),
            account_contacts: Table::default(),
            leads: Table::default(),
            trips: Table::default(),
            proposals: Table::default(),
            itineraries: Table::default(),
            invoices: Table::default(),
            discoveries: Table::default(),
            profiles: Table::default(),
            credits: Table::default(),
            timeline: Vec::new(),
            inbox: Vec::new(),
            notifications: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// Adds a client that was read from the database, unless it is loaded already.
    pub(crate) fn load_client(&mut self, client: Client) {
        self.index(&client);
        let version = client.updated_at;
        self.clients.load_version(client.id, client, version);
    }

    pub(crate) fn add_client(&mut self, client: Client) {
        self.index(&client);
        self.clients.insert(client.id, client);
    }

    /// Changes a client through `change` and updates the indexes.
    ///
    /// Panics if the client is not loaded: ids come from look-ups in this state.
    pub(crate) fn change_client(&mut self, id: ClientId, change: impl FnOnce(&mut Client)) {
        let client = self.clients.change(&id).expect("a client that was looked up");
        let before = client.clone();
        change(client);
        let after = client.clone();
        let frees_email = before.email.is_some() && before.email != after.email;
        let frees_external_id = before.external_id.is_some() && before.external_id != after.external_id;
        self.has_freed_identity |= frees_email || frees_external_id;
        self.unindex(&before);
        self.index(&after);
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    /// All loaded and new clients by id, with their row states.
    pub(crate) fn clients(&self) -> &Table<ClientId, Client> {
        &self.clients
    }

    /// The client with that lower-cased email.
    pub(crate) fn client_by_email(&self, key: &str) -> Option<&Client> {
        self.client(*self.by_email.get(key)?)
    }

    pub(crate) fn client_by_external_id(&self, external_id: &str) -> Option<&Client> {
        self.client(*self.by_external_id.get(external_id)?)
    }

    /// The oldest client with those phone digits (D10).
    pub(crate) fn client_by_phone(&self, digits: &str) -> Option<&Client> {
        let matching = self.by_phone.get(digits)?.iter().filter_map(|id| self.client(*id));
        matching.min_by_key(|client| (client.created_at, client.id))
    }

    /// The member with that email, active or removed.
    pub(crate) fn member(&self, email: &str) -> Option<&Member> {
        self.members.iter().chain(&self.former_members).find(|member| member.email == email)
    }

    /// The company account with that lower-case domain.
    pub(crate) fn account_by_domain(&self, domain: &str) -> Option<&Client> {
        self.client(*self.by_domain.get(domain)?)
    }

    /// The client's loaded leads, oldest first: those that a rule can look up.
    pub(crate) fn leads_of(&self, client: ClientId) -> impl DoubleEndedIterator<Item = &Lead> {
        self.leads.values().filter(move |lead| lead.client_id == client)
    }

    /// The client's newest open lead (D11).
    pub(crate) fn open_lead(&self, client: ClientId) -> Option<&Lead> {
        self.leads_of(client).rev().find(|lead| lead.stage.is_open())
    }

    pub(crate) fn trip_of(&self, lead: LeadId) -> Option<&Trip> {
        self.trips.values().find(|trip| trip.lead_id == lead)
    }

    /// The newest proposal of a trip: the only one that matters.
    pub(crate) fn proposal_of(&self, trip: TripId) -> Option<&Proposal> {
        self.proposals.values().rfind(|proposal| proposal.trip_id == trip)
    }

    pub(crate) fn add_to_ledger(&mut self, entry: LedgerEntry) {
        self.ledger_added.push(entry.event_id.clone());
        self.ledger.insert(entry.event_id.clone(), entry);
    }

    /// The outbound events to write: none if the tenant has no subscription.
    pub(crate) fn emitted(&self) -> std::slice::Iter<'_, OutboundEvent> {
        if self.tenant.has_subscriptions { self.outbox.iter() } else { [].iter() }
    }

    fn index(&mut self, client: &Client) {
        if let Some(email) = &client.email {
            self.by_email.insert(email.key().to_owned(), client.id);
        }
        if let Some(external_id) = &client.external_id {
            self.by_external_id.insert(external_id.clone(), client.id);
        }
        if let Some(phone) = &client.phone {
            let matching = self.by_phone.entry(phone.digits().to_owned()).or_default();
            if !matching.contains(&client.id) {
                matching.push(client.id);
            }
        }
        if let Some(domain) = &client.company_domain {
            self.by_domain.insert(domain.clone(), client.id);
        }
    }

    fn unindex(&mut self, client: &Client) {
        if let Some(email) = &client.email {
            self.by_email.remove(email.key());
        }
        if let Some(external_id) = &client.external_id {
            self.by_external_id.remove(external_id);
        }
        if let Some(phone) = &client.phone
            && let Some(matching) = self.by_phone.get_mut(phone.digits())
        {
            matching.retain(|id| *id != client.id);
        }
    }
}
