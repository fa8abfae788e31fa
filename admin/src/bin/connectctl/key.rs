//! `connectctl key`: API keys. A secret is shown only once, when it is created (D5).

use crate::arguments::{RotationArgs, TenantArgs};
use crate::context::Context;
use crate::output::show;
use admin::Result;
use admin::input::{KeyScopes, Name, Origin};
use admin::keys::{self, CreatedKey, Key, KeyFilter, NewKey, RotatedKey, SecretUse};
use clap::{Args, Subcommand};
use common::settings::{SettingValue, TenantBounds};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a key; prints its secret, which is never shown again
    #[command(after_help = CREATE_HELP)]
    Create(Create),
    /// Replace the scopes of a key; running programs follow within a second
    #[command(after_help = "Example:\n  connectctl key scopes ck_0123456789abcdef --set events:ingest,credit:write")]
    Scopes(SetScopes),
    /// Revoke a key permanently; running programs refuse it within a second
    #[command(after_help = "Example:\n  connectctl key revoke ck_0123456789abcdef")]
    Revoke(KeyArgs),
    /// Replace the secret of a key; prints the new one, which is never shown again
    #[command(after_help = ROTATE_HELP)]
    RotateSecret(Rotate),
    /// End the overlap of a rotation: refuse the old secret from now on
    #[command(after_help = "Example:\n  connectctl key end-overlap ck_0123456789abcdef")]
    EndOverlap(KeyArgs),
    /// List the keys of a tenant, including revoked ones, with the last use of their secrets
    #[command(after_help = LIST_HELP)]
    List(TenantArgs),
}

const CREATE_HELP: &str = "\
Scopes: events:ingest clients:read clients:write leads:read leads:write credit:write webhooks:read

Example:
  connectctl key create --tenant acme --name website --scopes events:ingest,leads:read \\
      --origin acme-web --expires-in 365d";

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// What the key is for
    #[arg(long)]
    pub(crate) name: String,
    /// Scopes of the key, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<String>,
    /// The emitting system that uses the key: outbound events of this origin are not sent to it
    #[arg(long)]
    pub(crate) origin: Option<String>,
    /// How long the key is valid, such as 30d [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = Duration::parse_setting)]
    pub(crate) expires_in: Option<Duration>,
}

const ROTATE_HELP: &str = "\
Without --overlap the old secret is invalid from now on. With it, requests may be signed with either secret until \
the overlap ends. Only one old secret is kept: until then another rotation needs --replace-overlap. key list shows \
when the old secret was last used; key end-overlap ends the overlap early. Running programs follow within a second.

Example:
  connectctl key rotate-secret ck_0123456789abcdef --overlap 24h";

const LIST_HELP: &str = "\
The last use of a secret is recorded once a minute. A key or secret is safe to revoke if it was not used for \
7 days; in the 7 days after it was created, none is.

Example:
  connectctl key list --tenant acme";

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    pub(crate) named: KeyArgs,
    #[command(flatten)]
    pub(crate) rotation: RotationArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetScopes {
    /// Prefix of the key
    pub(crate) prefix: String,
    /// The new scopes of the key, separated by commas
    #[arg(long = "set", value_name = "SCOPES", value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Prefix of the key
    pub(crate) prefix: String,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    let Context { database, actor, .. } = &mut *context;
    match command {
        Command::Create(create) => {
            let (new, master_keys) = (new_key(create)?, context.master_keys()?);
            let bound = context.settings::<TenantBounds>()?.keys;
            let Context { database, actor, .. } = context;
            let created = keys::create(database, actor, &master_keys, bound, &new).await?;
            output.note("The secret is shown only once: store it now.");
            output.print_one(&created)
        }
        Command::Scopes(set) => {
            let scopes = KeyScopes::parse(&set.scopes)?;
            output.print_one(&keys::set_scopes(database, actor, &set.prefix, &scopes).await?)
        }
        Command::Revoke(named) => output.print_one(&keys::revoke(database, actor, &named.prefix).await?),
        Command::RotateSecret(rotate) => {
            let (master_keys, prefix) = (context.master_keys()?, &rotate.named.prefix);
            let Context { database, actor, .. } = context;
            let rotated = keys::rotate_secret(database, actor, &master_keys, prefix, rotate.rotation.into()).await?;
            output.note("The secret is shown only once: store it now.");
            output.print_one(&rotated)
        }
        Command::EndOverlap(named) => output.print_one(&keys::end_overlap(database, actor, &named.prefix).await?),
        Command::List(of) => {
            let all = keys::list(&context.database, &of.slug, KeyFilter::default(), u32::MAX).await?;
            output.print_list(&all.items)
        }
    }
}

fn new_key(create: Create) -> Result<NewKey> {
    Ok(NewKey {
        name: Name::parse(&create.name)?,
        scopes: KeyScopes::parse(&create.scopes)?,
        origin: create.origin.as_deref().map(Origin::parse).transpose()?,
        expires_in: create.expires_in,
        tenant: create.tenant.slug,
    })
}

show!(CreatedKey, created: "Prefix" created.prefix, "Secret" created.secret, "Scopes" created.scopes);

show!(RotatedKey, rotated: "Prefix" rotated.prefix, "Secret" rotated.secret);

show!(Key, key: "Prefix" key.prefix, "Name" key.name, "Scopes" key.scopes, "Origin" key.origin, "Created at" key.created_at,
    "Expires at" key.expires_at, "Revoked at" key.revoked_at, "Last used at" key.last_used_at,
    "Safe to revoke" key.revoked_at.is_none().then(|| safety(key.safe_to_revoke)),
    "Old secret" key.secrets.iter().find(|secret| !secret.current).map(old_secret));

fn safety(is_safe: bool) -> String {
    if is_safe { "yes, no use for 7 days" } else { "no" }.to_owned()
}

fn old_secret(secret: &SecretUse) -> String {
    let until = secret.valid_until.as_deref().unwrap_or("-");
    let used = secret.last_used_at.as_deref().map_or_else(|| "not used".to_owned(), |at| format!("last used {at}"));
    format!("valid until {until}, {used}, safe to revoke: {}", safety(secret.safe_to_revoke))
}
