//! The CRM's views of a tenant: `timeline`, `inbox`, `notifications`, `discovery`, `invoice` and `pipeline`.

use crate::arguments::{ClientArgs, LeadArgs, Limit, TenantArgs, one_of};
use crate::context::Context;
use crate::output::Show;
use admin::views::{
    self, Discovery, InboxMessage, Invoice, Notification, PipelineFilter, PipelineLead, TimelineEntry,
};
use clap::Args;
use clap::builder::TypedValueParser;
use common::clock;
use common::model::Stage;
use serde_json::value::RawValue;

#[derive(Debug, Args)]
pub(crate) struct ClientViewArgs {
    #[command(flatten)]
    pub(crate) of: ClientArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
pub(crate) struct LeadViewArgs {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl notifications --tenant acme --limit 20")]
pub(crate) struct NotificationsArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl pipeline --tenant acme --stage inquiry --campaign spring-2026"
)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Show only leads at this stage
    #[arg(long, value_parser = stages())]
    pub(crate) stage: Option<Stage>,
    /// Show only leads of this marketing campaign
    #[arg(long)]
    pub(crate) campaign: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    one_of(Stage::ALL.map(|stage| (stage.as_str(), "")), Stage::parse)
}

pub(crate) async fn timeline(args: ClientViewArgs, context: &Context) -> anyhow::Result<()> {
    let (tenant, limit) = (&args.of.tenant.slug, context.output.limit(&args.limit));
    let entries = views::timeline(&context.database, tenant, &args.of.client, limit).await?;
    context.output.print_newest(&entries, limit)
}

pub(crate) async fn inbox(args: LeadViewArgs, context: &Context) -> anyhow::Result<()> {
    let (tenant, limit) = (&args.of.tenant.slug, context.output.limit(&args.limit));
    let messages = views::inbox(&context.database, tenant, &args.of.lead, limit).await?;
    context.output.print_newest(&messages, limit)
}

pub(crate) async fn notifications(args: NotificationsArgs, context: &Context) -> anyhow::Result<()> {
    let limit = context.output.limit(&args.limit);
    let notifications = views::notifications(&context.database, &args.tenant.slug, limit).await?;
    context.output.print_newest(&notifications, limit)
}

pub(crate) async fn discovery(args: ClientViewArgs, context: &Context) -> anyhow::Result<()> {
    let (tenant, limit) = (&args.of.tenant.slug, context.output.limit(&args.limit));
    let records = views::discoveries(&context.database, tenant, &args.of.client, limit).await?;
    context.output.print_newest(&records, limit)
}

pub(crate) async fn invoice(args: LeadViewArgs, context: &Context) -> anyhow::Result<()> {
    let (tenant, limit) = (&args.of.tenant.slug, context.output.limit(&args.limit));
    let invoices = views::invoices(&context.database, tenant, &args.of.lead, limit).await?;
    context.output.print_newest(&invoices, limit)
}

pub(crate) async fn pipeline(args: PipelineArgs, context: &Context) -> anyhow::Result<()> {
    let PipelineArgs { tenant, stage, campaign, limit } = args;
    let limit = context.output.limit(&limit);
    let filter = PipelineFilter { stage, campaign };
    let leads = views::pipeline(&context.database, &tenant.slug, &filter, limit).await?;
    context.output.print_newest(&leads, limit)
}

/// The text of stored JSON, for a table.
fn raw_cell(value: Option<&RawValue>) -> Option<String> {
    value.map(|value| value.get().to_owned())
}

impl Show for TimelineEntry {
    const COLUMNS: &'static [&'static str] = &["Occurred at", "Event", "Origin", "Event id", "Payload"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.occurred_at)),
            Some(self.event_type.clone()),
            Some(self.origin.clone()),
            Some(self.event_id.clone()),
            raw_cell(self.payload.as_deref()),
        ]
    }
}

impl Show for InboxMessage {
    const COLUMNS: &'static [&'static str] = &["At", "Kind", "Text", "Changes"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.kind.clone()),
            self.text.clone(),
            raw_cell(self.changes.as_deref()),
        ]
    }
}

impl Show for Notification {
    const COLUMNS: &'static [&'static str] = &["At", "To", "Kind", "Lead", "Text"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            Some(self.to.clone()),
            Some(self.kind.clone()),
            self.lead_id.map(|lead| lead.to_string()),
            Some(self.text.clone()),
        ]
    }
}

impl Show for Discovery {
    const COLUMNS: &'static [&'static str] = &["Discovery id", "Discovery", "Profile", "Essence"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.discovery_id.to_string()),
            raw_cell(self.discovery.as_deref()),
            raw_cell(self.profile.as_deref()),
            self.essence.clone(),
        ]
    }
}

impl Show for Invoice {
    const COLUMNS: &'static [&'static str] =
        &["Booking", "Amount", "Currency", "Credit used", "Credit applied", "Credit", "Balance due"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.booking_ref.clone()),
            raw_cell(self.amount.as_deref()),
            self.currency.clone(),
            raw_cell(self.credit_used.as_deref()),
            raw_cell(self.credit_applied.as_deref()),
            Some(self.credit_state.clone()),
            raw_cell(self.balance_due.as_deref()),
        ]
    }
}

impl Show for PipelineLead {
    const COLUMNS: &'static [&'static str] = &[
        "Enquiry number",
        "Title",
        "Stage",
        "Follow up",
        "Owner",
        "Campaign",
        "Credit (paise)",
        "Updated at",
        "Lead id",
    ];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.lead.enquiry_number.clone()),
            Some(self.lead.title.clone()),
            Some(self.lead.stage.to_string()),
            self.lead.follow_up.then(|| "yes".to_owned()),
            self.lead.owner.as_ref().map(|owner| owner.name.clone()),
            self.attribution.as_deref().and_then(campaign),
            self.credit.as_ref().and_then(|credit| credit.available_paise).map(|paise| paise.to_string()),
            Some(clock::to_text(self.lead.updated_at)),
            Some(self.lead.id.to_string()),
        ]
    }
}

fn campaign(attribution: &RawValue) -> Option<String> {
    let block: serde_json::Value = serde_json::from_str(attribution.get()).ok()?;
    Some(block.get("campaign")?.as_str()?.to_owned())
}
