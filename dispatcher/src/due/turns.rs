//! Turns: tenants in turn, and the subscriptions of each tenant in turn.

use std::collections::{HashMap, VecDeque};
use uuid::Uuid;

/// Subscriptions that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    tenants: VecDeque<Uuid>,
    subscriptions: HashMap<Uuid, VecDeque<Uuid>>,
}

impl Turns {
    /// Appends a subscription to those of its tenant.
    pub(super) fn push(&mut self, tenant: Uuid, subscription: Uuid) {
        let waiting = self.subscriptions.entry(tenant).or_default();
        if waiting.is_empty() {
            self.tenants.push_back(tenant);
        }
        waiting.push_back(subscription);
    }

    /// Removes the next subscription, of the first tenant that satisfies `admits`.
    pub(super) fn next(&mut self, admits: impl Fn(Uuid) -> bool) -> Option<Uuid> {
        for _ in 0..self.tenants.len() {
            let tenant = self.tenants.pop_front()?;
            if !admits(tenant) {
                self.tenants.push_back(tenant);
                continue;
            }
            let Some(waiting) = self.subscriptions.get_mut(&tenant) else { continue };
            let next = waiting.pop_front();
            if waiting.is_empty() {
                self.subscriptions.remove(&tenant);
            } else {
                self.tenants.push_back(tenant);
            }
            return next;
        }
        None
    }

    /// Removes the last subscription of the tenant that has the most in one of `all`, if `tenant` has fewer.
    pub(super) fn take_last(all: &mut [Self], tenant: Uuid) -> Option<Uuid> {
        let own: usize = all.iter().filter_map(|turns| turns.subscriptions.get(&tenant)).map(VecDeque::len).sum();
        let tenants = all.iter_mut().flat_map(|turns| turns.subscriptions.values_mut());
        let most = tenants.max_by_key(|waiting| waiting.len())?;
        // One is left, so that the tenant keeps its turn.
        if most.len() > own + 1 { most.pop_back() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_and_so_do_their_subscriptions() {
        let id = Uuid::from_u128;
        let mut turns = Turns::default();
        for subscription in [11, 12, 13] {
            turns.push(id(1), id(subscription));
        }
        turns.push(id(2), id(21));
        turns.push(id(3), id(31));
        let all = std::iter::from_fn(|| turns.next(|tenant| tenant != id(3))).map(|id| id.as_u128());
        assert_eq!(all.collect::<Vec<_>>(), [11, 21, 12, 13]);
        assert_eq!(turns.next(|_| true), Some(id(31)), "it was passed over only");
        assert_eq!(turns.next(|_| true), None);
    }
}
