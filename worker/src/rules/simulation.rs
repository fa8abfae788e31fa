//! A database in memory: keeps the rows of one agency, gives each unit of work a fresh state, and takes back
//! what changed under the constraints of the schema. With [`Loading::Needed`] a unit gets only what its rules
//! may look up, which is the agreement between rules and store.

use super::testing::{account, caller, envelope, member, tenant};
use super::{Context, Event, NumberBlock, apply, opens_wanted};
use crate::state::*;
use crate::store::Wanted;
use chrono::{DateTime, TimeDelta, Utc};
use common::event::{EventResult, parse_batch};
use common::model::{ClientId, DiscoveryId, LeadId, ProposalId, TripId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use uuid::Uuid;

/// An event to be sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) actor: Value,
    pub(super) payload: Value,
}

/// What a unit's state is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// All rows there are.
    All,
    /// Only the rows that the unit's events may look up.
    Needed,
}

/// The rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) contacts: BTreeMap<(ClientId, String), AccountContact>,
    pub(super) leads: BTreeMap<LeadId, Lead>,
    pub(super) trips: BTreeMap<TripId, Trip>,
    pub(super) proposals: BTreeMap<ProposalId, Proposal>,
    pub(super) itineraries: BTreeMap<ProposalId, Itinerary>,
    pub(super) invoices: BTreeMap<String, Invoice>,
    pub(super) discoveries: BTreeMap<DiscoveryId, Discovery>,
    pub(super) profiles: BTreeMap<ClientId, TravellerProfile>,
    pub(super) credits: BTreeMap<ClientId, Credit>,
    pub(super) ledger: BTreeMap<String, LedgerEntry>,
    pub(super) timeline: Vec<TimelineEntry>,
    pub(super) inbox: Vec<InboxMessage>,
    pub(super) notifications: Vec<Notification>,
    pub(super) outbox: Vec<OutboundEvent>,
}

/// The database, and what units are given besides. Ids, numbers and time go on from unit to unit, so that how
/// events are split into units makes no difference to them.
pub(super) struct Simulation {
    pub(super) rows: Rows,
    ids: u128,
    numbers: NumberBlock,
    events: i16,
}

impl Simulation {
    /// An agency with two members and the company account of initech.com.
    pub(super) fn new() -> Self {
        let mut rows = Rows::default();
        let initech = account(Uuid::from_u128(1 << 100), "Initech", "initech.com", start());
        rows.clients.insert(initech.id, initech);
        Self { rows, ids: 0, numbers: NumberBlock::new(2026, 1, 10_000), events: 0 }
    }

    /// Applies one unit of work.
    pub(super) fn unit(&mut self, sent: &[Sent], loading: Loading) -> Vec<EventResult> {
        let results = self.redeliver(sent, self.events, loading);
        self.events += i16::try_from(sent.len()).unwrap();
        results
    }

