//! Rows that track whether they were loaded, changed or newly made.

use chrono::{DateTime, Utc};
use std::collections::BTreeMap;

/// Whether a row is to be written, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Unchanged since it was loaded.
    Loaded,
    /// Loaded, then changed: to be updated.
    Changed,
    /// Made by this unit: to be inserted.
    New,
}

#[derive(Clone, Debug)]
pub(crate) struct Row<V> {
    pub(crate) state: RowState,
    /// The loaded version, for rows that are updated only if the database still has it.
    pub(crate) version: Option<DateTime<Utc>>,
    pub(crate) value: V,
}

/// Rows by key. Iterates in key order, so that all units write in the same order and cannot deadlock.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, Row<V>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// Adds a row that was read from the database, unless its key is loaded already.
    pub(crate) fn load(&mut self, key: K, value: V) {
        self.rows.entry(key).or_insert(Row { state: RowState::Loaded, version: None, value });
    }

    /// Adds a row that was read without a lock. It is updated only if it still has this version.
    pub(crate) fn load_version(&mut self, key: K, value: V, version: DateTime<Utc>) {
        self.rows.entry(key).or_insert(Row { state: RowState::Loaded, version: Some(version), value });
    }

    /// Adds a new row.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.rows.insert(key, Row { state: RowState::New, version: None, value });
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key).map(|row| &row.value)
    }

    /// The row with that key, for a change: it will be written.
    pub(crate) fn change(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        if row.state == RowState::Loaded {
            row.state = RowState::Changed;
        }
        Some(&mut row.value)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values().map(|row| &row.value)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    pub(crate) fn in_state(&self, state: RowState) -> impl Iterator<Item = &V> {
        self.rows.values().filter(move |row| row.state == state).map(|row| &row.value)
    }

    /// The loaded rows that were changed, by key, each with its loaded version. A row that was loaded without one gets a version
    /// that no stored row has, so that its update is stale instead of overwriting a change of another unit.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&V, DateTime<Utc>)> {
        let changed = self.rows.values().filter(|row| row.state == RowState::Changed);
        changed.map(|row| (&row.value, row.version.unwrap_or_default()))
    }

    /// Whether this unit made the row with that key.
    pub(crate) fn is_new(&self, key: &K) -> bool {
        self.rows.get(key).is_some_and(|row| row.state == RowState::New)
    }

    /// The rows to write, new or changed, by key.
    pub(crate) fn new_or_changed(&self) -> impl Iterator<Item = &V> {
        self.rows.values().filter(|row| row.state != RowState::Loaded).map(|row| &row.value)
    }
}
