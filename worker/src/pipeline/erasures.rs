//! People who were erased: an event that names one of them and occurred before the erasure, or at the same time, is
//! refused (D32).
//!
//! Only events that are not newer than the tenant's last erasure are looked up. A worker learns of an erasure from the tenant's
//! row, which each unit loads. That unit runs again if one of its events is not newer than the erasure; later units look such
//! events up with their first loads.

use crate::rules::Event;
use crate::store::{ErasedIdentities, TenantErasures, load_erased_identities};
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use common::erasure::{ERASURE_KEY_BINDING, ErasureKey, IdentityHash, PersonIdentity};
use common::event::Actor;
use common::model::TenantId;
use common::sealed::MasterKeys;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The erasures that this process has learned of. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ErasureCache {
    master_keys: MasterKeys,
    cached: Arc<Mutex<CachedErasures>>,
}

#[derive(Debug, Default)]
struct CachedErasures {
    /// The last erasure of each tenant that has erased people.
    last: HashMap<TenantId, DateTime<Utc>>,
    /// The key of the hashes, once it is needed.
    key: Option<ErasureKey>,
}

/// The events of a unit that may name people who were erased.
#[derive(Debug, Default)]
pub(super) struct ErasureCheck {
    /// An entry for each event: the hashes of its identities, or `None` if it is newer than the last known erasure of its
    /// tenant. Empty if that holds for all events, or if no erasure is known yet.
    hashes: Vec<Option<Vec<(TenantId, IdentityHash)>>>,
    found: ErasedIdentities,
}

impl ErasureCache {
    pub(super) fn new(master_keys: MasterKeys) -> Self {
        Self { master_keys, cached: Arc::default() }
    }

    /// Hashes the identities of the events that are not newer than their tenant's last known erasure.
    pub(super) fn check(&self, events: &[Event<'_>]) -> ErasureCheck {
        let cached = self.cached.lock();
        let Some(key) = cached.key.as_ref().filter(|_| cached.any_needs_look_up(events)) else {
            return ErasureCheck::default();
        };
        let hashes = |event: &Event<'_>| {
            let tenant = event.caller.tenant_id;
            let named = cached.needs_look_up(event).then(|| identities(&event.envelope.actor))?;
            Some(named.map(|identity| (tenant, key.hash(tenant, identity))).collect())
        };
        ErasureCheck { hashes: events.iter().map(hashes).collect(), found: ErasedIdentities::new() }
    }

    /// Records the erasures that a unit has loaded. Fails with [`TxError::Stale`] if one of its events had to be looked up and
    /// was not, even if another unit has recorded the erasure in the meantime.
    pub(super) fn learn(
        &self, check: &ErasureCheck, loaded: &[(TenantId, TenantErasures)], events: &[Event<'_>],
    ) -> Result<(), TxError> {
        for (tenant, TenantErasures { last_at, sealed_key }) in loaded {
            let mut cached = self.cached.lock();
            if cached.key.is_none() {
                let opened = self.master_keys.open(sealed_key, ERASURE_KEY_BINDING).ok();
                let key = opened.as_ref().and_then(ErasureKey::parse);
                let unreadable = || TxError::Abandoned("the key of erased identities cannot be opened".to_owned());
                cached.key = Some(key.ok_or_else(unreadable)?);
            }
            let last = cached.last.entry(*tenant).or_insert(*last_at);
            *last = (*last).max(*last_at);
        }
        let cached = self.cached.lock();
        let is_missing =
            |(index, event): (usize, &Event<'_>)| cached.needs_look_up(event) && !check.has_looked_up(index);
        if events.iter().enumerate().any(is_missing) {
            return Err(TxError::Stale("a person was erased"));
        }
        Ok(())
    }
}

impl CachedErasures {
    fn any_needs_look_up(&self, events: &[Event<'_>]) -> bool {
        !self.last.is_empty() && events.iter().any(|event| self.needs_look_up(event))
    }

    /// Whether an event is not newer than the last erasure of its tenant.
    fn needs_look_up(&self, event: &Event<'_>) -> bool {
        let last = self.last.get(&event.caller.tenant_id);
        last.is_some_and(|last| event.envelope.occurred_at <= *last)
    }
}

impl ErasureCheck {
    /// The look-up that the unit sends with its loads.
    pub(super) fn query(&self) -> Option<Query<'static>> {
        let mut hashes: Vec<_> = self.hashes.iter().flatten().flatten().copied().collect();
        hashes.sort_unstable();
        hashes.dedup();
        (!hashes.is_empty()).then(|| load_erased_identities(&hashes))
    }

    /// The same check with the result of the look-up.
    pub(super) fn with_found(self, found: ErasedIdentities) -> Self {
        Self { found, ..self }
    }

    fn has_looked_up(&self, index: usize) -> bool {
        self.hashes.get(index).is_some_and(Option::is_some)
    }

    /// Whether the event at `index` names a person who was erased at or after the time of the event.
    pub(super) fn is_erased(&self, index: usize, event: &Event<'_>) -> bool {
        let erased = |hash| self.found.get(hash).is_some_and(|at| event.envelope.occurred_at <= *at);
        self.hashes.get(index).and_then(Option::as_ref).is_some_and(|hashes| hashes.iter().any(erased))
    }
}

/// The identities under which an event would create an erased person again: email, external id, and the phone if it is the only
/// identity (D10). A phone beside other identities does not count, because families share phones.
fn identities(actor: &Actor) -> impl Iterator<Item = PersonIdentity<&str>> {
    let email = actor.email.as_ref().map(|email| PersonIdentity::Email(email.key()));
    let external_id = actor.external_id.as_deref().map(PersonIdentity::ExternalId);
    let is_alone = email.is_none() && external_id.is_none();
    let phone = actor.phone.as_ref().filter(|_| is_alone).map(|phone| PersonIdentity::Phone(phone.digits()));
    [email, external_id, phone].into_iter().flatten()
}
