//! `connectctl company`: company accounts, which people on the company's mail domain join (D13).

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::input::{CompanyDomain, Name};
use admin::tenants::{self, CreatedCompany};
use clap::Subcommand;
use common::settings::MailboxSettings;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a company account; people whose email is on its domain join it from then on
    #[command(
        after_help = "Example:\n  connectctl company create --tenant acme --name 'Example Ltd' --domain example.com"
    )]
    Create {
        #[command(flatten)]
        tenant: TenantArgs,
        /// Name of the company
        #[arg(long)]
        name: String,
        /// Mail domain of the company; not that of a free mailbox provider
        #[arg(long)]
        domain: String,
    },
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    context.settings::<MailboxSettings>()?.apply();
    let Context { database, output, actor, .. } = context;
    let Command::Create { tenant, name, domain } = command;
    let (name, domain) = (Name::parse(&name)?, CompanyDomain::parse(&domain)?);
    output.print_one(&tenants::create_company(database, actor, &tenant.slug, &name, &domain).await?)
}

show!(CreatedCompany, created: "Client id" created.client_id);
