//! A database in memory: keeps the rows of one tenant, gives each unit of work a fresh state, and saves its changes
//! under the constraints of the schema. With [`Loading::Needed`] a unit gets only what its rules may look up, which is
//! the agreement between rules and store.

mod needed;

use super::events::apply;
use super::testing::{account, caller, envelope, events, member, numbered, tenant};
use super::{Context, Event, NumberBlock, can_open_lead};
use crate::state::*;
use crate::store::LoadRequest;
use chrono::{DateTime, TimeDelta, Utc};
use common::event::{EventResult, parse_batch};
use common::model::{ClientId, DiscoveryId, LeadId, ProposalId, TripId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use uuid::Uuid;

/// An event to send.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) actor: Value,
    pub(super) payload: Value,
}

/// Which rows a unit's state is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// All rows of the database.
    All,
    /// Only the rows that the unit's events may look up.
    Needed,
}

/// The rows of all tables.
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
    pub(super) rosters: BTreeMap<ClientId, Roster>,
    pub(super) ledger: BTreeMap<String, LedgerEntry>,
    pub(super) timeline: Vec<TimelineEntry>,
    pub(super) inbox: Vec<InboxMessage>,
    pub(super) notifications: Vec<Notification>,
    pub(super) outbox: Vec<OutboundEvent>,
}

/// The database, and the ids, numbers and time that units are given. These continue from unit to unit, so that they do
/// not depend on how events are split into units.
pub(super) struct Simulation {
    pub(super) rows: Rows,
    /// The time; when `None`, it advances with the events.
    pub(super) now: Option<DateTime<Utc>>,
    ids: u128,
    numbers: NumberBlock,
    events: i16,
}

impl Simulation {
    /// A tenant with two members and the company account of initech.com.
    pub(super) fn new() -> Self {
        let mut rows = Rows::default();
        let initech = account(Uuid::from_u128(1 << 100), "Initech", "initech.com", start());
        rows.clients.insert(initech.id, initech);
        Self { rows, now: None, ids: 0, numbers: NumberBlock::new(2026, 1..=10_000), events: 0 }
    }

    /// Applies one unit of work.
    pub(super) fn unit(&mut self, sent: &[Sent], loading: Loading) -> Vec<EventResult> {
        let results = self.redeliver(sent, self.events, loading);
        self.events += i16::try_from(sent.len()).unwrap();
        results
    }

