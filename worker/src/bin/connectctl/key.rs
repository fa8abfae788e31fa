//! `connectctl key`: API keys. A secret is shown when its key is made and never again (D5).

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use crate::sealing;
use crate::{lookup, text};
use anyhow::{Context as _, anyhow, bail, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use common::clock;
use common::model::Scopes;
use common::sealed::key_binding;
use common::settings::SettingValue;
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const CREATE: &str = "-- api_keys.create
INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, origin, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const SET_SCOPES: &str = "-- api_keys.set_scopes
UPDATE api_keys SET scopes = $2 WHERE prefix = $1 AND revoked_at IS NULL
RETURNING prefix, name, scopes, origin, created_at, expires_at, revoked_at";

const IS_REVOKED: &str = "-- api_keys.is_revoked
SELECT FROM api_keys WHERE prefix = $1 AND revoked_at IS NOT NULL";

const REVOKE: &str = "-- api_keys.revoke
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $2) WHERE prefix = $1
RETURNING prefix, name, scopes, origin, created_at, expires_at, revoked_at";

const LIST: &str = "-- api_keys.list
SELECT prefix, name, scopes, origin, created_at, expires_at, revoked_at
FROM api_keys WHERE tenant_id = $1 ORDER BY created_at, prefix";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key; prints its secret, which is never shown again
    #[command(after_help = CREATE_HELP)]
    Create(Create),
    /// Replace the scopes of a key; running programs follow within a second
    #[command(
        after_help = "Example:\n  connectctl key scopes ck_0123456789abcdef --set events:ingest,credit:write"
    )]
    Scopes(SetScopes),
    /// Revoke a key for good; running programs refuse it within a second
    #[command(after_help = "Example:\n  connectctl key revoke ck_0123456789abcdef")]
    Revoke(Revoke),
    /// List the keys of an agency, revoked ones included
    #[command(after_help = "Example:\n  connectctl key list --tenant acme")]
    List(OfTenant),
}

const CREATE_HELP: &str = "\
Scopes: events:ingest clients:read clients:write leads:read leads:write credit:write

Example:
  connectctl key create --tenant acme --name website --scopes events:ingest,leads:read \\
      --origin acme-web --expires-in 365d";

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    tenant: OfTenant,
    /// What the key is for
    #[arg(long)]
    name: String,
    /// What the key may do, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    scopes: Vec<String>,
    /// The emitting system that uses the key: events of this origin aren't sent back to it
    #[arg(long)]
    origin: Option<String>,
    /// How long the key is good for, such as 30d [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = Duration::read)]
    expires_in: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct SetScopes {
    /// The key
    prefix: String,
    /// What the key may do from now on, separated by commas
    #[arg(long = "set", value_name = "SCOPES", value_delimiter = ',', required = true)]
    scopes: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The key
    prefix: String,
}

#[derive(Serialize)]
struct Created {
    prefix: String,
    secret: String,
    scopes: Vec<String>,
}

impl Show for Created {
    const COLUMNS: &'static [&'static str] = &["Prefix", "Secret", "Scopes"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.prefix.clone()), Some(self.secret.clone()), Some(self.scopes.join(", "))]
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    prefix: String,
    name: String,
    scopes: Vec<String>,
    origin: Option<String>,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

impl FromRow for Key {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        let time = |column| anyhow::Ok(row.try_get::<_, Option<DateTime<Utc>>>(column)?.map(clock::to_text));
        Ok(Self {
            prefix: row.try_get("prefix")?,
            name: row.try_get("name")?,
            scopes: row.try_get("scopes")?,
            origin: row.try_get("origin")?,
            created_at: clock::to_text(row.try_get("created_at")?),
            expires_at: time("expires_at")?,
            revoked_at: time("revoked_at")?,
        })
    }
}

impl Show for Key {
    const COLUMNS: &'static [&'static str] =
        &["Prefix", "Name", "Scopes", "Origin", "Created at", "Expires at", "Revoked at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.prefix.clone()),
            Some(self.name.clone()),
            Some(self.scopes.join(", ")),
            self.origin.clone(),
            Some(self.created_at.clone()),
            self.expires_at.clone(),
            self.revoked_at.clone(),
        ]
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> anyhow::Result<()> {
    match command {
        Command::Create(new) => {
            let created = create(&new, context).await?;
            context.output.note("The secret is shown only now: keep it.");
            context.output.one(&created)
        }
        Command::Scopes(set) => {
            let names = scopes(&set.scopes)?.names();
            if context.database.query_opt(IS_REVOKED, &[&set.prefix]).await?.is_some() {
                bail!("key {:?} is revoked for good; its scopes can't be changed", set.prefix);
            }
            context.output.one(&changed(context, SET_SCOPES, &set.prefix, &names).await?)
        }
        Command::Revoke(named) => {
            context.output.one(&changed(context, REVOKE, &named.prefix, &clock::now()).await?)
        }
        Command::List(of) => {
            let tenant = lookup::tenant(context, &of).await?;
            context.output.many(&rows::all::<Key>(context, LIST, &[&tenant.0]).await?)
        }
    }
}

async fn create(new: &Create, context: &Context) -> anyhow::Result<Created> {
    let (name, scopes) = (text::name(&new.name)?, scopes(&new.scopes)?.names());
    let origin = new.origin.as_deref().map(text::origin).transpose()?;
    let sealing = context.sealing().await?;
    let tenant = lookup::tenant(context, &new.tenant).await?;
    let (prefix, secret) = (sealing::new_prefix()?, sealing::new_secret("cs_")?);
    let sealed = sealing::seal(&sealing, &secret, &key_binding(tenant, &prefix))?;
    let now = clock::now();
    let expires_at = new.expires_in.map(|span| expiry(now, span)).transpose()?;
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&tenant.0, &prefix, &name, &sealed, &scopes, &origin, &now, &expires_at];
    context.database.execute(CREATE, &parameters).await?;
    Ok(Created { prefix, secret: secret.reveal().to_owned(), scopes })
}

async fn changed(
    context: &Context,
    statement: &str,
    prefix: &str,
    value: &(dyn ToSql + Sync),
) -> anyhow::Result<Key> {
    let key = rows::one(context, statement, &[&prefix, value]).await?;
    key.ok_or_else(|| anyhow!("no key {prefix:?}"))
}

fn scopes(given: &[String]) -> anyhow::Result<Scopes> {
    let names: Vec<&str> = given.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    ensure!(!names.is_empty(), "a key needs at least one scope");
    Scopes::parse(&names).map_err(anyhow::Error::msg)
}

fn expiry(now: DateTime<Utc>, span: Duration) -> anyhow::Result<DateTime<Utc>> {
    let span = TimeDelta::from_std(span)?;
    now.checked_add_signed(span).context("the key would expire too far in the future")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_known_ones() {
        let given = |text: &str| scopes(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            given("events:ingest, leads:read,events:ingest").unwrap().names(),
            ["events:ingest", "leads:read"]
        );
        assert_eq!(given("events:ingest,root").unwrap_err().to_string(), "unknown scope \"root\"");
        assert!(given("").is_err() && given(",").is_err());
    }
}
