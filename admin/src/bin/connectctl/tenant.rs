//! `connectctl tenant`: tenants and their settings.

use crate::arguments::tenant::{Changes, Command, Create};
use crate::context::Context;
use crate::output::Show;
use admin::AdminError;
use admin::input::{EnquiryPrefix, Name, TenantSlug};
use admin::tenants::{self, CreatedTenant, NewTenant, Tenant, TenantChanges};
use common::clock;

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Create(create) => {
            output.print_one(&tenants::create(database, actor, &new_tenant(&create)?).await?)
        }
        Command::Set(set) => {
            let Changes { discovery, monthly_quota, reads_per_second } = set.changes;
            let changes = TenantChanges { discovery, monthly_quota, reads_per_second };
            output.print_one(&tenants::change(database, actor, &set.tenant.slug, &changes).await?)
        }
        Command::List => output.print_list(&tenants::list(database).await?),
    }
}

fn new_tenant(create: &Create) -> Result<NewTenant, AdminError> {
    Ok(NewTenant {
        slug: TenantSlug::parse(&create.slug)?,
        name: Name::parse(&create.name)?,
        enquiry_prefix: EnquiryPrefix::parse(&create.enquiry_prefix)?,
        discovery: create.discovery,
        monthly_quota: create.monthly_quota,
        reads_per_second: create.reads_per_second,
    })
}

impl Show for Tenant {
    const COLUMNS: &'static [&'static str] =
        &["Slug", "Name", "Enquiry prefix", "Discovery", "Monthly quota", "Reads/s", "Created at", "Id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.slug.clone()),
            Some(self.name.clone()),
            Some(self.enquiry_prefix.clone()),
            Some(if self.discovery { "on" } else { "off" }.to_owned()),
            self.monthly_quota.map(|quota| quota.to_string()),
            Some(self.reads_per_second.to_string()),
            Some(clock::to_text(self.created_at)),
            Some(self.id.to_string()),
        ]
    }
}

impl Show for CreatedTenant {
    const COLUMNS: &'static [&'static str] = &["Slug", "Id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.slug.clone()), Some(self.id.to_string())]
    }
}
