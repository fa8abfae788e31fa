//! A map that forgets what wasn't used lately.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Holds at most about `2 * half` entries. Entries live in two halves: what is used moves to the young one; when that
/// is full, the old one is dropped and the young one takes its place. Every operation is constant time.
#[derive(Debug)]
pub(crate) struct BoundedMap<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V> BoundedMap<K, V> {
    /// An empty map.
    pub(crate) fn new(half: usize) -> Self {
        Self { half, young: HashMap::new(), old: HashMap::new() }
    }

    /// The entry of `key`, which by this counts as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get(key)
    }

    /// Puts an entry in, over an older one.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// Forgets an entry.
    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut map = BoundedMap::new(10);
        map.insert(0, "kept");
        for key in 1..1_000 {
            map.insert(key, "passing");
            assert_eq!(map.get(&0), Some(&"kept"));
            assert!(map.young.len() + map.old.len() <= 20);
        }
        assert_eq!(map.get(&1), None);
        assert_eq!(map.get(&999), Some(&"passing"));
    }

    #[test]
    fn an_entry_is_replaced_and_removed_wherever_it_lies() {
        let mut map = BoundedMap::new(1);
        map.insert(1, "a");
        map.insert(2, "b");
        map.insert(1, "c");
        assert_eq!(map.get(&1), Some(&"c"));
        map.remove(&2);
        map.remove(&1);
        assert_eq!(map.get(&1), None);
        assert_eq!(map.get(&2), None);
    }
}