    /// Applies a unit whose first event is the `first`-th of all.
    pub(super) fn redeliver(&mut self, sent: &[Sent], first: i16, loading: Loading) -> Vec<EventResult> {
        let body: Vec<_> = sent.iter().map(|s| envelope(&s.id, s.kind, &s.actor, &s.payload.to_string())).collect();
        let body = format!(r#"{{"events": [{}]}}"#, body.join(","));
        let batch = parse_batch(body.as_bytes(), "acme").unwrap();
        let caller = caller();
        let events = events(&caller, Uuid::nil(), &batch, first);
        let named = events.iter().map(|event| (event.caller.tenant_id, event.envelope));
        let mut state = self.state(&LoadRequest::of_events(named), loading);
        let wanted = events.iter().filter(|event| can_open_lead(event.envelope.event_type)).count();
        let before = state.leads.keys().count();
        let results = events.iter().map(|event| self.apply(&mut state, event)).collect();
        let opened = state.leads.keys().count() - before;
        assert!(opened <= wanted, "{opened} leads opened, {wanted} numbers wanted");
        self.rows.save_changes(state);
        results
    }

    fn apply(&mut self, state: &mut TenantState, event: &Event<'_>) -> EventResult {
        // Some events share a millisecond.
        let now = self.now.unwrap_or(start() + TimeDelta::milliseconds(i64::from(event.ordinal) / 3));
        self.run(now, |ctx| apply(state, event, ctx).unwrap())
    }

    /// Runs a rule at `now`.
    pub(super) fn run<T>(&mut self, now: DateTime<Utc>, rule: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let mut next_id = numbered(&mut self.ids);
        rule(&mut Context { now, next_id: &mut next_id, numbers: &mut self.numbers, skip_discovery: false })
    }

    /// The state of a unit that requests `wanted`.
    pub(super) fn state(&self, wanted: &LoadRequest, loading: Loading) -> TenantState {
        match loading {
            Loading::All => self.all(),
            Loading::Needed => self.needed(wanted),
        }
    }

    fn empty(&self) -> TenantState {
        TenantState::new(tenant(), vec![member("a@agency.com"), member("b@agency.com")])
    }

    pub(super) fn all(&self) -> TenantState {
        let mut state = self.empty();
        let rows = &self.rows;
        state.ledger.extend(rows.ledger.clone());
        rows.clients.values().for_each(|client| state.load_client(client.clone()));
        load(&mut state.account_contacts, &rows.contacts, |_, _| true);
        load(&mut state.leads, &rows.leads, |_, _| true);
        load(&mut state.trips, &rows.trips, |_, _| true);
        load(&mut state.proposals, &rows.proposals, |_, _| true);
        load(&mut state.rosters, &rows.rosters, |_, _| true);
        load(&mut state.invoices, &rows.invoices, |_, _| true);
        load(&mut state.discoveries, &rows.discoveries, |_, _| true);
        load(&mut state.profiles, &rows.profiles, |_, _| true);
        load(&mut state.credits, &rows.credits, |_, _| true);
        state
    }
}

impl Rows {
    /// Saves the changes of a state. Inserted keys must be new, changed rows must exist, and versions must increase (D19).
    pub(super) fn save_changes(&mut self, state: TenantState) {
        save(&mut self.clients, state.clients(), |row| row.id, |row| Some(row.updated_at));
        let key = |row: &AccountContact| (row.account_id, row.email.key().to_owned());
        save(&mut self.contacts, &state.account_contacts, key, |row| Some(row.updated_at));
        for trip in state.trips.in_state(RowState::Changed) {
            let shows_more = self.trips[&trip.id].brief != trip.brief;
            let grows = |lead: &Lead| self.leads.get(&lead.id).is_none_or(|b| lead.updated_at > b.updated_at);
            assert!(!shows_more || state.leads.get(&trip.lead_id).is_some_and(grows), "the lead shows it");
        }
        save(&mut self.leads, &state.leads, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.trips, &state.trips, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.proposals, &state.proposals, |row| row.id, |_| None);
        // Replaced without a check, because stored itineraries are never loaded.
        let itineraries = state.itineraries.values().map(|row| (row.proposal_id, row.clone()));
        self.itineraries.extend(itineraries);
        // Replaced as a whole; an empty roster has no rows.
        self.rosters.extend(state.rosters.new_or_changed().map(|row| (row.client_id, row.clone())));
        save(&mut self.invoices, &state.invoices, |row| row.booking_ref.clone(), |row| Some(row.updated_at));
        save(&mut self.discoveries, &state.discoveries, |row| row.id, |row| Some(row.updated_at));
        save(&mut self.profiles, &state.profiles, |row| row.client_id, |row| Some(row.updated_at));
        save(&mut self.credits, &state.credits, |row| row.client_id, |row| Some(row.as_of));
        for id in &state.ledger_added {
            assert!(self.ledger.insert(id.clone(), state.ledger[id].clone()).is_none(), "{id} is in the ledger twice");
        }
        self.timeline.extend(state.timeline);
        self.inbox.extend(state.inbox);
        self.notifications.extend(state.notifications);
        for event in state.outbox {
            let of_lead = |other: &&OutboundEvent| other.payload["leadId"] == event.payload["leadId"];
            let version = |event: &OutboundEvent| event.payload["version"].as_str().map(str::to_owned);
            let last = self.outbox.iter().rfind(of_lead).and_then(version);
            assert!(last < version(&event), "the versions of a lead's events grow (D46)");
            self.outbox.push(event);
        }
        self.rosters.retain(|_, roster| !roster.travelers.is_empty());
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

/// The time of the first event.
pub(super) fn start() -> DateTime<Utc> {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

fn unique<K: Ord + Debug>(keys: impl Iterator<Item = K>) {
    let mut seen = BTreeSet::new();
    keys.for_each(|key| assert!(seen.replace(key).is_none(), "unique index violated"));
}

fn load<K: Ord + Clone, V: Clone>(table: &mut Table<K, V>, rows: &BTreeMap<K, V>, wanted: impl Fn(&K, &V) -> bool) {
    let wanted = rows.iter().filter(|(key, row)| wanted(key, row));
    wanted.for_each(|(key, row)| table.load(key.clone(), row.clone()));
}

fn save<K: Ord + Clone + Debug, V: Clone + PartialEq>(
    rows: &mut BTreeMap<K, V>, table: &Table<K, V>, key: impl Fn(&V) -> K,
    version: impl Fn(&V) -> Option<DateTime<Utc>>,
) {
    for row in table.in_state(RowState::New) {
        assert!(rows.insert(key(row), row.clone()).is_none(), "{:?} exists already", key(row));
    }
    for row in table.in_state(RowState::Changed) {
        let before = rows.insert(key(row), row.clone()).expect("a changed row exists");
        assert!(before == *row || version(row) > version(&before), "{:?} keeps its version", key(row));
    }
}
