//! `connectctl key`: API keys. A secret is shown only once, when it is created (D5).

use crate::arguments::key::{Command, Create};
use crate::context::Context;
use crate::output::Show;
use admin::AdminError;
use admin::input::{KeyScopes, Name, Origin};
use admin::keys::{self, CreatedKey, Key, NewKey, RotatedKey, SecretUse};

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    match command {
        Command::Create(create) => {
            let (new, master_keys) = (new_key(create)?, context.master_keys()?);
            let created = keys::create(&mut context.database, &context.actor, &master_keys, &new).await?;
            output.note("The secret is shown only once: store it now.");
            output.print_one(&created)
        }
        Command::Scopes(set) => {
            let scopes = KeyScopes::parse(&set.scopes)?;
            output.print_one(
                &keys::set_scopes(&mut context.database, &context.actor, &set.prefix, &scopes).await?,
            )
        }
        Command::Revoke(named) => {
            output.print_one(&keys::revoke(&mut context.database, &context.actor, &named.prefix).await?)
        }
        Command::RotateSecret(rotate) => {
            let (master_keys, prefix) = (context.master_keys()?, &rotate.named.prefix);
            let Context { database, actor, .. } = context;
            let rotated = keys::rotate_secret(database, actor, &master_keys, prefix, rotate.overlap).await?;
            output.note("The secret is shown only once: store it now.");
            output.print_one(&rotated)
        }
        Command::EndOverlap(named) => {
            output.print_one(&keys::end_overlap(&mut context.database, &context.actor, &named.prefix).await?)
        }
        Command::List(of) => output.print_list(&keys::list(&context.database, &of.slug).await?),
    }
}

fn new_key(create: Create) -> Result<NewKey, AdminError> {
    Ok(NewKey {
        name: Name::parse(&create.name)?,
        scopes: KeyScopes::parse(&create.scopes)?,
        origin: create.origin.as_deref().map(Origin::parse).transpose()?,
        expires_in: create.expires_in,
        tenant: create.tenant.slug,
    })
}

impl Show for CreatedKey {
    const COLUMNS: &'static [&'static str] = &["Prefix", "Secret", "Scopes"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.prefix.clone()), Some(self.secret.clone()), Some(self.scopes.join(", "))]
    }
}

impl Show for RotatedKey {
    const COLUMNS: &'static [&'static str] = &["Prefix", "Secret"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.prefix.clone()), Some(self.secret.clone())]
    }
}

impl Show for Key {
    const COLUMNS: &'static [&'static str] = &[
        "Prefix",
        "Name",
        "Scopes",
        "Origin",
        "Created at",
        "Expires at",
        "Revoked at",
        "Last used at",
        "Safe to revoke",
        "Old secret",
    ];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.prefix.clone()),
            Some(self.name.clone()),
            Some(self.scopes.join(", ")),
            self.origin.clone(),
            Some(self.created_at.clone()),
            self.expires_at.clone(),
            self.revoked_at.clone(),
            self.last_used_at.clone(),
            self.revoked_at.is_none().then(|| safety(self.safe_to_revoke)),
            self.secrets.iter().find(|secret| !secret.current).map(old_secret),
        ]
    }
}

fn safety(is_safe: bool) -> String {
    if is_safe { "yes, no use for 7 days" } else { "no" }.to_owned()
}

fn old_secret(secret: &SecretUse) -> String {
    let until = secret.valid_until.as_deref().unwrap_or("-");
    let used =
        secret.last_used_at.as_deref().map_or_else(|| "not used".to_owned(), |at| format!("last used {at}"));
    format!("valid until {until}, {used}, safe to revoke: {}", safety(secret.safe_to_revoke))
}
