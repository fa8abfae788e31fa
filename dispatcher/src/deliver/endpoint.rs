//! Receivers, ready to be sent to: the URL read, the secrets decrypted. Kept from one attempt to the next.

use crate::store::Target;
use common::egress::ReceiverUrl;
use common::model::TenantId;
use common::sealed::{MasterKey, Secret, subscription_binding, subscription_url_binding};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Receivers that are kept. When there are more all are forgotten: it costs one decryption each to know them again.
const KEPT: usize = 4_096;

/// A receiver.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// What it was made of.
    pub target: Target,
    /// `None` when the stored URL can't be read.
    pub url: Option<ReceiverUrl>,
    /// What signs, the current secret first; `None` when decryption failed.
    pub secrets: Option<Vec<Secret>>,
}

/// Receivers by subscription.
#[derive(Debug)]
pub(super) struct Endpoints {
    master: MasterKey,
    known: Mutex<HashMap<Uuid, Arc<Endpoint>>>,
}

impl Endpoints {
    pub(super) fn new(master: MasterKey) -> Self {
        Self { master, known: Mutex::default() }
    }

    /// The receiver of a subscription, as `target` says now.
    pub(super) fn of(&self, subscription: Uuid, target: &Target) -> Arc<Endpoint> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = known.get(&subscription)
            && endpoint.target == *target
        {
            return Arc::clone(endpoint);
        }
        if known.len() >= KEPT {
            known.clear();
        }
        let endpoint = Arc::new(self.make(subscription, target));
        known.insert(subscription, Arc::clone(&endpoint));
        endpoint
    }

    /// `None` when it can't be opened or read.
    fn url(&self, subscription: Uuid, target: &Target) -> Option<ReceiverUrl> {
        let Some(sealed) = &target.url_sealed else { return ReceiverUrl::parse(&target.url).ok() };
        let binding = subscription_url_binding(TenantId(target.tenant_id), subscription);
        ReceiverUrl::parse(self.master.open(sealed, &binding).ok()?.reveal()).ok()
    }

    fn make(&self, subscription: Uuid, target: &Target) -> Endpoint {
        let binding = subscription_binding(TenantId(target.tenant_id), subscription);
        let open = |sealed: &Vec<u8>| self.master.open(sealed, &binding).ok();
        Endpoint {
            target: target.clone(),
            url: self.url(subscription, target),
            secrets: target.sealed.iter().map(open).collect(),
        }
    }
}