    /// Applies a unit whose first event is the `first`-th of all.
    pub(super) fn redeliver(&mut self, sent: &[Sent], first: i16, loading: Loading) -> Vec<EventResult> {
        let body: Vec<_> =
            sent.iter().map(|s| envelope(&s.id, s.kind, &s.actor, &s.payload.to_string())).collect();
        let body = format!(r#"{{"events": [{}]}}"#, body.join(","));
        let batch = parse_batch(body.as_bytes(), "acme").unwrap();
        let caller = caller();
        let events = (first..).zip(&batch);
        let events = events.map(|(ordinal, envelope)| Event {
            caller: &caller,
            envelope,
            request_id: Uuid::nil(),
            ordinal,
        });
        let events: Vec<_> = events.collect();
        let mut state = match loading {
            Loading::All => self.all(),
            Loading::Needed => self.needed(&events),
        };
        let (wanted, before) = (opens_wanted(&state, &events), state.leads.keys().count());
        let results = events.iter().map(|event| self.apply(&mut state, event)).collect();
        let opened = state.leads.keys().count() - before;
        assert!(opened <= wanted, "{opened} enquiries opened, {wanted} numbers wanted");
        self.rows.take_back(state);
        results
    }

    fn apply(&mut self, state: &mut TenantState, event: &Event<'_>) -> EventResult {
        let ids = &mut self.ids;
        let mut next_id = || {
            *ids += 1;
            Uuid::from_u128(*ids)
        };
        // Some events share a millisecond.
        let now = start() + TimeDelta::milliseconds(i64::from(event.ordinal) / 3);
        let mut ctx =
            Context { now, next_id: &mut next_id, numbers: &mut self.numbers, skip_discovery: false };
        apply(state, event, &mut ctx).unwrap()
    }

    fn empty(&self) -> TenantState {
        TenantState::new(tenant(), vec![member("a@agency.com"), member("b@agency.com")])
    }

    fn all(&self) -> TenantState {
        let mut state = self.empty();
        let rows = &self.rows;
        state.ledger.extend(rows.ledger.clone());
        rows.clients.values().for_each(|client| state.load_client(client.clone()));
        load(&mut state.account_contacts, &rows.contacts, |_, _| true);
        load(&mut state.leads, &rows.leads, |_, _| true);
        load(&mut state.trips, &rows.trips, |_, _| true);
        load(&mut state.invoices, &rows.invoices, |_, _| true);
        load(&mut state.discoveries, &rows.discoveries, |_, _| true);
        load(&mut state.profiles, &rows.profiles, |_, _| true);
        load(&mut state.credits, &rows.credits, |_, _| true);
        state
    }

    /// What rules may look up for these events. With *n* events in the unit:
    /// - clients by email, by external id, and the *n* + 1 oldest by the phone of an event that names nothing
    ///   stronger, since each other event may give one of them another phone; company accounts by mail
    ///   domain;
    /// - on accounts so found, the entries of the emails; of clients on an account, the entry of their own
    ///   email;
    /// - of each client its *n* newest open enquiries, since each event may close one, its newest one, and
    ///   its newest with an external id that an event names; enquiries named by id or trip, and those of
    ///   invoices;
    /// - the trip and the discovery record of every enquiry so found, and discovery records named by id;
    /// - invoices by reference, and the newest one of a trip; profiles and credits of the clients.
    fn needed(&self, events: &[Event<'_>]) -> TenantState {
        let mut wanted = Wanted::default();
        events.iter().for_each(|event| wanted.add(event.caller, event.envelope));
        let (mut state, n) = (self.empty(), events.len());
        for id in set(wanted.event_ids.iter()) {
            state
                .ledger
                .extend(self.rows.ledger.get_key_value(&id).map(|(id, entry)| (id.clone(), entry.clone())));
        }
        self.needed_clients(&mut state, &wanted, n);
        self.needed_invoices(&mut state, &wanted);
        self.needed_leads(&mut state, &wanted, n);
        let rows = &self.rows;
        let leads: BTreeSet<_> = state.leads.keys().copied().collect();
        let (clients, named) = (state.client_ids(), set(wanted.discoveries.iter()));
        load(&mut state.trips, &rows.trips, |_, trip| leads.contains(&trip.lead_id));
        let record =
            |id: &DiscoveryId, record: &Discovery| named.contains(&id.0) || leads.contains(&record.lead_id);
        load(&mut state.discoveries, &rows.discoveries, |id, row| {
            wanted.client_discoveries && record(id, row)
        });
        load(&mut state.profiles, &rows.profiles, |id, _| wanted.client_discoveries && clients.contains(id));
        load(&mut state.credits, &rows.credits, |id, _| wanted.client_credits && clients.contains(id));
        state
    }

    fn needed_clients(&self, state: &mut TenantState, wanted: &Wanted, n: usize) {
        let (emails, external_ids) = (set(wanted.emails.iter()), set(wanted.external_ids.iter()));
        let domains = set(wanted.domains.iter());
        for client in self.rows.clients.values() {
            let email = client.email.as_ref().is_some_and(|email| emails.contains(email.key()));
            let external_id = client.external_id.as_ref().is_some_and(|id| external_ids.contains(id));
            if email
                || external_id
                || client.company_domain.as_ref().is_some_and(|domain| domains.contains(domain))
            {
                state.load_client(client.clone());
            }
        }
        for digits in set(wanted.phones.iter()) {
            let has = |client: &&Client| client.phone.as_ref().is_some_and(|phone| phone.digits() == digits);
            let mut having: Vec<_> = self.rows.clients.values().filter(has).collect();
            having.sort_by_key(|client| (client.created_at, client.id));
            having.into_iter().take(n + 1).for_each(|client| state.load_client(client.clone()));
        }
        let own = |client: &Client| Some((client.account_id?, client.email.as_ref()?.key().to_owned()));
        let own: BTreeSet<_> = state.clients().values().filter_map(own).collect();
        load(&mut state.account_contacts, &self.rows.contacts, |key, _| {
            emails.contains(&key.1) || own.contains(key)
        });
    }

    fn needed_invoices(&self, state: &mut TenantState, wanted: &Wanted) {
        let refs = set(wanted.booking_refs.iter());
        load(&mut state.invoices, &self.rows.invoices, |booking_ref, _| refs.contains(booking_ref));
        for trip in set(wanted.booking_trips.iter()) {
            let of_trip = self.rows.invoices.values().filter(|invoice| invoice.trip_id == Some(TripId(trip)));
            let newest = of_trip.max_by_key(|invoice| (invoice.created_at, &invoice.booking_ref));
            newest.into_iter().for_each(|row| state.invoices.load(row.booking_ref.clone(), row.clone()));
        }
    }

    fn needed_leads(&self, state: &mut TenantState, wanted: &Wanted, n: usize) {
        let mut ids: BTreeSet<Uuid> = set(wanted.leads.iter());
        let trips = set(wanted.trips.iter()).into_iter().filter_map(|id| self.rows.trips.get(&TripId(id)));
        ids.extend(trips.map(|trip| trip.lead_id.0));
        ids.extend(state.invoices.values().map(|invoice| invoice.lead_id.0));
        for client in state.client_ids() {
            let own = || self.rows.leads.values().rev().filter(|lead| lead.client_id == client);
            if wanted.client_leads {
                ids.extend(
                    own()
                        .take(1)
                        .chain(own().filter(|lead| lead.stage.is_open()).take(n))
                        .map(|lead| lead.id.0),
                );
            }
            for id in set(wanted.lead_external_ids.iter()) {
                ids.extend(own().find(|lead| lead.external_id.as_ref() == Some(&id)).map(|lead| lead.id.0));
            }
        }
        load(&mut state.leads, &self.rows.leads, |id, _| ids.contains(&id.0));
    }
}

impl Rows {
    /// Writes what changed. New keys must be new, changed rows must be there, and versions grow (D19).
    fn take_back(&mut self, state: TenantState) {
        save(&mut self.clients, state.clients(), |row| row.id, |row| Some(row.updated_at));
        let key = |row: &AccountContact| (row.account_id, row.email.key().to_owned());
        save(&mut self.contacts, &state.account_contacts, key, |row| Some(row.updated_at));
        let trips_changed: Vec<_> =
            state.trips.in_state(RowState::Changed).map(|trip| trip.lead_id).collect();
        let leads_changed: BTreeSet<_> =
            state.leads.in_state(RowState::Changed).map(|lead| lead.id).collect();
        assert!(
            trips_changed.iter().all(|lead| leads_changed.contains(lead) || !self.leads.contains_key(lead))
        );
        save(&mut self.leads, &state.leads, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.trips, &state.trips, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.proposals, &state.proposals, |row| row.id, |_| None);
        save(&mut self.itineraries, &state.itineraries, |row| row.proposal_id, |_| None);
        save(&mut self.invoices, &state.invoices, |row| row.booking_ref.clone(), |row| Some(row.updated_at));
        save(&mut self.discoveries, &state.discoveries, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.profiles, &state.profiles, |row| row.client_id, |row| Some(row.updated_at));
        save(&mut self.credits, &state.credits, |row| row.client_id, |row| Some(row.as_of));
        for id in &state.ledger_added {
            assert!(
                self.ledger.insert(id.clone(), state.ledger[id].clone()).is_none(),
                "{id} is entered twice"
            );
        }
        self.timeline.extend(state.timeline);
        self.inbox.extend(state.inbox);
        self.notifications.extend(state.notifications);
        self.outbox.extend(state.outbox);
        self.check_unique();
    }

    /// The unique indexes of the schema.
    fn check_unique(&self) {
        let clients = || self.clients.values();
        unique(clients().filter_map(|client| client.email.as_ref()).map(|email| email.key().to_owned()));
        unique(clients().filter_map(|client| client.external_id.clone()));
        unique(self.leads.values().map(|lead| lead.enquiry_number.clone()));
        unique(self.trips.values().map(|trip| trip.lead_id));
        unique(self.discoveries.values().map(|record| record.lead_id));
    }
}

fn start() -> DateTime<Utc> {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

fn set<K: Ord + Clone>(keys: impl Iterator<Item = impl std::borrow::Borrow<(Uuid, K)>>) -> BTreeSet<K> {
    keys.map(|pair| pair.borrow().1.clone()).collect()
}

fn unique<K: Ord + Debug>(keys: impl Iterator<Item = K>) {
    let mut seen = BTreeSet::new();
    keys.for_each(|key| assert!(seen.replace(key).is_none(), "unique index violated"));
}

fn load<K: Ord + Clone, V: Clone>(
    table: &mut Table<K, V>,
    rows: &BTreeMap<K, V>,
    wanted: impl Fn(&K, &V) -> bool,
) {
    let wanted = rows.iter().filter(|(key, row)| wanted(key, row));
    wanted.for_each(|(key, row)| table.load(key.clone(), row.clone()));
}

fn save<K: Ord + Clone + Debug, V: Clone + PartialEq>(
    rows: &mut BTreeMap<K, V>,
    table: &Table<K, V>,
    key: impl Fn(&V) -> K,
    version: impl Fn(&V) -> Option<DateTime<Utc>>,
) {
    for row in table.in_state(RowState::New) {
        assert!(rows.insert(key(row), row.clone()).is_none(), "{:?} is there already", key(row));
    }
    for row in table.in_state(RowState::Changed) {
        let before = rows.insert(key(row), row.clone()).expect("a changed row is there");
        assert!(before == *row || version(row) > version(&before), "{:?} keeps its version", key(row));
    }
}
