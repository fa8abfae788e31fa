//! What a unit of work must be given: the agreement between rules and store, as code.

use super::{Simulation, load};
use crate::state::{Client, Discovery, TenantState};
use crate::store::Wanted;
use common::model::{DiscoveryId, LeadId, TripId};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use uuid::Uuid;

impl Simulation {
    /// What rules may look up for the events or the write that want this. With *n* events in the unit:
    /// - clients by email, by external id, and the *n* + 1 oldest by the phone of an event that names nothing
    ///   stronger, since each other event may give one of them another phone; company accounts by mail
    ///   domain; clients named by id, and those of enquiries that are;
    /// - on accounts so found, the entries of the emails; of clients on an account, the entry of their own
    ///   email;
    /// - of each client its *n* newest open enquiries, since each event may close one, its newest one, and
    ///   its newest with an external id that an event names; enquiries named by id or trip, and those of
    ///   invoices;
    /// - the trip and the discovery record of every enquiry so found, and discovery records named by id;
    /// - invoices by reference, and the newest one of a trip; profiles and credits of the clients;
    /// - for a records write, proposals and rosters: they are shown.
    pub(super) fn needed(&self, wanted: &Wanted) -> TenantState {
        let (mut state, n) = (self.empty(), usize::try_from(wanted.events).unwrap());
        for id in set(wanted.event_ids.iter()) {
            state
                .ledger
                .extend(self.rows.ledger.get_key_value(&id).map(|(id, entry)| (id.clone(), entry.clone())));
        }
        self.needed_clients(&mut state, wanted, n);
        self.needed_invoices(&mut state, wanted);
        self.needed_leads(&mut state, wanted, n);
        let rows = &self.rows;
        let leads: BTreeSet<_> = state.leads.keys().copied().collect();
        let (clients, named) = (state.client_ids(), set(wanted.discoveries.iter()));
        load(&mut state.trips, &rows.trips, |_, trip| leads.contains(&trip.lead_id));
        let trips: BTreeSet<_> = state.trips.keys().copied().collect();
        load(&mut state.proposals, &rows.proposals, |_, row| wanted.shown && trips.contains(&row.trip_id));
        load(&mut state.rosters, &rows.rosters, |id, _| wanted.shown && clients.contains(id));
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
        let mut named = set(wanted.clients.iter());
        let enquiries =
            set(wanted.leads.iter()).into_iter().filter_map(|id| self.rows.leads.get(&LeadId(id)));
        named.extend(enquiries.map(|lead| lead.client_id.0));
        for client in self.rows.clients.values() {
            let email = client.email.as_ref().is_some_and(|email| emails.contains(email.key()));
            let external_id = client.external_id.as_ref().is_some_and(|id| external_ids.contains(id));
            if email
                || external_id
                || named.contains(&client.id.0)
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

fn set<K: Ord + Clone>(keys: impl Iterator<Item = impl Borrow<(Uuid, K)>>) -> BTreeSet<K> {
    keys.map(|pair| pair.borrow().1.clone()).collect()
}
