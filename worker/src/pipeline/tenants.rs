//! Tenants by their slugs, remembered until the process ends.
//!
//! What is remembered cannot become wrong: the operator has no command that renames or removes a tenant, slugs are unique,
//! and other tables refer to a tenant's id. A slug that does not exist is not remembered, so that a tenant is found as soon
//! as it is made.

use crate::store;
use common::db::{Database, TxError};
use common::model::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most slugs that are remembered; when there are more, all are forgotten and looked up again.
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
            self.remember(slug, tenant);
        }
        Ok(found)
    }

    fn remember(&self, slug: &str, tenant: TenantId) {
        let mut known = self.lock();
        if known.len() >= SLUGS {
            known.clear();
        }
        known.insert(slug.to_owned(), tenant);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, TenantId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn remembers_a_bounded_number_of_slugs() {
        let directory = TenantDirectory::default();
        for number in 0..=SLUGS {
            directory.remember(&format!("tenant-{number}"), TenantId(Uuid::nil()));
            assert!(directory.lock().len() <= SLUGS);
        }
        assert!(directory.lock().contains_key(&format!("tenant-{SLUGS}")), "the last one is remembered");
    }
}
