//! The in-memory state a unit of work decides on: what was loaded of one agency, and what changed.
//!
//! `store` fills a [`TenantState`] and writes its differences back; `rules` work on nothing else. A state is one
//! agency's: a rule can't reach another's records.

mod records;
mod table;

pub use records::*;
pub use table::{Row, RowState, Table};

use common::model::{ClientId, DiscoveryId, LeadId, ProposalId, TripId};
use std::collections::HashMap;

/// One agency's part of a unit of work.
///
/// Invariant: for every event of the unit, everything that its rules may look up is loaded. What isn't here
/// doesn't exist.
#[derive(Debug)]
pub struct TenantState {
    /// The agency.
    pub tenant: Tenant,
    /// Its active members, in the order of routing (D16).
    pub members: Vec<Member>,
    /// Those who have left: enquiries may still name them as owners.
    pub former_members: Vec<Member>,
    /// Events that were applied before, and those applied in this unit.
    pub ledger: HashMap<String, LedgerEntry>,
    /// Ids in `ledger` that this unit added, in their order.
    pub ledger_added: Vec<String>,
    /// Clients; found through the `client_by_*` methods.
    clients: Table<ClientId, Client>,
    /// Whether a client gave up an email or external id: another one may have taken it since.
    pub has_freed_identity: bool,
    by_email: HashMap<String, ClientId>,
    by_external_id: HashMap<String, ClientId>,
    by_phone: HashMap<String, Vec<ClientId>>,
    by_domain: HashMap<String, ClientId>,
    /// Rosters of clients. Only records writes load them.
    pub rosters: Table<ClientId, Roster>,
    /// Colleagues on company accounts, by account and lower-cased email.
    pub account_contacts: Table<(ClientId, String), AccountContact>,
    /// Enquiries.
    pub leads: Table<LeadId, Lead>,
    /// Trip workspaces.
    pub trips: Table<TripId, Trip>,
    /// Proposals.
    pub proposals: Table<ProposalId, Proposal>,
    /// Itinerary snapshots, by the proposal that holds them. Only new ones are here: none is ever loaded.
    pub itineraries: Table<ProposalId, Itinerary>,
    /// Invoices, by booking reference.
    pub invoices: Table<String, Invoice>,
    /// Trip discovery records.
    pub discoveries: Table<DiscoveryId, Discovery>,
    /// Traveller profiles.
    pub profiles: Table<ClientId, TravellerProfile>,
    /// Corporate credit shown for clients.
    pub credits: Table<ClientId, Credit>,
    /// New timeline entries, in their order.
    pub timeline: Vec<TimelineEntry>,
    /// New inbox messages, in their order.
    pub inbox: Vec<InboxMessage>,
    /// New notifications, in their order.
    pub notifications: Vec<Notification>,
    /// New outbound events, in their order.
    pub outbox: Vec<OutboundEvent>,
}

impl TenantState {
    /// A state in which nothing is loaded yet.
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

    /// Takes in a client read from the database; one taken in before stays.
    pub fn load_client(&mut self, client: Client) {
        self.index(&client);
        let version = client.updated_at;
        self.clients.load_version(client.id, client, version);
    }

    /// Adds a new client.
    pub fn add_client(&mut self, client: Client) {
        self.index(&client);
        self.clients.insert(client.id, client);
    }

    /// Changes a client through `change`; its indexes follow.
    ///
    /// Panics when there is none: ids come from look-ups in this state.
    pub fn change_client(&mut self, id: ClientId, change: impl FnOnce(&mut Client)) {
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

    /// The client of that id.
    pub fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    /// All clients that are here, with what happened to them, by id.
    pub fn clients(&self) -> &Table<ClientId, Client> {
        &self.clients
    }

    /// The client with that lower-cased email.
    pub fn client_by_email(&self, key: &str) -> Option<&Client> {
        self.client(*self.by_email.get(key)?)
    }

    /// The client with that external id.
    pub fn client_by_external_id(&self, external_id: &str) -> Option<&Client> {
        self.client(*self.by_external_id.get(external_id)?)
    }

    /// The oldest client with those phone digits (D10).
    pub fn client_by_phone(&self, digits: &str) -> Option<&Client> {
        let having = self.by_phone.get(digits)?.iter().filter_map(|id| self.client(*id));
        having.min_by_key(|client| (client.created_at, client.id))
    }

    /// The member of that email, active or not.
    pub fn member(&self, email: &str) -> Option<&Member> {
        self.members.iter().chain(&self.former_members).find(|member| member.email == email)
    }

    /// The company account of that lower-case domain.
    pub fn account_by_domain(&self, domain: &str) -> Option<&Client> {
        self.client(*self.by_domain.get(domain)?)
    }

    /// The client's enquiries, oldest first.
    pub fn leads_of(&self, client: ClientId) -> impl DoubleEndedIterator<Item = &Lead> {
        self.leads.values().filter(move |lead| lead.client_id == client)
    }

    /// The client's newest open enquiry (D11).
    pub fn open_lead(&self, client: ClientId) -> Option<&Lead> {
        self.leads_of(client).rev().find(|lead| lead.stage.is_open())
    }

    /// The trip of an enquiry.
    pub fn trip_of(&self, lead: LeadId) -> Option<&Trip> {
        self.trips.values().find(|trip| trip.lead_id == lead)
    }

    /// The newest proposal of a trip: the one that counts.
    pub fn proposal_of(&self, trip: TripId) -> Option<&Proposal> {
        self.proposals.values().rfind(|proposal| proposal.trip_id == trip)
    }

    /// Enters what was applied in the ledger.
    pub fn enter(&mut self, entry: LedgerEntry) {
        self.ledger_added.push(entry.event_id.clone());
        self.ledger.insert(entry.event_id.clone(), entry);
    }

    /// The outbound events to be written: none where the tenant has no subscription.
    pub fn emitted(&self) -> std::slice::Iter<'_, OutboundEvent> {
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
            let having = self.by_phone.entry(phone.digits().to_owned()).or_default();
            if !having.contains(&client.id) {
                having.push(client.id);
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
            && let Some(having) = self.by_phone.get_mut(phone.digits())
        {
            having.retain(|id| *id != client.id);
        }
    }
}
