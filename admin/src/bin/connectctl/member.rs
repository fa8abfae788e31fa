//! `connectctl member`: the advisors of a tenant.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::input::{MemberEmail, Name};
use admin::tenants::{self, Member};
use clap::Subcommand;
use common::settings::TenantBounds;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a member, or restore a removed one; changes the name of an existing one
    #[command(
        after_help = "Example:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'"
    )]
    Add {
        #[command(flatten)]
        tenant: TenantArgs,
        /// Email of the member, in any case
        #[arg(long)]
        email: String,
        /// Full name of the member
        #[arg(long)]
        name: String,
    },
    /// Remove a member: no new lead is routed to them; they keep the leads that they own
    #[command(after_help = "Example:\n  connectctl member remove --tenant acme --email ada@acme.example")]
    Remove {
        #[command(flatten)]
        tenant: TenantArgs,
        /// Email of the member, in any case
        #[arg(long)]
        email: String,
    },
    /// List the members, removed ones included, by their emails
    #[command(after_help = "Example:\n  connectctl member list --tenant acme")]
    List(TenantArgs),
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let bound = context.settings::<TenantBounds>()?.members;
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Add { tenant, email, name } => {
            let (email, name) = (MemberEmail::parse(&email)?, Name::of_person(&name)?);
            let tenant = (tenant.slug.as_str(), bound);
            output.print_one(&tenants::add_member(database, actor, tenant, &email, &name).await?)
        }
        Command::Remove { tenant, email } => {
            let email = MemberEmail::parse(&email)?;
            output.print_one(&tenants::remove_member(database, actor, &tenant.slug, &email).await?)
        }
        Command::List(of) => output.print_list(&tenants::list_members(database, &of.slug, "", u32::MAX).await?),
    }
}

show!(Member, member: "Email" member.email, "Name" member.name, "Active" member.active);
