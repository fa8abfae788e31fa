//! Which identities may be the same client's at some point of a unit of work.

use crate::rules::contact::{Identity, Key};
use crate::state::TenantState;
use common::model::{Email, Phone};
use std::collections::HashMap;

/// Identities in groups: two are in one group if a client has both or an event sends both, also through
/// others. Events on one client are always in one group, because a client has an identity from the start or
/// gets it from an event that matched it by another one.
#[derive(Debug, Default)]
pub(super) struct Persons<'a> {
    numbers: HashMap<Key<'a>, usize>,
    parents: Vec<usize>,
}

impl<'a> Persons<'a> {
    /// Groups the identities of the clients that are here and of those named by events.
    pub(super) fn of(state: &'a TenantState, named: impl Iterator<Item = Identity<'a>>) -> Self {
        let mut persons = Self::default();
        for client in state.clients().values() {
            persons.join([
                client.email.as_ref().map(Email::key).map(Key::Email),
                client.external_id.as_deref().map(Key::ExternalId),
                client.phone.as_ref().map(Phone::digits).map(Key::Phone),
            ]);
        }
        for identity in named {
            persons.join([
                identity.email.map(Email::key).map(Key::Email),
                identity.external_id.map(Key::ExternalId),
                identity.phone.map(Phone::digits).map(Key::Phone),
            ]);
        }
        persons
    }

    /// The group of an identity, and the key it is matched by.
    pub(super) fn of_identity(&self, identity: &Identity<'a>) -> Option<(usize, Key<'a>)> {
        let key = identity.key()?;
        Some((self.root(*self.numbers.get(&key)?), key))
    }

    fn join(&mut self, keys: [Option<Key<'a>>; 3]) {
        let mut first = None;
        for key in keys.into_iter().flatten() {
            let fresh = self.parents.len();
            let number = *self.numbers.entry(key).or_insert(fresh);
            if number == fresh {
                self.parents.push(fresh);
            }
            let (root, other) = (self.root(*first.get_or_insert(number)), self.root(number));
            self.parents[root.max(other)] = root.min(other);
        }
    }

    fn root(&self, mut number: usize) -> usize {
        while self.parents[number] != number {
            number = self.parents[number];
        }
        number
    }
}
