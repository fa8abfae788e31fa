//! The authenticated caller of a request, which ingest passes on with the message.

use crate::model::{KeyPrefix, Scopes, TenantId};
use serde::{Deserialize, Serialize};

/// The authenticated caller. The tenant is always the key's, never the header's (specification: Authentication, 7).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The tenant that the key belongs to.
    pub tenant_id: TenantId,
    /// The tenant's slug, in lower case.
    pub tenant: String,
    /// The key that signed.
    pub key: KeyPrefix,
    /// The key's scopes.
    pub scopes: Scopes,
    /// The origin the key is registered with (D24).
    pub origin: Option<String>,
}
