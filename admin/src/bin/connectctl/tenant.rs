//! `connectctl tenant`: tenants and their settings.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::Result;
use admin::input::{AttentionEmail, EnquiryPrefix, MonthlyQuota, Name, TenantSlug};
use admin::tenants::{self, CreatedTenant, NewTenant, Tenant, TenantChanges};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a tenant with its settings
    #[command(after_help = "Example:\n  connectctl tenant create --slug acme --name 'Acme Travel' --discovery")]
    Create(Create),
    /// Change the settings of a tenant
    #[command(
        after_help = "Example:\n  connectctl tenant set --tenant acme --monthly-quota none --reads-per-second 50"
    )]
    Set(Set),
    /// List the tenants with their settings
    #[command(after_help = "Example:\n  connectctl tenant list --json")]
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What callers send as X-Connect-Tenant: lower-case letters, digits and hyphens
    #[arg(long)]
    pub(crate) slug: String,
    /// Full name of the tenant
    #[arg(long)]
    pub(crate) name: String,
    /// First part of the enquiry numbers: upper-case letters and digits
    #[arg(long, value_name = "PREFIX", default_value = "ENQ")]
    pub(crate) enquiry_prefix: String,
    /// Turn Traveller Discovery on
    #[arg(long)]
    pub(crate) discovery: bool,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N", default_value = "none", allow_negative_numbers = true)]
    pub(crate) monthly_quota: MonthlyQuota,
    /// Records reads allowed per second and key, in each ingest
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) reads_per_second: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Changes {
    /// Turn Traveller Discovery on or off
    #[arg(long, value_name = "true|false")]
    pub(crate) discovery: Option<bool>,
    /// Records writes allowed in a calendar month (UTC), or none for no limit
    #[arg(long, value_name = "N|none", allow_negative_numbers = true)]
    pub(crate) monthly_quota: Option<MonthlyQuota>,
    /// Records reads allowed per second and key, in each ingest
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) reads_per_second: Option<i32>,
    /// Who gets mails about what needs the agency's attention, if the console has a mail server
    #[arg(long, value_name = "EMAIL|none")]
    pub(crate) attention_email: Option<AttentionEmail>,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Create(create) => output.print_one(&tenants::create(database, actor, &new_tenant(&create)?).await?),
        Command::Set(set) => {
            let Changes { discovery, monthly_quota, reads_per_second, attention_email } = set.changes;
            let changes = TenantChanges { discovery, monthly_quota, reads_per_second, attention_email };
            output.print_one(&tenants::change(database, actor, &set.tenant.slug, &changes).await?)
        }
        Command::List => output.print_list(&tenants::list(database).await?),
    }
}

fn new_tenant(create: &Create) -> Result<NewTenant> {
    Ok(NewTenant {
        slug: TenantSlug::parse(&create.slug)?,
        name: Name::parse(&create.name)?,
        enquiry_prefix: EnquiryPrefix::parse(&create.enquiry_prefix)?,
        discovery: create.discovery,
        monthly_quota: create.monthly_quota,
        reads_per_second: create.reads_per_second,
    })
}

show!(Tenant, tenant: "Slug" tenant.slug, "Name" tenant.name, "Enquiry prefix" tenant.enquiry_prefix,
    "Discovery" if tenant.discovery { "on" } else { "off" }, "Monthly quota" tenant.monthly_quota,
    "Reads/s" tenant.reads_per_second, "Mails to" tenant.attention_email, "Created at" tenant.created_at, "Id" tenant.id);

show!(CreatedTenant, created: "Slug" created.slug, "Id" created.id);
