//! Receivers with parsed URL and decrypted secrets, cached between attempts.

use crate::store::{Delivery, Target};
use common::egress::ReceiverUrl;
use common::model::TenantId;
use common::sealed::{MasterKeys, Secret, subscription_binding, subscription_url_binding};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
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

    /// The receiver of a delivery.
    pub(super) fn of(&self, delivery: &Delivery) -> Arc<Endpoint> {
        let mut cache = self.cache.lock();
        if let Some(endpoint) = cache.get(&delivery.subscription_id)
            && endpoint.target == delivery.target
        {
            return Arc::clone(endpoint);
        }
        if cache.len() >= KEPT {
            cache.clear();
        }
        let endpoint = Arc::new(self.decrypt(delivery));
        cache.insert(delivery.subscription_id, Arc::clone(&endpoint));
        endpoint
    }

    fn decrypt(&self, delivery: &Delivery) -> Endpoint {
        let Delivery { tenant_id, subscription_id, target, .. } = delivery;
        let open = |sealed: &[u8], binding: &str| self.masters.open(sealed, binding).ok();
        let url = open(&target.url_sealed, &subscription_url_binding(TenantId(*tenant_id), *subscription_id));
        let binding = subscription_binding(TenantId(*tenant_id), *subscription_id);
        Endpoint {
            target: target.clone(),
            url: url.and_then(|url| ReceiverUrl::parse(url.reveal()).ok()),
            secrets: target.sealed.iter().map(|sealed| open(sealed, &binding)).collect(),
        }
    }
}
