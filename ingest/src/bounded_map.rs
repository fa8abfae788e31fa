//! A map of bounded size that evicts entries that were not used recently.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Holds at most about `2 * half` entries, in two halves. An entry that is used moves to the young half; when that is full,
/// the old half is dropped and the young half takes its place. Every operation is constant time.
#[derive(Debug)]
pub(crate) struct BoundedMap<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V> BoundedMap<K, V> {
    pub(crate) fn new(half: usize) -> Self {
        Self { half, young: HashMap::new(), old: HashMap::new() }
    }

    /// The entry of `key`, which counts as used from then on.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get(key)
    }

    /// Inserts or replaces an entry.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}
