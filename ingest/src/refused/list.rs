//! The refused requests and counts that are not written yet.

use crate::store::api_key_requests::KeyRequests;
use crate::store::refused_requests::RefusedRow;
use bytes::Bytes;
use common::cpu_bound::run_cpu_bound;
use common::model::KeyPrefix;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Maximum number of refused requests between two writes.
const ROWS_MAX: usize = 256;
/// Maximum number of bytes of bodies that are kept until the next write, to be hashed then. They count against the budget of bodies
/// meanwhile.
const BODIES_MAX: usize = 2 << 20;
/// Maximum number of keys at once. Requests of other keys are neither recorded nor counted.
const KEYS_MAX: usize = 10_000;
/// Maximum number of refused requests of a key that are recorded in a minute.
const PER_KEY: u8 = 20;
/// Maximum number of them with the same reason, so that one reason does not displace others.
const PER_REASON: u8 = 10;

/// What became of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Kept,
    /// Beyond the number of a minute.
    Sampled,
    /// Beyond the number of rows or keys at once.
    Lost,
}

/// A bounded list.
#[derive(Default)]
pub(super) struct RefusedList {
    keys: HashMap<KeyPrefix, OfKey>,
    rows: Vec<(RefusedRow, Bytes)>,
    body_bytes: usize,
}

/// The requests of a key: those since the last write, and how many of the current minute are recorded for each reason.
#[derive(Default)]
struct OfKey {
    accepted: u64,
    refused: u64,
    minute: i64,
    recorded: Vec<(String, u8)>,
}

impl RefusedList {
    /// Counts a refused request, unless it was a dry run or its caller is not at fault, and keeps its row with the body to be
    /// hashed, if there is room.
    pub(super) fn add(&mut self, row: RefusedRow, body: Bytes) -> Noted {
        let Some(of_key) = self.of_key(&row.key) else { return Noted::Lost };
        of_key.refused += u64::from(row.status < 500 && !row.dry_run);
        if !of_key.admit(&row.reason, row.at.timestamp().div_euclid(60)) {
            return Noted::Sampled;
        }
        if self.rows.len() >= ROWS_MAX {
            return Noted::Lost;
        }
        let is_hashed = self.body_bytes + body.len() <= BODIES_MAX;
        let body = if is_hashed { body } else { Bytes::new() };
        self.body_bytes += body.len();
        self.rows.push((row, body));
        Noted::Kept
    }

    pub(super) fn count_accepted(&mut self, key: &KeyPrefix) {
        if let Some(of_key) = self.of_key(key) {
            of_key.accepted += 1;
        }
    }

    fn of_key(&mut self, key: &KeyPrefix) -> Option<&mut OfKey> {
        if !self.keys.contains_key(key) {
            if self.keys.len() >= KEYS_MAX {
                return None;
            }
            self.keys.insert(key.clone(), OfKey::default());
        }
        self.keys.get_mut(key)
    }

    /// Takes the rows, whose bodies are not hashed yet, and the counts. Forgets the keys that have no recorded request in this minute.
    pub(super) fn take(&mut self, minute: i64) -> (Vec<(RefusedRow, Bytes)>, Vec<KeyRequests>) {
        let mut counts = Vec::new();
        self.keys.retain(|key, of_key| {
            let OfKey { accepted, refused, .. } = *of_key;
            if accepted + refused > 0 {
                counts.push(KeyRequests { key: key.clone(), accepted, refused });
            }
            (of_key.accepted, of_key.refused) = (0, 0);
            of_key.minute == minute
        });
        self.body_bytes = 0;
        (std::mem::take(&mut self.rows), counts)
    }
}

impl OfKey {
    /// Whether a refusal is to be recorded. It counts as recorded.
    fn admit(&mut self, reason: &str, minute: i64) -> bool {
        if minute != self.minute {
            (self.minute, self.recorded) = (minute, Vec::new());
        }
        if self.recorded.iter().map(|(_, count)| count).sum::<u8>() >= PER_KEY {
            return false;
        }
        match self.recorded.iter_mut().find(|(recorded, _)| recorded == reason) {
            Some((_, count)) if *count >= PER_REASON => return false,
            Some((_, count)) => *count += 1,
            None => self.recorded.push((reason.to_owned(), 1)),
        }
        true
    }
}

/// Hashes a body, unless it was not kept.
pub(super) fn hashed((row, body): (RefusedRow, Bytes)) -> RefusedRow {
    let is_kept = body.len() == row.body_bytes;
    let body_sha256 = is_kept.then(|| run_cpu_bound(body.len(), || Sha256::digest(&body).into()));
    RefusedRow { body_sha256, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use hyper::Method;
    use uuid::Uuid;

    const MINUTE: i64 = 29_453_760;

    fn row(key: usize, reason: &str, second: i64, body_bytes: usize) -> RefusedRow {
        RefusedRow {
            request_id: Uuid::nil(),
            key: KeyPrefix::parse(&format!("ck_{key}")).unwrap(),
            at: DateTime::from_timestamp(MINUTE * 60 + second, 0).unwrap(),
            method: Method::POST,
            route: "/",
            status: 401,
            reason: reason.to_owned(),
            detail: None,
            signed_at: None,
            body_sha256: None,
            body_bytes,
            dry_run: false,
        }
    }

    #[test]
    fn a_key_has_some_refusals_a_minute_and_one_reason_leaves_room_for_others() {
        let mut list = RefusedList::default();
        let mut kept = |reason: &str, second| {
            let noted = (0..1_000).map(|_| list.add(row(1, reason, second, 0), Bytes::new()));
            let kept = noted.filter(|noted| *noted == Noted::Kept).count();
            list.take(MINUTE);
            kept
        };
        assert_eq!(kept("stale", 0), 10);
        assert_eq!(kept("mismatch", 30), 10);
        assert_eq!(kept("scope", 59), 0, "the minute's number is used up");
        assert_eq!(kept("scope", 60), 10);
    }

    #[test]
    fn rows_keys_and_bodies_are_bounded() {
        let mut list = RefusedList::default();
        let body = Bytes::from(vec![b'x'; BODIES_MAX / 2 + 1]);
        for number in 0..KEYS_MAX + 5 {
            let noted = list.add(row(number, "stale", 0, body.len()), body.clone());
            assert_eq!(noted, if number < ROWS_MAX { Noted::Kept } else { Noted::Lost });
        }
        let (rows, counts) = list.take(MINUTE);
        assert_eq!((rows.len(), counts.len()), (ROWS_MAX, KEYS_MAX));
        let mut rows = rows.into_iter();
        assert!(rows.next().is_some_and(|(_, body)| body.len() > BODIES_MAX / 2));
        assert!(rows.all(|(_, body)| body.is_empty()), "there is room for one body");
    }

    #[test]
    fn requests_are_counted_once_and_keys_are_forgotten_after_their_minute() {
        let mut list = RefusedList::default();
        let key = row(1, "stale", 0, 0).key;
        list.add(row(1, "stale", 0, 0), Bytes::new());
        list.count_accepted(&key);
        let counts = |list: &mut RefusedList, minute| {
            let (_, counts) = list.take(minute);
            counts.iter().map(|count| (count.accepted, count.refused)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&mut list, MINUTE), [(1, 1)]);
        assert_eq!(list.keys.len(), 1);
        assert_eq!(counts(&mut list, MINUTE + 1), []);
        assert_eq!(list.keys.len(), 0);
    }
}
