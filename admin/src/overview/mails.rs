//! What agencies are told by mail. Which mails were sent is in the database, so that one copy of the console sends each, and none
//! repeats it after a restart.

use super::{Attention, AttentionNews};
use crate::{Result, store};
use common::db::column;
use common::model::TenantId;
use tokio_postgres::Client;

/// Claims for the caller what an agency is to be told now: what needs attention and was not told, and what was told and needs it no
/// more; of each cause at most once an hour. A claim that is not confirmed within a minute is anybody's again.
pub async fn claim_news(client: &Client, tenant: TenantId, attention: &[Attention]) -> Result<Vec<AttentionNews>> {
    let causes = column(attention, |one| one.cause.as_str());
    let texts = column(attention, |one| format!("{} {}", one.text, one.next));
    let are_mailed = column(attention, |one| one.is_mailed);
    store::attention::claim(client, tenant, (&causes, &texts, &are_mailed)).await
}

/// Notes that what was claimed was told.
pub async fn confirm_news(client: &Client, tenant: TenantId, news: &[AttentionNews]) -> Result<()> {
    store::attention::confirm(client, tenant, news).await?;
    Ok(())
}

/// Keeps what was claimed for an hour: its mail was refused for good.
pub async fn postpone_news(client: &Client, tenant: TenantId, news: &[AttentionNews]) -> Result<()> {
    store::attention::postpone(client, tenant, news).await?;
    Ok(())
}
