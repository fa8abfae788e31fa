//! The rows that a unit of work must be given: the agreement between rules and store, as code.

use super::{Simulation, load};
use crate::state::{Client, Discovery, TenantState};
use crate::store::{LoadRequest, WantedIdentities};
use common::model::{ClientId, DiscoveryId, LeadId, TripId};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use uuid::Uuid;

impl Simulation {
    /// Loads the rows that rules may look up for the events or the write of a request. With *n* events in the unit:
    /// - clients by email, by external id, and the *n* + 1 oldest by the phone of an event that names nothing
    ///   stronger, since each other event may change the phone of one; company accounts by mail
    ///   domain; clients named by id, by lead and by booking;
    /// - on accounts so found, the entries of the emails; of clients on an account, the entry of their own
    ///   email; where several writes are a unit, on all these accounts the entries of emails that are given to clients;
    /// - of each related client its newest open leads, one more than events that may close one, its newest one, and
    ///   the newest one with each external id that an event names; leads named by id, trip or booking;
    /// - the trip of every lead so found, and where they matter its newest proposal and its discovery record;
    ///   discovery records named by id;
    /// - invoices by reference, and the newest one of a trip; profiles and credit of the related clients;
    /// - on request, rosters of the clients named by id.
    pub(super) fn needed(&self, wanted: &LoadRequest) -> TenantState {
        let (mut state, rows) = (self.empty(), &self.rows);
        for id in set(wanted.event_ids.iter()) {
            state.ledger.extend(rows.ledger.get_key_value(&id).map(|(id, entry)| (id.clone(), entry.clone())));
        }
        self.needed_clients(&mut state, wanted);
        self.needed_invoices(&mut state, wanted);
        let related = self.found(&wanted.related, wanted);
        self.needed_leads(&mut state, wanted, &related);
        let leads: BTreeSet<_> = state.leads.keys().copied().collect();
        let (named, travelling) = (set(wanted.discoveries.iter()), set(wanted.clients.ids.iter()));
        load(&mut state.trips, &rows.trips, |_, trip| leads.contains(&trip.lead_id));
        let trips: BTreeSet<_> = state.trips.keys().copied().collect();
        for trip in trips.iter().filter(|_| wanted.with_proposals) {
            let newest = rows.proposals.values().rfind(|proposal| proposal.trip_id == *trip);
            newest.into_iter().for_each(|row| state.proposals.load(row.id, row.clone()));
        }
        load(&mut state.rosters, &rows.rosters, |id, _| wanted.with_travelers && travelling.contains(&id.0));
        load(&mut state.discoveries, &rows.discoveries, |id: &DiscoveryId, row: &Discovery| {
            named.contains(&id.0) || wanted.with_discoveries && leads.contains(&row.lead_id)
        });
        load(&mut state.profiles, &rows.profiles, |id, _| wanted.with_discoveries && related.contains(id));
        load(&mut state.credits, &rows.credits, |id, _| wanted.with_credits && related.contains(id));
        state
    }

    /// The clients that match these identities.
    fn found(&self, people: &WantedIdentities, wanted: &LoadRequest) -> BTreeSet<ClientId> {
        let n = usize::try_from(wanted.events).unwrap();
        let emails = set(people.emails.iter());
        let external_ids = set(people.external_ids.keys());
        let by_identity = |client: &&Client| {
            client.email.as_ref().is_some_and(|email| emails.contains(email.key()))
                || client.external_id.as_ref().is_some_and(|id| external_ids.contains(id))
        };
        let mut found: BTreeSet<ClientId> =
            self.rows.clients.values().filter(by_identity).map(|client| client.id).collect();
        for digits in set(people.phones.iter()) {
            let has = |client: &&Client| client.phone.as_ref().is_some_and(|phone| phone.digits() == digits);
            let mut having: Vec<_> = self.rows.clients.values().filter(has).collect();
            having.sort_by_key(|client| (client.created_at, client.id));
            found.extend(having.into_iter().take(n + 1).map(|client| client.id));
        }
        found
    }

    fn needed_clients(&self, state: &mut TenantState, wanted: &LoadRequest) {
        let mut found = self.found(&wanted.people, wanted);
        found.extend(set(wanted.clients.ids.iter()).into_iter().map(ClientId));
        let leads = set(wanted.clients.leads.iter()).into_iter();
        found.extend(leads.filter_map(|id| self.rows.leads.get(&LeadId(id))).map(|lead| lead.client_id));
        let bookings = set(wanted.clients.booking_refs.iter()).into_iter();
        found.extend(bookings.filter_map(|id| self.rows.invoices.get(&id)).map(|invoice| invoice.client_id));
        let (emails, domains): (BTreeSet<_>, BTreeSet<_>) = set(wanted.company_emails.iter()).into_iter().unzip();
        for client in self.rows.clients.values() {
            let is_account = client.company_domain.as_ref().is_some_and(|domain| domains.contains(domain));
            if is_account || found.contains(&client.id) {
                state.load_client(client.clone());
            }
        }
        let given = if wanted.events > 1 { set(wanted.assigned_emails.iter()) } else { BTreeSet::new() };
        let own = |client: &Client| Some((client.account_id?, client.email.as_ref()?.key().to_owned()));
        let own: BTreeSet<_> = state.clients().values().filter_map(own).collect();
        load(&mut state.account_contacts, &self.rows.contacts, |key, _| {
            emails.contains(&key.1) || own.contains(key) || given.contains(&key.1)
        });
    }

    fn needed_invoices(&self, state: &mut TenantState, wanted: &LoadRequest) {
        let refs = set(wanted.booking_refs.iter());
        load(&mut state.invoices, &self.rows.invoices, |booking_ref, _| refs.contains(booking_ref));
        for trip in set(wanted.invoices_by_trip.iter()) {
            let of_trip = self.rows.invoices.values().filter(|invoice| invoice.trip_id == Some(TripId(trip)));
            let newest = of_trip.max_by_key(|invoice| (invoice.created_at, &invoice.booking_ref));
            newest.into_iter().for_each(|row| state.invoices.load(row.booking_ref.clone(), row.clone()));
        }
    }

    fn needed_leads(&self, state: &mut TenantState, wanted: &LoadRequest, related: &BTreeSet<ClientId>) {
        let open = usize::try_from(wanted.closing_events).unwrap() + 1;
        let external_ids = set(wanted.leads_by_external_id.iter());
        let mut ids: BTreeSet<Uuid> = set(wanted.leads.iter());
        let trips = set(wanted.leads_by_trip.iter()).into_iter().filter_map(|id| self.rows.trips.get(&TripId(id)));
        ids.extend(trips.map(|trip| trip.lead_id.0));
        ids.extend(state.invoices.values().map(|invoice| invoice.lead_id.0));
        for client in related.iter().filter(|_| wanted.with_leads) {
            let own = || self.rows.leads.values().rev().filter(|lead| lead.client_id == *client);
            let newest = own().take(1).chain(own().filter(|lead| lead.stage.is_open()).take(open));
            ids.extend(newest.map(|lead| lead.id.0));
            for external_id in &external_ids {
                let named = own().find(|lead| lead.external_id.as_ref() == Some(external_id));
                ids.extend(named.map(|lead| lead.id.0));
            }
        }
        load(&mut state.leads, &self.rows.leads, |id, _| ids.contains(&id.0));
    }
}

fn set<K: Ord + Clone>(keys: impl Iterator<Item = impl Borrow<(Uuid, K)>>) -> BTreeSet<K> {
    keys.map(|pair| pair.borrow().1.clone()).collect()
}
