//! `connectctl subscription seal-urls`: for subscriptions of a release that stored URLs in clear.

use crate::context::Context;
use crate::output::Show;
use crate::sealing;
use anyhow::bail;
use common::egress::displayable;
use common::model::TenantId;
use common::sealed::{Secret, subscription_binding, subscription_url_binding};
use common::settings::SealingSettings;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

/// Removed ones, too: their tokens may still be valid.
const UNSEALED: &str = "-- subscriptions.unsealed
SELECT tenant_id, subscription_id, url, secret_sealed
FROM subscriptions WHERE url_sealed IS NULL AND subscription_id > $1 ORDER BY subscription_id LIMIT 100";

/// A run at the same time may have been faster.
const SEAL_URL: &str = "-- subscriptions.seal_url
UPDATE subscriptions SET url = $3, url_sealed = $4
WHERE subscription_id = $1 AND url = $2 AND url_sealed IS NULL";

const COUNT_UNSEALED: &str = "-- subscriptions.count_unsealed
SELECT count(*) FROM subscriptions WHERE url_sealed IS NULL";

pub(super) const HELP: &str = "\
URLs that the release before has stored are sealed like secrets, and are shown without the values of their
query from then on. Run it once, after the upgrade: dispatchers of the release before cannot open sealed URLs,
so none may be running any more. It can be interrupted and run again, also from two places at once.

Example:
  connectctl subscription seal-urls";

#[derive(Serialize)]
pub(super) struct Report {
    sealed: u64,
    remaining: i64,
}

impl Show for Report {
    const COLUMNS: &'static [&'static str] = &["Sealed", "Remaining"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.sealed.to_string()), Some(self.remaining.to_string())]
    }
}

/// What became of a subscription.
enum Outcome {
    Sealed,
    /// Another run was faster, or it is gone.
    Changed,
    /// Its secret was sealed under another master key. The programs could not open its URL.
    OtherKey(Uuid),
}

/// Seals one URL after the other, so that each that is done stays done.
pub(super) async fn run(context: &Context) -> anyhow::Result<Report> {
    let sealing: SealingSettings = context.settings()?;
    let (mut last, mut sealed, mut left) = (Uuid::nil(), 0, Vec::new());
    loop {
        let rows = context.database.query(UNSEALED, &[&last]).await?;
        let Some(row) = rows.last() else { break };
        last = row.try_get("subscription_id")?;
        for row in &rows {
            match seal(context, &sealing, row).await? {
                Outcome::Sealed => sealed += 1,
                Outcome::Changed => {}
                Outcome::OtherKey(id) => left.push(id),
            }
        }
    }
    if let Some(first) = left.first() {
        bail!(
            "{} subscriptions were left as they were, the first is {first}: their secrets cannot be opened with this \
             CONNECT_MASTER_KEY; run it again with the key of the programs ({sealed} were sealed)",
            left.len()
        );
    }
    let remaining = context.database.query_one(COUNT_UNSEALED, &[]).await?.try_get(0)?;
    Ok(Report { sealed, remaining })
}

async fn seal(context: &Context, sealing: &SealingSettings, row: &Row) -> anyhow::Result<Outcome> {
    let (tenant, id) = (TenantId(row.try_get("tenant_id")?), row.try_get("subscription_id")?);
    let secret: Vec<u8> = row.try_get("secret_sealed")?;
    if sealing.master_key.open(&secret, &subscription_binding(tenant, id)).is_err() {
        return Ok(Outcome::OtherKey(id));
    }
    let whole = Secret::new(row.try_get("url")?);
    let url_sealed = sealing::seal(sealing, &whole, &subscription_url_binding(tenant, id))?;
    let shown = displayable(whole.reveal());
    let changed = context.database.execute(SEAL_URL, &[&id, &whole.reveal(), &shown, &url_sealed]).await?;
    Ok(if changed == 1 { Outcome::Sealed } else { Outcome::Changed })
}
