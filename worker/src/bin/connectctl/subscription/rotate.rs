//! `connectctl subscription rotate-secret`.

use super::{Created, Named};
use crate::context::Context;
use crate::sealing;
use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use common::clock;
use common::model::TenantId;
use common::sealed::subscription_binding;
use common::settings::SettingValue;
use std::time::Duration;

const AGENCY: &str = "-- subscriptions.agency
SELECT tenant_id FROM subscriptions WHERE subscription_id = $1 AND removed_at IS NULL";

/// Without an overlap nothing is kept of the old secret.
const ROTATE: &str = "-- subscriptions.rotate_secret
UPDATE subscriptions SET
    old_secret_sealed = CASE WHEN $3::timestamptz IS NULL THEN NULL ELSE secret_sealed END,
    old_secret_until = $3,
    secret_sealed = $2
WHERE subscription_id = $1 AND removed_at IS NULL";

pub(super) const HELP: &str = "\
Without --overlap the old secret is of no use from now on. With it, each delivery carries two signatures
meanwhile, the new secret's first, for a receiver that takes either. Only the newest old secret is kept:
another rotation ends the overlap of the one before.

Example:
  connectctl subscription rotate-secret 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --overlap 24h";

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    named: Named,
    /// How long the old secret signs as well, such as 24h [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = Duration::read)]
    overlap: Option<Duration>,
}

impl Rotate {
    pub(super) async fn run(&self, context: &Context) -> anyhow::Result<Created> {
        let sealing = context.sealing().await?;
        let until = self.overlap.map(|overlap| end(clock::now(), overlap)).transpose()?;
        let id = self.named.id()?;
        let row = context.database.query_opt(AGENCY, &[&id]).await?.ok_or_else(|| self.named.unknown())?;
        let tenant = TenantId(row.try_get("tenant_id")?);
        let secret = sealing::new_secret("whsec_")?;
        let sealed = sealing::seal(&sealing, &secret, &subscription_binding(tenant, id))?;
        match context.database.execute(ROTATE, &[&id, &sealed, &until]).await? {
            0 => Err(self.named.unknown()),
            _ => Ok(Created { id, secret: secret.reveal().to_owned() }),
        }
    }
}

fn end(now: DateTime<Utc>, overlap: Duration) -> anyhow::Result<DateTime<Utc>> {
    now.checked_add_signed(TimeDelta::from_std(overlap)?)
        .context("the overlap would end too far in the future")
}
