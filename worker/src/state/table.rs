//! Rows that remember whether they were read, changed or made.

use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

/// What happened to a row in this unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// As it was read.
    Loaded,
    /// Read, then changed: to be updated.
    Changed,
    /// Made here: to be inserted.
    New,
}

/// A row and what happened to it.
#[derive(Clone, Debug)]
pub struct Row<V> {
    /// What is to be done with it.
    pub state: RowState,
    /// The version that was read, where it is compared when the row is written.
    pub version: Option<DateTime<Utc>>,
    /// The record.
    pub value: V,
}

/// Rows by key. Iterates in the order of keys, so that every unit writes in the same order and two can't deadlock.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, Row<V>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// Takes in a row that was read; one taken in before stays as it is.
    pub fn load(&mut self, key: K, value: V) {
        self.rows.entry(key).or_insert(Row { state: RowState::Loaded, version: None, value });
    }

    /// Takes in a row that was read without a lock; it is written only if it still has this version.
    pub fn load_version(&mut self, key: K, value: V, version: DateTime<Utc>) {
        self.rows.entry(key).or_insert(Row { state: RowState::Loaded, version: Some(version), value });
    }

    /// Adds a new row.
    pub fn insert(&mut self, key: K, value: V) {
        self.rows.insert(key, Row { state: RowState::New, version: None, value });
    }

    /// The row of that key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key).map(|row| &row.value)
    }

    /// The row of that key, to be changed: it will be written.
    pub fn change(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        if row.state == RowState::Loaded {
            row.state = RowState::Changed;
        }
        Some(&mut row.value)
    }

    /// All rows, by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values().map(|row| &row.value)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    /// The rows in that state, by key.
    pub fn in_state(&self, state: RowState) -> impl Iterator<Item = &V> {
        self.rows.values().filter(move |row| row.state == state).map(|row| &row.value)
    }

    /// The rows that were read and changed, each with the version that was read, by key.
    pub fn changed(&self) -> impl Iterator<Item = (&V, DateTime<Utc>)> {
        let changed = self.rows.values().filter(|row| row.state == RowState::Changed);
        changed.map(|row| (&row.value, row.version.unwrap_or_default()))
    }

    /// Whether the row of that key was made here.
    pub fn is_new(&self, key: &K) -> bool {
        self.rows.get(key).is_some_and(|row| row.state == RowState::New)
    }

    /// The rows to be written, by key: new or changed.
    pub fn touched(&self) -> impl Iterator<Item = &V> {
        self.rows.values().filter(|row| row.state != RowState::Loaded).map(|row| &row.value)
    }

    /// What was written is now what is stored: every row counts as loaded.
    pub fn settle(&mut self) {
        self.rows.values_mut().for_each(|row| row.state = RowState::Loaded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_row_that_changes_stays_new() {
        let mut table = Table::default();
        table.insert(1, "a");
        table.load(2, "b");
        table.load(2, "not taken in twice");
        *table.change(&1).unwrap() = "c";
        assert_eq!(table.in_state(RowState::New).collect::<Vec<_>>(), [&"c"]);
        *table.change(&2).unwrap() = "d";
        assert_eq!(table.in_state(RowState::Changed).collect::<Vec<_>>(), [&"d"]);
        assert_eq!(table.change(&3), None);
    }
}
