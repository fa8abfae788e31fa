//! `connectctl refusals`: why requests that named a key were refused.

use crate::arguments::{Limit, TenantArgs};
use crate::context::Context;
use crate::output::Show;
use admin::refusals::{self, RefusalFilter, RefusedRequest};
use clap::Args;
use common::clock;

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

impl Show for RefusedRequest {
    const COLUMNS: &'static [&'static str] =
        &["At", "Key", "Method", "Route", "Status", "Reason", "Detail", "Request"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.key_prefix.clone()),
            Some(self.method.clone()),
            Some(self.route.clone()),
            Some(self.status.to_string()),
            Some(self.reason.clone()),
            self.detail.clone(),
            Some(self.request_id.to_string()),
        ]
    }
}
