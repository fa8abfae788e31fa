//! Tenants by their slugs, remembered: neither a slug nor an id ever changes, and no tenant is removed.

use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most slugs that are remembered.
const SLUGS: usize = 10_000;

/// Finds tenants. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantDirectory(Arc<Mutex<HashMap<String, TenantId>>>);

impl TenantDirectory {
    /// The tenant of a slug; asks the database when it has not been seen before.
    pub(super) async fn find(&self, database: &Database, slug: &str) -> Result<Option<TenantId>, TxError> {
        if let Some(known) = self.lock().get(slug) {
            return Ok(Some(*known));
        }
        let found = store::find_tenant(database, slug).await?;
        if let Some(tenant) = found {
            let mut known = self.lock();
            if known.len() >= SLUGS {
                known.clear();
            }
            known.insert(slug.to_owned(), tenant);
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, TenantId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
