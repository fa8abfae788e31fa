//! Replacing the signing secret of a subscription.

use super::{SubscriptionSecret, parse_id, refusal};
use crate::audit::{Actor, AuditAction, record};
use crate::transaction::transact;
use crate::{AdminError, master_key, secrets, store};
use common::clock;
use common::sealed::{MasterKeys, subscription_binding};
use std::time::Duration;
use tokio_postgres::Client;

/// Replaces the signing secret. During `overlap` deliveries are also signed with the old secret; without it the old secret is
/// invalid from now on. Only one old secret is kept.
pub async fn rotate_secret(
    client: &mut Client,
    actor: &Actor,
    master_keys: &MasterKeys,
    id: &str,
    overlap: Option<Duration>,
) -> Result<SubscriptionSecret, AdminError> {
    master_key::verify(client, master_keys).await?;
    let until = overlap.map(|overlap| secrets::overlap_end(clock::now(), overlap)).transpose()?;
    let parsed = parse_id(id)?;
    let Some(tenant) = store::subscriptions::tenant(&*client, parsed).await? else {
        return Err(refusal(&*client, id).await);
    };
    let secret = secrets::new_secret("whsec_")?;
    let sealed = secrets::seal(master_keys, &secret, &subscription_binding(tenant, parsed))?;
    transact(client, async |tx| {
        if !store::subscriptions::rotate_secret(tx, parsed, &sealed, until).await? {
            return Err(refusal(tx, id).await);
        }
        record(tx, actor, AuditAction::RotateSubscriptionSecret, &parsed.to_string(), Some(tenant)).await
    })
    .await?;
    Ok(SubscriptionSecret { id: parsed, secret: secret.reveal().to_owned() })
}
