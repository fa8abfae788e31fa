//! Sealing the URLs of subscriptions of a release that stored them in plain text.

use crate::audit::{Actor, AuditAction, record_before};
use crate::store::subscriptions::UnsealedUrl;
use crate::{AdminError, secrets, store};
use common::sealed::{MasterKeys, subscription_binding, subscription_url_binding};
use serde::Serialize;
use tokio_postgres::Client;
use uuid::Uuid;

/// The result of sealing the URLs of all tenants.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SealReport {
    /// URLs that this run has sealed.
    pub sealed: u64,
    /// URLs that are still stored in plain text.
    pub remaining: i64,
}

/// The result for one subscription.
enum Outcome {
    Sealed,
    /// A concurrent run has sealed or changed it.
    Changed,
    /// Its secret was sealed under another master key, so the programs could not open its URL either.
    OtherKey(Uuid),
}

/// Seals the URLs one by one, so that an interrupted run keeps what it has sealed. Includes removed subscriptions, because
/// tokens in their URLs may still be valid.
pub async fn seal_urls(
    client: &mut Client,
    actor: &Actor,
    master_keys: &MasterKeys,
) -> Result<SealReport, AdminError> {
    record_before(client, actor, AuditAction::SealUrls, "all subscriptions", None).await?;
    let (mut last, mut sealed, mut left) = (Uuid::nil(), 0, Vec::new());
    loop {
        let page = store::subscriptions::unsealed(client, last).await?;
        let Some(url) = page.last() else { break };
        last = url.id;
        for url in &page {
            match seal(client, master_keys, url).await? {
                Outcome::Sealed => sealed += 1,
                Outcome::Changed => {}
                Outcome::OtherKey(id) => left.push(id),
            }
        }
    }
    if let Some(first) = left.first() {
        return Err(AdminError::UrlsNotSealed { left: left.len(), first: *first, sealed });
    }
    Ok(SealReport { sealed, remaining: store::subscriptions::count_unsealed(client).await? })
}

async fn seal(client: &Client, master_keys: &MasterKeys, url: &UnsealedUrl) -> Result<Outcome, AdminError> {
    if master_keys.open(&url.secret_sealed, &subscription_binding(url.tenant, url.id)).is_err() {
        return Ok(Outcome::OtherKey(url.id));
    }
    let binding = subscription_url_binding(url.tenant, url.id);
    let url_sealed = secrets::seal(master_keys, &url.url, &binding)?;
    let is_changed = store::subscriptions::seal_url(client, url.id, &url.url, &url_sealed).await?;
    Ok(if is_changed { Outcome::Sealed } else { Outcome::Changed })
}
