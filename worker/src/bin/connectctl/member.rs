//! `connectctl member`: advisors of an agency.

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use crate::{lookup, text};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use common::clock;
use serde::Serialize;
use tokio_postgres::Row;

const ADD: &str = "-- members.add
INSERT INTO members (tenant_id, email, name, active, created_at) VALUES ($1, $2, $3, true, $4)
ON CONFLICT (tenant_id, email) DO UPDATE SET name = excluded.name, active = true
RETURNING email, name, active";

const REMOVE: &str = "-- members.remove
UPDATE members SET active = false WHERE tenant_id = $1 AND email = $2 RETURNING email, name, active";

const LIST: &str = "-- members.list
SELECT email, name, active FROM members WHERE tenant_id = $1 ORDER BY created_at, email";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a member, or bring back a removed one; changes the name of one that exists
    #[command(
        after_help = "Example:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'"
    )]
    Add(Add),
    /// Remove a member: no new enquiry is routed to them, those they own stay theirs
    #[command(after_help = "Example:\n  connectctl member remove --tenant acme --email ada@acme.example")]
    Remove(Remove),
    /// List the members, removed ones included
    #[command(after_help = "Example:\n  connectctl member list --tenant acme")]
    List(OfTenant),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    tenant: OfTenant,
    /// Email; upper and lower case are the same
    #[arg(long)]
    email: String,
    /// Full name
    #[arg(long)]
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    tenant: OfTenant,
    /// Email; upper and lower case are the same
    #[arg(long)]
    email: String,
}

#[derive(Serialize)]
struct Member {
    email: String,
    name: String,
    active: bool,
}

impl FromRow for Member {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self { email: row.try_get("email")?, name: row.try_get("name")?, active: row.try_get("active")? })
    }
}

impl Show for Member {
    const COLUMNS: &'static [&'static str] = &["Email", "Name", "Active"];

    fn cells(&self) -> Vec<Option<String>> {
        let active = if self.active { "yes" } else { "no" };
        vec![Some(self.email.clone()), Some(self.name.clone()), Some(active.to_owned())]
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> anyhow::Result<()> {
    match command {
        Command::Add(new) => context.output.one(&add(&new, context).await?),
        Command::Remove(named) => context.output.one(&remove(&named, context).await?),
        Command::List(of) => {
            let tenant = lookup::tenant(context, &of).await?;
            context.output.many(&rows::all::<Member>(context, LIST, &[&tenant.0]).await?)
        }
    }
}

async fn add(new: &Add, context: &Context) -> anyhow::Result<Member> {
    let (email, name) = (text::email(&new.email)?, text::name(&new.name)?);
    let tenant = lookup::tenant(context, &new.tenant).await?;
    let added = rows::one(context, ADD, &[&tenant.0, &email, &name, &clock::now()]).await?;
    added.context("the database did not answer with the member")
}

async fn remove(named: &Remove, context: &Context) -> anyhow::Result<Member> {
    let email = text::email(&named.email)?;
    let tenant = lookup::tenant(context, &named.tenant).await?;
    let removed = rows::one(context, REMOVE, &[&tenant.0, &email]).await?;
    removed.ok_or_else(|| anyhow!("no member {email:?} in tenant {:?}", named.tenant.slug))
}
