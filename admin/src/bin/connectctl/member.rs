//! `connectctl member`: the advisors of a tenant.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::input::{MemberEmail, Name};
use admin::tenants::{self, Member};
use clap::{Args, Subcommand};
use common::settings::TenantBounds;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a member, or restore a removed one; changes the name of an existing one
    #[command(
        after_help = "Example:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'"
    )]
    Add(Add),
    /// Remove a member: no new lead is routed to them; they keep the leads that they own
    #[command(after_help = "Example:\n  connectctl member remove --tenant acme --email ada@acme.example")]
    Remove(Remove),
    /// List the members, removed ones included, by their emails
    #[command(after_help = "Example:\n  connectctl member list --tenant acme")]
    List(TenantArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Email of the member, in any case
    #[arg(long)]
    pub(crate) email: String,
    /// Full name of the member
    #[arg(long)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Email of the member, in any case
    #[arg(long)]
    pub(crate) email: String,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let bound = context.settings::<TenantBounds>()?.members;
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Add(add) => {
            let (email, name) = (MemberEmail::parse(&add.email)?, Name::of_person(&add.name)?);
            let tenant = (add.tenant.slug.as_str(), bound);
            output.print_one(&tenants::add_member(database, actor, tenant, &email, &name).await?)
        }
        Command::Remove(remove) => {
            let email = MemberEmail::parse(&remove.email)?;
            output.print_one(&tenants::remove_member(database, actor, &remove.tenant.slug, &email).await?)
        }
        Command::List(of) => {
            output.print_list(&tenants::list_members(database, &of.slug, "", u32::MAX).await?)
        }
    }
}

show!(Member, member: "Email" member.email, "Name" member.name, "Active" member.active);
