//! The CRM's views of a tenant: `timeline`, `inbox`, `notifications`, `discovery`, `invoice` and `pipeline`; `usage` and `pressure`,
//! how much a tenant writes, and whose requests are refused; and `refusals`, why requests that named a key were refused.

use crate::arguments::{ClientArgs, LeadArgs, Limit, TenantArgs, one_of};
use crate::context::Context;
use crate::output::show;
use admin::refusals::{self, RefusalFilter, RefusedRequest};
use admin::tenants::{self, Pressure, Usage};
use admin::views::{self, Discovery, InboxMessage, Invoice, Notification, PipelineFilter, PipelineLead, TimelineEntry};
use clap::Args;
use clap::builder::TypedValueParser;
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
#[command(after_help = "Example:\n  connectctl pipeline --tenant acme --stage inquiry --campaign spring-2026")]
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

show!(TimelineEntry, entry: "Occurred at" entry.occurred_at, "Event" entry.event_type, "Origin" entry.origin,
    "Event id" entry.event_id, "Payload" entry.payload);

show!(InboxMessage, message: "At" message.at, "Kind" message.kind, "Text" message.text, "Changes" message.changes);

show!(Notification, notification: "At" notification.at, "To" notification.to, "Kind" notification.kind,
    "Lead" notification.lead_id, "Text" notification.text);

show!(Discovery, record: "Discovery id" record.discovery_id, "Discovery" record.discovery, "Profile" record.profile,
    "Essence" record.essence);

show!(Invoice, invoice: "Booking" invoice.booking_ref, "Amount" invoice.amount, "Currency" invoice.currency,
    "Credit used" invoice.credit_used, "Credit applied" invoice.credit_applied, "Credit" invoice.credit_state,
    "Balance due" invoice.balance_due);

show!(PipelineLead, row: "Enquiry number" row.lead.enquiry_number, "Title" row.lead.title, "Stage" row.lead.stage,
    "Follow up" row.lead.follow_up.then_some("yes"), "Owner" row.lead.owner.as_ref().map(|owner| owner.name.as_str()),
    "Campaign" row.attribution.as_deref().and_then(campaign),
    "Credit (paise)" row.credit.as_ref().and_then(|credit| credit.available_paise), "Updated at" row.lead.updated_at,
    "Lead id" row.lead.id);

fn campaign(attribution: &RawValue) -> Option<String> {
    let block: serde_json::Value = serde_json::from_str(attribution.get()).ok()?;
    Some(block.get("campaign")?.as_str()?.to_owned())
}

pub(crate) async fn usage(of: TenantArgs, context: &Context) -> anyhow::Result<()> {
    context.output.print_one(&tenants::usage_of_this_month(&context.database, &of.slug).await?)
}

pub(crate) async fn pressure(context: &Context) -> anyhow::Result<()> {
    context.output.print_list(&tenants::pressures(&context.database).await?)
}

show!(Usage, usage: "Month" usage.month, "Writes" usage.writes, "Quota" usage.quota);

show!(Pressure, pressure: "Tenant" pressure.tenant, "Queue" pressure.queue, "Waiting" pressure.waiting,
    "Refused" pressure.refused, "Reported at" pressure.reported_at);

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

pub(crate) async fn refusals(args: RefusalsArgs, context: &Context) -> anyhow::Result<()> {
    let RefusalsArgs { tenant, key, limit } = args;
    let limit = context.output.limit(&limit);
    let filter = RefusalFilter { tenant: tenant.slug, key, before: None };
    let refused = refusals::list(&context.database, &filter, limit).await?;
    if refused.items.is_empty() {
        context.output.note("There is no refused request. One appears about two seconds after it was refused.");
    }
    context.output.print_newest(&refused, limit)
}

show!(RefusedRequest, refused: "At" refused.at, "Key" refused.key_prefix, "Method" refused.method, "Route" refused.route,
    "Status" refused.status, "Reason" refused.reason, "Detail" refused.detail, "Request" refused.request_id);
