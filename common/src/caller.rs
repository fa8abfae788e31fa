//! Who sent a request: what authentication found out and the queue carries on.

use crate::model::{KeyPrefix, Scopes, TenantId};
use serde::{Deserialize, Serialize};

/// The authenticated caller. The tenant is always the key's, never the header's (specification: Authentication, 7).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The agency.
    pub tenant_id: TenantId,
    /// Its slug.
    pub tenant: String,
    /// The key that signed.
    pub key: KeyPrefix,
    /// What the key may do.
    pub scopes: Scopes,
    /// The origin the key is registered with (D24).
    pub origin: Option<String>,
}
