//! `connectctl subscription`: where an agency's webhooks go.

mod remove;
mod rotate;
mod seal_urls;

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use crate::sealing;
use crate::{delivery, lookup, receiver};
use anyhow::{anyhow, bail, ensure};
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use common::clock;
use common::egress::{EgressSettings, displayable};
use common::event::OutboundType;
use common::model::TenantId;
use common::sealed::{Secret, subscription_binding, subscription_url_binding};
use serde::Serialize;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;

const CREATE: &str = "-- subscriptions.create
INSERT INTO subscriptions (tenant_id, subscription_id, key_prefix, url, event_types, secret_sealed, created_at,
    url_sealed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const KEY_IS_ACTIVE: &str = "-- api_keys.is_active
SELECT FROM api_keys
WHERE tenant_id = $1 AND prefix = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)";

const LIST: &str = "-- subscriptions.list
SELECT subscription_id, url, key_prefix, event_types, created_at, paused_at, removed_at
FROM subscriptions WHERE tenant_id = $1 AND removed_at IS NULL ORDER BY subscription_id";

const PAUSE: &str = "-- subscriptions.pause
UPDATE subscriptions SET paused_at = COALESCE(paused_at, $2) WHERE subscription_id = $1 AND removed_at IS NULL
RETURNING subscription_id, url, key_prefix, event_types, created_at, paused_at, removed_at";

const RESUME: &str = "-- subscriptions.resume
UPDATE subscriptions SET paused_at = NULL WHERE subscription_id = $1 AND removed_at IS NULL
RETURNING subscription_id, url, key_prefix, event_types, created_at, paused_at, removed_at";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Subscribe a receiver; prints the secret that signs its deliveries, which is never shown again
    #[command(after_help = CREATE_HELP)]
    Create(Create),
    /// List the subscriptions of an agency
    #[command(after_help = "Example:\n  connectctl subscription list --tenant acme")]
    List(OfTenant),
    /// Hold deliveries back until the subscription is resumed
    #[command(after_help = "Example:\n  connectctl subscription pause 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Pause(Named),
    /// Let deliveries go out again
    #[command(after_help = "Example:\n  connectctl subscription resume 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Resume(Named),
    /// Remove a subscription for good, with the deliveries that wait for it
    #[command(after_help = "Example:\n  connectctl subscription remove 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Remove(Named),
    /// Sign with a new secret from now on; prints it, and never again
    #[command(after_help = rotate::HELP)]
    RotateSecret(rotate::Rotate),
    /// Seal the URLs that an earlier release has stored in clear, of all agencies
    #[command(after_help = seal_urls::HELP)]
    SealUrls,
}

const CREATE_HELP: &str = "\
Events: lead.assigned lead.stage_changed proposal.sent proposal.viewed
        booking.confirmed booking.cancelled

Example:
  connectctl subscription create --tenant acme --url https://partner.example/hooks \\
      --key ck_0123456789abcdef";

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    tenant: OfTenant,
    /// The receiver: a public https:// address
    #[arg(long)]
    url: String,
    /// The API key of the receiving system: what the key's calls cause isn't sent to it
    #[arg(long, value_name = "PREFIX")]
    key: Option<String>,
    /// Event types wanted, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    events: Option<Vec<String>>,
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The subscription
    id: String,
}

#[derive(Serialize)]
struct Created {
    id: Uuid,
    secret: String,
}

impl Show for Created {
    const COLUMNS: &'static [&'static str] = &["Id", "Secret"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.id.to_string()), Some(self.secret.clone())]
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    id: Uuid,
    url: String,
    key: Option<String>,
    /// Null is all.
    events: Option<Vec<String>>,
    state: &'static str,
    #[serde(serialize_with = "clock::serialize")]
    created_at: DateTime<Utc>,
}

impl FromRow for Subscription {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        let removed: Option<DateTime<Utc>> = row.try_get("removed_at")?;
        let paused: Option<DateTime<Utc>> = row.try_get("paused_at")?;
        let state = match (removed, paused) {
            (Some(_), _) => "removed",
            (None, Some(_)) => "paused",
            (None, None) => "active",
        };
        Ok(Self {
            id: row.try_get("subscription_id")?,
            url: displayable(row.try_get("url")?),
            key: row.try_get("key_prefix")?,
            events: row.try_get("event_types")?,
            state,
            created_at: row.try_get("created_at")?,
        })
    }
}

