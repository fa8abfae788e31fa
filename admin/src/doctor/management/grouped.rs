//! Findings that several queues have in common are one finding.

use std::collections::BTreeMap;

/// The names of the queues by what is found, in its order.
pub(super) fn group<'a, K: Ord>(found: impl Iterator<Item = (K, &'a str)>) -> BTreeMap<K, String> {
    let mut grouped: BTreeMap<K, String> = BTreeMap::new();
    for (what, queue) in found {
        let queues = grouped.entry(what).or_default();
        if !queues.is_empty() {
            queues.push_str(", ");
        }
        queues.push_str(queue);
    }
    grouped
}
