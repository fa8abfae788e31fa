//! Finds out why a signature was refused: the steps of the check, and the first one that fails.
//!
//! A check knows the secrets of the key, but never shows a MAC that it has computed: who may see this page could otherwise
//! have any request signed. It only tells whether the MAC that was entered is that of the expected text, or of one of a fixed
//! list of other texts and secrets that mistakes lead to. To learn anything, one must have made a MAC with the secret before.

mod body;
mod mistakes;
mod request;
mod steps;

pub use request::CheckedRequest;
pub use steps::{CheckStep, SignatureReport, Verdict};

use crate::refusals::RefusedRequest;
use crate::{AdminError, store};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{KeyPrefix, TenantId};
use common::sealed::{MasterKeys, Secret, api_key_binding};
use tokio_postgres::Client;

/// Largest body that is checked, in bytes.
pub const BODY_MAX: usize = 256 * 1024;

/// A key with its secrets, for checks only.
pub(crate) struct CheckedKey {
    pub(crate) is_revoked: bool,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// The current secret.
    pub(crate) secret: Option<Secret>,
    /// The secret before the last rotation, and until when it is valid.
    pub(crate) old_secret: Option<(Secret, DateTime<Utc>)>,
}

/// The columns of a key that a check needs.
pub(crate) struct SealedKey {
    pub(crate) tenant: TenantId,
    pub(crate) revoked_at: Option<DateTime<Utc>>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) secret: Vec<u8>,
    pub(crate) old_secret: Option<(Vec<u8>, DateTime<Utc>)>,
}

/// Checks a signature with the secrets of the key that the request names, if that is a key of the tenant. `refused` is the
/// refused request that it is about: times and the body are then compared with those that were received.
pub async fn check(
    client: &Client,
    master_keys: &MasterKeys,
    tenant: TenantId,
    request: &CheckedRequest,
    refused: Option<&RefusedRequest>,
) -> Result<SignatureReport, AdminError> {
    let key = match KeyPrefix::parse(&request.key) {
        Some(prefix) => store::api_keys::sealed(client, prefix.as_str()).await?,
        None => None,
    };
    let binding = api_key_binding(tenant, &request.key);
    let open = |sealed: &[u8]| master_keys.open(sealed, &binding).ok();
    let key = key.filter(|key| key.tenant == tenant).map(|key| CheckedKey {
        is_revoked: key.revoked_at.is_some(),
        expires_at: key.expires_at,
        secret: open(&key.secret),
        old_secret: key.old_secret.and_then(|(sealed, until)| Some((open(&sealed)?, until))),
    });
    let at = refused.map_or_else(clock::now, |refused| refused.at);
    Ok(steps::report(key.as_ref(), request, refused, at))
}
