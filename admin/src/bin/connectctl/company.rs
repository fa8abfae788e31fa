//! `connectctl company`: company accounts, which people on the company's mail domain join (D13).

use crate::arguments::company::Command;
use crate::context::Context;
use crate::output::Show;
use admin::companies::{self, CreatedCompany};
use admin::input::{CompanyDomain, Name};
use common::settings::MailboxSettings;

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    context.settings::<MailboxSettings>()?.apply();
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Create(create) => {
            let (name, domain) = (Name::parse(&create.name)?, CompanyDomain::parse(&create.domain)?);
            output.print_one(&companies::create(database, actor, &create.tenant.slug, &name, &domain).await?)
        }
    }
}

impl Show for CreatedCompany {
    const COLUMNS: &'static [&'static str] = &["Client id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.client_id.to_string())]
    }
}
