//! The notes that are not written yet.

use super::sampling::Sampling;
use crate::cpu_bound::run_cpu_bound;
use crate::store::refused_requests::RefusedRow;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::model::KeyPrefix;
use hyper::Method;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use uuid::Uuid;

/// Maximum number of notes of one list between two writes.
const NOTES_MAX: usize = 256;
/// Largest body that is kept until the next write, to be hashed then.
const BODY_MAX: usize = 256 << 10;
/// Maximum number of bytes of bodies that the notes of one list keep. They count against the budget of bodies meanwhile.
const BODIES_MAX: usize = 2 << 20;
/// Maximum number of keys whose requests are counted between two writes.
const COUNTED_MAX: usize = 10_000;

/// What is known of the key that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedKey {
    Exists,
    /// The headers are malformed, so that the key was not looked up. The statement that writes does so.
    NotLookedUp,
    /// No such key exists. Nothing of it is written, but noting it costs the same.
    DoesNotExist,
}

/// A refused request. `Debug` leaves the body out.
#[derive(Clone)]
pub(crate) struct RefusedNote {
    pub(crate) request_id: Uuid,
    pub(crate) at: DateTime<Utc>,
    pub(crate) method: Method,
    /// The pattern of its route.
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) detail: Option<String>,
    /// The timestamp of its signature.
    pub(crate) signed_at: Option<i64>,
    pub(crate) body: Bytes,
}

/// Requests of a key that are not written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyCounts {
    pub(super) accepted: u64,
    pub(super) refused: u64,
}

/// What became of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Kept,
    /// Beyond the number of a minute.
    Sampled,
    /// Beyond the number of notes at once.
    Lost,
}

/// The notes and counts of requests of one [`NamedKey`].
#[derive(Default)]
pub(super) struct RefusedNotes {
    sampling: Sampling,
    notes: Vec<(KeyPrefix, RefusedNote, usize)>,
    body_bytes: usize,
    counts: HashMap<KeyPrefix, KeyCounts>,
}

impl RefusedNotes {
    pub(super) fn add(&mut self, key: &KeyPrefix, mut note: RefusedNote) -> Noted {
        self.count(key, KeyCounts { accepted: 0, refused: 1 });
        if !self.sampling.admit(key, &note.reason, note.at) {
            return Noted::Sampled;
        }
        if self.notes.len() >= NOTES_MAX {
            return Noted::Lost;
        }
        let size = note.body.len();
        if size > BODY_MAX || self.body_bytes + size > BODIES_MAX {
            note.body = Bytes::new();
        } else {
            self.body_bytes += size;
        }
        self.notes.push((key.clone(), note, size));
        Noted::Kept
    }

    /// Adds to the counts of a key. Those of keys beyond the limit are lost.
    pub(super) fn count(&mut self, key: &KeyPrefix, more: KeyCounts) {
        if let Some(counts) = self.counts.get_mut(key) {
            counts.accepted += more.accepted;
            counts.refused += more.refused;
        } else if self.counts.len() < COUNTED_MAX {
            self.counts.insert(key.clone(), more);
        }
    }

    /// Takes the notes, so that others can be kept.
    pub(super) fn take(&mut self) -> TakenNotes {
        self.body_bytes = 0;
        TakenNotes(std::mem::take(&mut self.notes))
    }

    pub(super) fn take_counts(&mut self) -> HashMap<KeyPrefix, KeyCounts> {
        std::mem::take(&mut self.counts)
    }
}

/// Notes that are to be written.
pub(super) struct TakenNotes(Vec<(KeyPrefix, RefusedNote, usize)>);

impl TakenNotes {
    /// The rows to be written, with the hashes of bodies that were kept.
    pub(super) fn into_rows(self) -> impl Iterator<Item = RefusedRow> {
        self.0.into_iter().map(|(key, note, size)| row(key, note, size))
    }
}

fn row(key: KeyPrefix, note: RefusedNote, size: usize) -> RefusedRow {
    let RefusedNote { request_id, at, method, route, status, reason, detail, signed_at, body } = note;
    let is_kept = body.len() == size;
    let body_sha256 = is_kept.then(|| run_cpu_bound(size, || Sha256::digest(&body).into()));
    let method = method.as_str().to_owned();
    RefusedRow {
        request_id,
        key,
        at,
        method,
        route,
        status,
        reason,
        detail,
        signed_at,
        body_sha256,
        body_bytes: size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(body: Bytes) -> RefusedNote {
        RefusedNote {
            request_id: Uuid::nil(),
            at: DateTime::from_timestamp(1_767_225_600, 0).unwrap(),
            method: Method::POST,
            route: "/",
            status: 401,
            reason: "mismatch".to_owned(),
            detail: None,
            signed_at: None,
            body,
        }
    }

    fn key(number: usize) -> KeyPrefix {
        KeyPrefix::parse(&format!("ck_{number}")).unwrap()
    }

    #[test]
    fn the_notes_and_the_bodies_that_they_keep_are_bounded() {
        let mut notes = RefusedNotes::default();
        let body = Bytes::from(vec![b'x'; BODY_MAX]);
        let kept =
            (0..1_000).filter(|number| notes.add(&key(*number), note(body.clone())) == Noted::Kept).count();
        assert_eq!(kept, NOTES_MAX);
        assert_eq!(notes.body_bytes, BODIES_MAX);
        let rows: Vec<RefusedRow> = notes.take().into_rows().collect();
        let hashed = rows.iter().filter(|row| row.body_sha256.is_some()).count();
        assert_eq!((rows.len(), hashed), (NOTES_MAX, BODIES_MAX / BODY_MAX));
        assert!(rows.iter().all(|row| row.body_bytes == BODY_MAX));
        assert_eq!(notes.add(&key(2_000), note(Bytes::new())), Noted::Kept, "there is room again");
    }

    #[test]
    fn a_large_body_is_not_kept_and_an_empty_one_is_hashed() {
        let mut notes = RefusedNotes::default();
        notes.add(&key(1), note(Bytes::from(vec![b'x'; BODY_MAX + 1])));
        notes.add(&key(1), note(Bytes::new()));
        let rows: Vec<RefusedRow> = notes.take().into_rows().collect();
        assert_eq!((rows[0].body_sha256, rows[0].body_bytes), (None, BODY_MAX + 1));
        assert_eq!(
            rows[1].body_sha256.map(hex::encode).as_deref(),
            Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        );
    }

    #[test]
    fn every_refusal_is_counted_also_beyond_the_sample() {
        let mut notes = RefusedNotes::default();
        for _ in 0..50 {
            notes.add(&key(1), note(Bytes::new()));
        }
        assert_eq!(notes.take_counts()[&key(1)], KeyCounts { accepted: 0, refused: 50 });
    }
}
