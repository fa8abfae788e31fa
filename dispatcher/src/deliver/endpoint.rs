//! Receivers with parsed URL and decrypted secrets, cached between attempts.

use crate::store::Target;
use common::egress::ReceiverUrl;
use common::model::TenantId;
use common::sealed::{MasterKeys, Secret, subscription_binding, subscription_url_binding};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Maximum number of cached receivers. Beyond that the cache is cleared, which costs one decryption for each receiver.
const KEPT: usize = 4_096;

/// A receiver with its URL and secrets.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// The stored values that it was derived from.
    pub target: Target,
    /// `None` when the stored URL cannot be decrypted or parsed.
    pub url: Option<ReceiverUrl>,
    /// Signing secrets, the current one first; `None` when decryption failed.
    pub secrets: Option<Vec<Secret>>,
}

/// A cache of receivers by subscription.
#[derive(Debug)]
pub(super) struct Endpoints {
    masters: MasterKeys,
    cache: Mutex<HashMap<Uuid, Arc<Endpoint>>>,
}

impl Endpoints {
    pub(super) fn new(masters: MasterKeys) -> Self {
        Self { masters, cache: Mutex::default() }
    }

    /// The receiver of a subscription, by the current `target`.
    pub(super) fn of(&self, subscription: Uuid, target: &Target) -> Arc<Endpoint> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = cache.get(&subscription)
            && endpoint.target == *target
        {
            return Arc::clone(endpoint);
        }
        if cache.len() >= KEPT {
            cache.clear();
        }
        let endpoint = Arc::new(self.decrypt(subscription, target));
        cache.insert(subscription, Arc::clone(&endpoint));
        endpoint
    }

    /// `None` when it cannot be decrypted or parsed.
    fn url(&self, subscription: Uuid, target: &Target) -> Option<ReceiverUrl> {
        let binding = subscription_url_binding(TenantId(target.tenant_id), subscription);
        ReceiverUrl::parse(self.masters.open(&target.url_sealed, &binding).ok()?.reveal()).ok()
    }

    fn decrypt(&self, subscription: Uuid, target: &Target) -> Endpoint {
        let binding = subscription_binding(TenantId(target.tenant_id), subscription);
        let open = |sealed: &Vec<u8>| self.masters.open(sealed, &binding).ok();
        Endpoint {
            target: target.clone(),
            url: self.url(subscription, target),
            secrets: target.sealed.iter().map(open).collect(),
        }
    }
}
