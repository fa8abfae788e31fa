//! `connectctl find`: everything known of an id.

use crate::context::Context;
use crate::output::Show;
use admin::find::{FindQuery, FoundStep, find};
use clap::Args;
use common::clock;

#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Id of an event, request, trace, client, lead, booking or delivery, an enquiry number, or an email
    pub(crate) id: String,
    /// Slug of the tenant; all tenants when not given
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) tenant: Option<String>,
}

pub(crate) async fn run(args: FindArgs, context: &Context) -> anyhow::Result<()> {
    let query = FindQuery { tenant: args.tenant.as_deref(), id: &args.id, with_emails: true };
    let steps = find(&context.database, &query).await?;
    if steps.is_empty() {
        context.output.note("Nothing is known of this id. An event of a refused request, or one that is still in the queue, is not known; a refused request is found by its own id.");
    }
    context.output.print_list(&steps)
}

impl Show for FoundStep {
    const COLUMNS: &'static [&'static str] =
        &["At", "Stage", "Detail", "Tenant", "Event", "Request", "Client", "Lead", "Delivery"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.stage.to_owned()),
            Some(self.detail.clone()),
            Some(self.tenant.clone()),
            self.event_id.clone(),
            self.request_id.map(|id| id.to_string()),
            self.client_id.map(|id| id.to_string()),
            self.lead_id.map(|id| id.to_string()),
            self.delivery_id.map(|id| id.to_string()),
        ]
    }
}
