//! `connectctl refusals`: why requests that named a key were refused.

use crate::arguments::{Limit, TenantArgs};
use crate::context::Context;
use crate::output::show;
use admin::refusals::{self, RefusalFilter, RefusedRequest};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RefusalsArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Prefix of a key: only requests that named it
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

pub(crate) async fn run(args: RefusalsArgs, context: &Context) -> anyhow::Result<()> {
    let RefusalsArgs { tenant, key, limit } = args;
    let limit = context.output.limit(&limit);
    let filter = RefusalFilter { tenant: tenant.slug, key, before: None };
    let refused = refusals::list(&context.database, &filter, limit).await?;
    if refused.items.is_empty() {
        context.output.note("There is no refused request. One appears about a second after it was refused.");
    }
    context.output.print_newest(&refused, limit)
}

show!(RefusedRequest, refused: "At" refused.at, "Key" refused.key_prefix, "Method" refused.method, "Route" refused.route,
    "Status" refused.status, "Reason" refused.reason, "Detail" refused.detail, "Request" refused.request_id);
