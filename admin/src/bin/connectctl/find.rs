//! `connectctl find`: everything known of an id.

use crate::context::Context;
use crate::output::show;
use admin::find::{FindQuery, FoundStep, find};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Id of an event, request, trace, client, lead, booking or delivery, an enquiry number, a caller's own id of an enquiry, or an email
    pub(crate) id: String,
    /// Slug of the tenant; all tenants when not given
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) tenant: Option<String>,
}

pub(crate) async fn run(args: FindArgs, context: &Context) -> anyhow::Result<()> {
    let query = FindQuery { tenant: args.tenant.as_deref(), id: &args.id, with_emails: true };
    let steps = find(&context.database, &query).await?;
    if steps.is_empty() {
        context.output.note("Nothing is known of this id. Events that failed, were duplicates or are still in the queue are not kept. Of a key at most 20 refused requests a minute are kept, 10 of them with the same reason, and none with 404, 409, 412 or 413.");
    }
    context.output.print_list(&steps)
}

show!(FoundStep, step: "At" step.at, "Stage" step.stage, "Detail" step.detail, "Tenant" step.tenant, "Event" step.event_id,
    "Request" step.request_id, "Client" step.client_id, "Lead" step.lead_id, "Subscription" step.subscription_id,
    "Delivery" step.delivery_id);
