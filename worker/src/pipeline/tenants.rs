//! A cache of tenant ids by slug. Entries never expire.
//!
//! A cached entry cannot become wrong: the operator has no command that renames or removes a tenant, slugs are unique,
//! and other tables refer to a tenant's id. Unknown slugs are not cached, so that a tenant is found as soon as it is
//! created.

use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of cached slugs; when they are exceeded, the cache is emptied.
const MAX_SLUGS: usize = 10_000;

/// Finds tenants by slug. Clones share one cache.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantDirectory(Arc<Mutex<HashMap<String, TenantId>>>);

impl TenantDirectory {
    /// The tenant with that slug, from the cache or else from the database.
    pub(super) async fn find(&self, database: &Database, slug: &str) -> Result<Option<TenantId>, TxError> {
        if let Some(tenant) = self.0.lock().get(slug) {
            return Ok(Some(*tenant));
        }
        let found = store::find_tenant(database, slug).await?;
        if let Some(tenant) = found {
            self.insert(slug, tenant);
        }
        Ok(found)
    }

    fn insert(&self, slug: &str, tenant: TenantId) {
        let mut cache = self.0.lock();
        if cache.len() >= MAX_SLUGS {
            cache.clear();
        }
        cache.insert(slug.to_owned(), tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn caches_a_bounded_number_of_slugs() {
        let directory = TenantDirectory::default();
        for number in 0..=MAX_SLUGS {
            directory.insert(&format!("tenant-{number}"), TenantId(Uuid::nil()));
            assert!(directory.0.lock().len() <= MAX_SLUGS);
        }
        assert!(directory.0.lock().contains_key(&format!("tenant-{MAX_SLUGS}")), "the last one is cached");
    }
}
