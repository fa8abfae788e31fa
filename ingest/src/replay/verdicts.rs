//! Decides which signatures are admitted (D2, D3), for a group of replay entries: sorts them and removes repeats. Pure.

use super::Admission;
use crate::store::replay_entries::{InsertOutcome, ReplayEntry};

/// Sorts entries by identity, so that concurrent writers lock rows in the same order. Requests with the
/// same signature stay in order of arrival.
pub(super) fn sort_by_signature<T>(waiting: &mut [T], entry: impl Fn(&T) -> Option<&ReplayEntry>) {
    waiting.sort_by(|a, b| entry(a).map(ReplayEntry::identity).cmp(&entry(b).map(ReplayEntry::identity)));
}

/// The first entry of each signature among sorted entries: these are inserted.
pub(super) fn distinct_signatures<'a>(sorted: impl Iterator<Item = &'a ReplayEntry>) -> Vec<&'a ReplayEntry> {
    let mut distinct_signatures: Vec<&ReplayEntry> = Vec::new();
    for entry in sorted {
        if distinct_signatures.last().is_none_or(|last| last.identity() != entry.identity()) {
            distinct_signatures.push(entry);
        }
    }
    distinct_signatures
}

/// The verdict on each sorted entry, given the outcomes of the [`distinct_signatures`]. An insert that failed fails all requests with
/// that signature.
pub(super) fn decide_admissions<'a, E: Clone>(
    sorted: impl Iterator<Item = &'a ReplayEntry>, stored: &[Result<InsertOutcome, E>],
) -> Vec<Result<Admission, E>> {
    let mut verdicts = Vec::with_capacity(stored.len());
    let mut stored = stored.iter();
    // The previous entry, with the `Idempotency-Key` of the first request that had its signature.
    let mut last: Option<(&ReplayEntry, Result<Option<&str>, &E>)> = None;
    for entry in sorted {
        let own_key = entry.idempotency_key.as_deref();
        let (first_key, is_fresh) = match last {
            Some((first, first_key)) if first.identity() == entry.identity() => (first_key, false),
            _ => match stored.next() {
                Some(Ok(InsertOutcome::New)) => (Ok(own_key), true),
                Some(Ok(InsertOutcome::Existing(first_key))) => (Ok(first_key.as_deref()), false),
                Some(Err(error)) => (Err(error), false),
                None => (Ok(None), false),
            },
        };
        last = Some((entry, first_key));
        verdicts.push(match first_key {
            Ok(_) if is_fresh => Ok(Admission::Admitted),
            Ok(first_key) => Ok(admit_repeat(first_key, own_key)),
            Err(error) => Err(error.clone()),
        });
    }
    verdicts
}

/// Admits a repeated signature only with the `Idempotency-Key` of its first request (D3).
fn admit_repeat(first_key: Option<&str>, own_key: Option<&str>) -> Admission {
    if own_key.is_some() && first_key == own_key { Admission::Admitted } else { Admission::Replayed }
}

#[cfg(test)]
mod tests {
    use super::Admission::{Admitted, Replayed};
    use super::*;
    use crate::store::replay_entries::testing;
    use common::model::KeyPrefix;

    fn entry(mac: u8, key: Option<&str>) -> ReplayEntry {
        ReplayEntry { mac: [mac; 32], idempotency_key: key.map(str::to_owned), ..testing::entry(0) }
    }

    /// Verdicts in sorted order, with `before` being what the database already has.
    fn verdicts(entries: &[ReplayEntry], before: &[(u8, Option<&str>)]) -> Vec<Admission> {
        let mut sorted = entries.to_vec();
        sort_by_signature(&mut sorted, |entry| Some(entry));
        let stored: Vec<Result<InsertOutcome, ()>> = distinct_signatures(sorted.iter())
            .iter()
            .map(|entry| match before.iter().find(|(mac, _)| entry.mac == [*mac; 32]) {
                Some((_, key)) => Ok(InsertOutcome::Existing(key.map(str::to_owned))),
                None => Ok(InsertOutcome::New),
            })
            .collect();
        decide_admissions(sorted.iter(), &stored).into_iter().map(|verdict| verdict.expect("all were stored")).collect()
    }

    #[test]
    fn of_one_signature_sent_many_times_exactly_one_is_admitted() {
        let same = vec![entry(7, None); 50];
        let verdicts = verdicts(&same, &[]);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Admitted).count(), 1);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Replayed).count(), 49);
    }

    #[test]
    fn a_group_is_written_sorted_and_each_signature_once() {
        let mut entries = vec![entry(3, None), entry(1, None), entry(3, Some("k")), entry(2, None)];
        sort_by_signature(&mut entries, |entry| Some(entry));
        let distinct_signatures: Vec<u8> =
            distinct_signatures(entries.iter()).iter().map(|entry| entry.mac[0]).collect();
        assert_eq!(distinct_signatures, [1, 2, 3]);
    }

    #[test]
    fn an_existing_signature_is_a_replay_and_its_neighbours_are_not() {
        let entries = [entry(1, None), entry(2, None), entry(3, None)];
        assert_eq!(verdicts(&entries, &[(2, None)]), [Admitted, Replayed, Admitted]);
    }

    #[test]
    fn a_failed_insert_fails_all_requests_of_its_signature_and_no_others() {
        let mut sorted = [entry(2, None), entry(1, None), entry(2, Some("k")), entry(3, None)];
        sort_by_signature(&mut sorted, |entry| Some(entry));
        let stored = [Ok(InsertOutcome::New), Err("refused"), Ok(InsertOutcome::Existing(None))];
        let refused = Err("refused");
        assert_eq!(decide_admissions(sorted.iter(), &stored), [Ok(Admitted), refused, refused, Ok(Replayed)]);
    }

    #[test]
    fn a_post_passes_again_only_with_the_key_it_first_came_with() {
        let pair = |first, second| verdicts(&[entry(1, first), entry(1, second)], &[]);
        assert_eq!(pair(Some("k"), Some("k")), [Admitted, Admitted]);
        assert_eq!(pair(Some("k"), Some("other")), [Admitted, Replayed]);
        assert_eq!(pair(Some("k"), None), [Admitted, Replayed]);
        assert_eq!(pair(None, Some("k")), [Admitted, Replayed]);
    }

    #[test]
    fn what_the_database_holds_decides_for_the_whole_group() {
        let entries = [entry(1, Some("mine")), entry(1, Some("k")), entry(1, None)];
        assert_eq!(verdicts(&entries, &[(1, Some("k"))]), [Replayed, Admitted, Replayed]);
        assert_eq!(verdicts(&entries, &[(1, None)]), [Replayed, Replayed, Replayed]);
    }

    #[test]
    fn the_same_mac_under_another_key_or_time_is_another_signature() {
        let other_key = ReplayEntry { key: KeyPrefix::parse("ck_2").unwrap(), ..entry(1, None) };
        let other_time = ReplayEntry { signed_at: 1, ..entry(1, None) };
        assert_eq!(verdicts(&[entry(1, None), other_key, other_time], &[]), [Admitted, Admitted, Admitted]);
    }
}
