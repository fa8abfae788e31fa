//! `connectctl usage` and `connectctl pressure`: how much a tenant writes, and whose requests are refused.

use crate::arguments::TenantArgs;
use crate::context::Context;
use crate::output::show;
use admin::tenants::{self, Pressure, Usage};
use clap::Args;

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

show!(Usage, usage: "Month" usage.month, "Writes" usage.writes, "Quota" usage.quota);

show!(Pressure, pressure: "Tenant" pressure.tenant, "Queue" pressure.queue, "Waiting" pressure.waiting,
    "Refused" pressure.refused, "Reported at" pressure.reported_at);
