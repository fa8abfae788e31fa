//! `connectctl company`: company accounts, which people on the company's mail domain join (D13).

use crate::arguments::OfTenant;
use crate::context::Context;
use crate::output::Show;
use crate::{fault, lookup, text};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use common::clock;
use common::model::ClientId;
use serde::Serialize;
use uuid::Uuid;

const CREATE: &str = "-- clients.create_company
INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
VALUES ($1, $2, $3, 'company', $4, $5, $5)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a company account; people on its domain join it from then on
    #[command(
        after_help = "Example:\n  connectctl company create --tenant acme --name 'Example Ltd' --domain example.com"
    )]
    Create(Create),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    tenant: OfTenant,
    /// Name of the company
    #[arg(long)]
    name: String,
    /// Mail domain of the company; not a free mailbox provider's
    #[arg(long)]
    domain: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    client_id: ClientId,
}

impl Show for Created {
    const COLUMNS: &'static [&'static str] = &["Client id"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.client_id.to_string())]
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> anyhow::Result<()> {
    match command {
        Command::Create(new) => context.output.one(&create(&new, context).await?),
    }
}

async fn create(new: &Create, context: &Context) -> anyhow::Result<Created> {
    let (name, domain) = (text::name(&new.name)?, text::company_domain(&new.domain)?);
    let tenant = lookup::tenant(context, &new.tenant).await?;
    let client_id = ClientId(Uuid::now_v7());
    let created =
        context.database.execute(CREATE, &[&tenant.0, &client_id.0, &name, &domain, &clock::now()]).await;
    created.map_err(|error| {
        if fault::violates(&error, "clients_tenant_company_domain_key") {
            anyhow!("a company account with the domain {domain:?} exists")
        } else {
            error.into()
        }
    })?;
    Ok(Created { client_id })
}
