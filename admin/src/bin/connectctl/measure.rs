//! `connectctl usage` and `connectctl pressure`: how much a tenant writes, and whose requests are refused.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::Show;
use admin::tenants::{self, Pressure, Usage};
use clap::Args;
use common::clock;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl pressure")]
pub(crate) struct PressureArgs;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl usage --tenant acme")]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
}

pub(crate) async fn usage(args: UsageArgs, context: &Context) -> anyhow::Result<()> {
    context.output.print_one(&tenants::usage_of_this_month(&context.database, &args.tenant.slug).await?)
}

pub(crate) async fn pressure(PressureArgs: PressureArgs, context: &Context) -> anyhow::Result<()> {
    context.output.print_list(&tenants::pressures(&context.database).await?)
}

impl Show for Usage {
    const COLUMNS: &'static [&'static str] = &["Month", "Writes", "Quota"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.month.clone()),
            Some(self.writes.to_string()),
            self.quota.map(|quota| quota.to_string()),
        ]
    }
}

impl Show for Pressure {
    const COLUMNS: &'static [&'static str] = &["Tenant", "Queue", "Waiting", "Refused", "Reported at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.tenant.clone()),
            Some(self.queue.clone()),
            Some(self.waiting.to_string()),
            Some(self.refused.to_string()),
            Some(clock::to_text(self.reported_at)),
        ]
    }
}