impl Show for Subscription {
    const COLUMNS: &'static [&'static str] = &["Id", "State", "Url", "Key", "Events", "Created at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.id.to_string()),
            Some(self.state.to_owned()),
            Some(self.url.clone()),
            self.key.clone(),
            Some(self.events.as_ref().map_or_else(|| "all".to_owned(), |events| events.join(", "))),
            Some(clock::to_text(self.created_at)),
        ]
    }
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::Create(new) => show_secret(context, &create(&new, context).await?),
        Command::List(of) => {
            let tenant = lookup::tenant(context, &of).await?;
            context.output.many(&rows::all::<Subscription>(context, LIST, &[&tenant.0]).await?)
        }
        Command::Pause(named) => {
            let paused = rows::one(context, PAUSE, &[&named.id()?, &clock::now()]).await?;
            context.output.one::<Subscription>(&paused.ok_or_else(|| named.unknown())?)
        }
        Command::Resume(named) => {
            let resumed = resume(&named, context).await?;
            context.output.one(&resumed)
        }
        Command::Remove(named) => {
            let removed = remove::remove(&named, context).await?;
            context.output.one(&removed)
        }
        Command::SealUrls => context.output.one(&seal_urls::run(context).await?),
        Command::RotateSecret(rotate) => show_secret(context, &rotate.run(context).await?),
    }
}

fn show_secret(context: &Context, created: &Created) -> anyhow::Result<()> {
    context.output.note("The secret is shown only now: keep it.");
    context.output.one(created)
}

async fn create(new: &Create, context: &Context) -> anyhow::Result<Created> {
    let events = new.events.as_deref().map(event_types).transpose()?;
    let egress: EgressSettings = context.settings()?;
    let sealing = context.sealing().await?;
    let tenant = lookup::tenant(context, &new.tenant).await?;
    if let Some(prefix) = &new.key {
        check_key(context, tenant, prefix).await?;
    }
    if egress.allow_private {
        context.output.warn(
            "CONNECT_WEBHOOK_ALLOW_PRIVATE is on: http://, loopback receivers and any port are accepted",
        );
    }
    let url = receiver::vet(&new.url, &egress).await?;
    let (id, secret) = (Uuid::now_v7(), sealing::new_secret("whsec_")?);
    let sealed = sealing::seal(&sealing, &secret, &subscription_binding(tenant, id))?;
    let whole = Secret::new(url.as_str().to_owned());
    let url_sealed = sealing::seal(&sealing, &whole, &subscription_url_binding(tenant, id))?;
    let shown = displayable(url.as_str());
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&tenant.0, &id, &new.key, &shown, &events, &sealed, &clock::now(), &url_sealed];
    context.database.execute(CREATE, &parameters).await?;
    Ok(Created { id, secret: secret.reveal().to_owned() })
}

async fn check_key(context: &Context, tenant: TenantId, prefix: &str) -> anyhow::Result<()> {
    let found = context.database.query_opt(KEY_IS_ACTIVE, &[&tenant.0, &prefix, &clock::now()]).await?;
    ensure!(found.is_some(), "no active key {prefix:?} in this tenant");
    Ok(())
}

/// What has waited goes out now.
async fn resume(named: &Named, context: &mut Context) -> anyhow::Result<Subscription> {
    let id = named.id()?;
    let resume = async |tx: &Transaction<'_>| {
        let row = tx.query_opt(RESUME, &[&id]).await?.ok_or_else(|| named.unknown())?;
        delivery::wake_dispatcher(tx).await?;
        Subscription::from_row(&row)
    };
    context.transact(resume).await
}

impl Named {
    fn id(&self) -> anyhow::Result<Uuid> {
        Uuid::try_parse(&self.id).map_err(|_| self.unknown())
    }

    fn unknown(&self) -> anyhow::Error {
        anyhow!("no subscription {:?}", self.id)
    }
}

/// The types given, each once, as names.
fn event_types(given: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let mut types = Vec::new();
    for name in given.iter().map(|name| name.trim()) {
        let Some(known) = OutboundType::parse(name) else {
            bail!("unknown event type {name:?}");
        };
        if !types.contains(&known.as_str()) {
            types.push(known.as_str());
        }
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_types_are_outbound_ones() {
        let given = |text: &str| event_types(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            given("lead.assigned, proposal.sent,lead.assigned").unwrap(),
            ["lead.assigned", "proposal.sent"]
        );
        for wrong in ["", "lead.assigned,", "contact.identified", "message.posted"] {
            assert!(given(wrong).unwrap_err().to_string().starts_with("unknown event type"), "{wrong}");
        }
    }
}
