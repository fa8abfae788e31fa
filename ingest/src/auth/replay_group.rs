//! Signatures that are remembered together: sorted, each once, and what that means for those who sent them. Pure.

use super::idempotency::IdempotencyKey;
use super::replay::Admission;
use common::caller::Caller;
use common::model::{KeyPrefix, TenantId};
use common::signature::Signature;

/// A signature as it is remembered: agency, key, decoded MAC, time; never the header's text (D2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The agency.
    pub tenant: TenantId,
    /// The key.
    pub key: KeyPrefix,
    /// The MAC.
    pub mac: [u8; 32],
    /// The signature's `t`, seconds since the epoch.
    pub signed_at: i64,
    /// What a records POST came with (D3).
    pub idempotency_key: Option<IdempotencyKey>,
}

/// What the database had of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing: it was written now.
    Now,
    /// It was there, from a request that came with this key.
    Before(Option<String>),
}

impl Entry {
    /// The entry of a request.
    pub fn new(caller: &Caller, signature: &Signature, idempotency_key: Option<IdempotencyKey>) -> Self {
        Self {
            tenant: caller.tenant_id,
            key: caller.key.clone(),
            mac: *signature.mac(),
            signed_at: signature.timestamp(),
            idempotency_key,
        }
    }

    /// What makes two entries the same signature.
    fn identity(&self) -> (&TenantId, &KeyPrefix, &[u8; 32], i64) {
        (&self.tenant, &self.key, &self.mac, self.signed_at)
    }
}

/// Entries in the order of their identities, so that two writers never wait for each other; of those that are the same
/// signature, in the order in which they came.
pub(super) fn sort<T>(waiting: &mut [T], entry: impl Fn(&T) -> Option<&Entry>) {
    waiting.sort_by(|a, b| entry(a).map(Entry::identity).cmp(&entry(b).map(Entry::identity)));
}

/// The first of each signature among sorted entries: what is to be written.
pub(super) fn firsts<'a>(sorted: impl Iterator<Item = &'a Entry>) -> Vec<&'a Entry> {
    let mut firsts: Vec<&Entry> = Vec::new();
    for entry in sorted {
        if firsts.last().is_none_or(|last| last.identity() != entry.identity()) {
            firsts.push(entry);
        }
    }
    firsts
}

/// The verdict on each sorted entry, given what became of the [`firsts`]. Where that isn't known of a signature, it is
/// known of none of its requests.
pub(super) fn judge<'a, E: Clone>(
    sorted: impl Iterator<Item = &'a Entry>,
    stored: &[Result<Stored, E>],
) -> Vec<Result<Admission, E>> {
    let mut verdicts = Vec::with_capacity(stored.len());
    let mut stored = stored.iter();
    let mut last: Option<(&Entry, Result<Option<&str>, &E>)> = None;
    for entry in sorted {
        let given = entry.idempotency_key.as_ref().map(IdempotencyKey::as_str);
        let (came_with, is_fresh) = match last {
            Some((first, came_with)) if first.identity() == entry.identity() => (came_with, false),
            _ => match stored.next() {
                Some(Ok(Stored::Now)) => (Ok(given), true),
                Some(Ok(Stored::Before(came_with))) => (Ok(came_with.as_deref()), false),
                Some(Err(error)) => (Err(error), false),
                None => (Ok(None), false),
            },
        };
        last = Some((entry, came_with));
        verdicts.push(match came_with {
            Ok(_) if is_fresh => Ok(Admission::Fresh),
            Ok(came_with) => Ok(again(came_with, given)),
            Err(error) => Err(error.clone()),
        });
    }
    verdicts
}

/// A signature came again: it passes only with the `Idempotency-Key` it first came with (D3).
fn again(came_with: Option<&str>, given: Option<&str>) -> Admission {
    if given.is_some() && came_with == given { Admission::SameKeyAgain } else { Admission::Replayed }
}

#[cfg(test)]
mod tests {
    use super::Admission::{Fresh, Replayed, SameKeyAgain};
    use super::*;

    fn entry(mac: u8, key: Option<&str>) -> Entry {
        Entry {
            tenant: TenantId(uuid::Uuid::from_u128(1)),
            key: KeyPrefix::parse("ck_1").unwrap(),
            mac: [mac; 32],
            signed_at: 1_767_225_600,
            idempotency_key: key.map(|key| IdempotencyKey::parse(key).unwrap()),
        }
    }

    /// Verdicts in sorted order, with `before` being what the database already has.
    fn verdicts(entries: &[Entry], before: &[(u8, Option<&str>)]) -> Vec<Admission> {
        let mut sorted = entries.to_vec();
        sort(&mut sorted, |entry| Some(entry));
        let stored: Vec<Result<Stored, ()>> = firsts(sorted.iter())
            .iter()
            .map(|entry| match before.iter().find(|(mac, _)| entry.mac == [*mac; 32]) {
                Some((_, key)) => Ok(Stored::Before(key.map(str::to_owned))),
                None => Ok(Stored::Now),
            })
            .collect();
        judge(sorted.iter(), &stored).into_iter().map(|verdict| verdict.expect("all were stored")).collect()
    }

    #[test]
    fn of_one_signature_sent_many_times_exactly_one_is_admitted() {
        let same = vec![entry(7, None); 50];
        let verdicts = verdicts(&same, &[]);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Fresh).count(), 1);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Replayed).count(), 49);
    }

    #[test]
    fn a_group_is_written_sorted_and_each_signature_once() {
        let mut entries = vec![entry(3, None), entry(1, None), entry(3, Some("k")), entry(2, None)];
        sort(&mut entries, |entry| Some(entry));
        let firsts: Vec<u8> = firsts(entries.iter()).iter().map(|entry| entry.mac[0]).collect();
        assert_eq!(firsts, [1, 2, 3]);
    }

    #[test]
    fn one_that_was_there_is_replayed_and_its_neighbours_are_not() {
        let entries = [entry(1, None), entry(2, None), entry(3, None)];
        assert_eq!(verdicts(&entries, &[(2, None)]), [Fresh, Replayed, Fresh]);
    }

    #[test]
    fn one_that_could_not_be_written_is_admitted_for_none_of_its_requests_and_its_neighbours_are() {
        let mut sorted = [entry(2, None), entry(1, None), entry(2, Some("k")), entry(3, None)];
        sort(&mut sorted, |entry| Some(entry));
        let stored = [Ok(Stored::Now), Err("refused"), Ok(Stored::Before(None))];
        let refused = Err("refused");
        assert_eq!(judge(sorted.iter(), &stored), [Ok(Fresh), refused, refused, Ok(Replayed)]);
    }

    #[test]
    fn a_post_passes_again_only_with_the_key_it_first_came_with() {
        let pair = |first, second| verdicts(&[entry(1, first), entry(1, second)], &[]);
        assert_eq!(pair(Some("k"), Some("k")), [Fresh, SameKeyAgain]);
        assert_eq!(pair(Some("k"), Some("other")), [Fresh, Replayed]);
        assert_eq!(pair(Some("k"), None), [Fresh, Replayed]);
        assert_eq!(pair(None, Some("k")), [Fresh, Replayed]);
    }

    #[test]
    fn what_the_database_holds_decides_for_the_whole_group() {
        let entries = [entry(1, Some("mine")), entry(1, Some("k")), entry(1, None)];
        assert_eq!(verdicts(&entries, &[(1, Some("k"))]), [Replayed, SameKeyAgain, Replayed]);
        assert_eq!(verdicts(&entries, &[(1, None)]), [Replayed, Replayed, Replayed]);
    }

    #[test]
    fn the_same_mac_under_another_key_or_time_is_another_signature() {
        let other_key = Entry { key: KeyPrefix::parse("ck_2").unwrap(), ..entry(1, None) };
        let other_time = Entry { signed_at: 1, ..entry(1, None) };
        assert_eq!(verdicts(&[entry(1, None), other_key, other_time], &[]), [Fresh, Fresh, Fresh]);
    }
}
