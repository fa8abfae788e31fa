//! `connectctl advisor`: publishes advisor actions as the CRM does (operator's contract: Advisor actions).

use crate::context::Context;
use crate::output::show;
use admin::{Result, advisor};
use clap::{Args, Subcommand};
use common::advisor::ActionReply;
use common::broker::{Broker, MessageKeys, Queue, QueueUse, Rpc};
use common::settings::{BrokerSettings, SettingValue};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How an action is published.
#[derive(Debug, Args)]
pub(crate) struct PublishOptions {
    /// How long to wait for the reply
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = Duration::parse_setting)]
    timeout: Duration,
    /// Id of the message, a UUID; an action is applied once for each id. Repeat a command that got no reply with the
    /// same id [default: a new one]
    #[arg(long, global = true, value_name = "ID")]
    message_id: Option<Uuid>,
}

#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(flatten)]
    options: PublishOptions,
    #[command(subcommand)]
    action: Action,
}

/// An action. Serialized, it is the message's body.
#[derive(Debug, Subcommand, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub(crate) enum Action {
    /// Open a lead for a client
    #[command(after_help = "Examples:
  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana --no-trip
  connectctl advisor open-lead --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    OpenLead(OpenLead),
    /// Assign a lead to a member, who is notified
    Assign(Assign),
    /// Move a lead to a stage
    Stage(Stage),
    /// Move a lead to the stage archived
    Archive(LeadArgs),
    /// Move a lead to the stage travelled
    Travelled(LeadArgs),
    /// Mark the proposal of a lead's trip as sent, for the first time or again
    ProposalSend(ProposalSend),
    /// Mark the sent proposal as viewed by the traveler
    ProposalView(LeadArgs),
    /// Discard the proposal of a lead's trip
    ProposalDiscard(LeadArgs),
    /// Confirm a booking of a lead
    #[command(after_help = "Example:
  connectctl advisor booking-confirm --tenant acme --booking-ref BR-1 --amount 125000.50 \\
      --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --currency INR --credit-used 5000")]
    BookingConfirm(BookingConfirm),
    /// Cancel a booking, whether an event or an advisor confirmed it
    BookingCancel(BookingCancel),
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct LeadArgs {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// Id of the lead
    #[arg(long, value_name = "ID")]
    lead: String,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenLead {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// Id of an existing client
    #[arg(long, value_name = "ID", required_unless_present = "email", conflicts_with_all = ["email", "name"])]
    client: Option<String>,
    /// Email of the client, who is matched by it or created
    #[arg(long)]
    email: Option<String>,
    /// Full name of the client
    #[arg(long, requires = "email")]
    name: Option<String>,
    /// Do not open a trip workspace
    #[arg(long)]
    no_trip: bool,
    /// Title of the lead
    #[arg(long)]
    title: Option<String>,
    /// Destination of the trip
    #[arg(long)]
    destination: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Assign {
    #[command(flatten)]
    #[serde(flatten)]
    of: LeadArgs,
    /// Email of an active member
    #[arg(long, value_name = "EMAIL")]
    owner: String,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Stage {
    #[command(flatten)]
    #[serde(flatten)]
    of: LeadArgs,
    /// The stage, such as follow_up
    #[arg(long)]
    stage: String,
    /// Reason for the move; required for lost
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct ProposalSend {
    #[command(flatten)]
    #[serde(flatten)]
    of: LeadArgs,
    /// Title of the proposal
    #[arg(long)]
    title: String,
    /// URL at which the traveler opens it
    #[arg(long)]
    url: String,
    /// Channel by which it is sent, such as email
    #[arg(long)]
    channel: String,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BookingConfirm {
    #[command(flatten)]
    #[serde(flatten)]
    of: LeadArgs,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    booking_ref: String,
    /// Booking amount in major units, such as 1234.50
    #[arg(long, value_name = "DECIMAL", requires = "currency")]
    amount: Option<String>,
    /// ISO 4217 code of the amount
    #[arg(long, value_name = "CODE", requires = "amount")]
    currency: Option<String>,
    /// Corporate credit to count as paid, in major units
    #[arg(long, value_name = "DECIMAL")]
    credit_used: Option<String>,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BookingCancel {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    booking_ref: String,
    /// Reason for the cancellation
    #[arg(long)]
    reason: Option<String>,
}

/// Maximum time for closing the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const QUEUES: QueueUse = QueueUse { publishes: &[Queue::Crm], consumes: &[], notices: &[] };

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let Command { options, action } = command;
    let id = options.message_id.unwrap_or_else(Uuid::now_v7);
    let reply = publish(context, id, &body(&action)?, options.timeout).await?;
    context.output.print_one(&reply)
}

/// Connects, publishes the action, and returns the worker's reply.
async fn publish(
    context: &mut Context, id: Uuid, action: &Value, reply_timeout: Duration,
) -> anyhow::Result<ActionReply> {
    let (settings, master_keys) = (context.settings::<BrokerSettings>()?, context.master_keys()?);
    let keys = MessageKeys::new(&master_keys, &settings.prefix);
    let shutdown = CancellationToken::new();
    let broker = Broker::start(&settings, keys, "connectctl", QUEUES, shutdown.clone());
    let rpc = Rpc::start(&broker, Queue::Crm, shutdown.clone());
    let Context { database, actor, .. } = context;
    let reply: Result<ActionReply> = advisor::publish(database, actor, &rpc, id, action, reply_timeout).await;
    shutdown.cancel();
    // A connection that is cut would do no harm, but the broker would log a warning.
    drop(timeout(CLOSE_TIMEOUT, broker.closed()).await);
    Ok(reply?)
}

/// The message's body, without omitted options.
fn body(action: &Action) -> anyhow::Result<Value> {
    let mut body = serde_json::to_value(action)?;
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(body)
}

show!(ActionReply, reply: "Lead" reply.lead_id, "Stage" reply.stage, "Client" reply.client_id, "Trip" reply.trip_id,
    "Proposal" reply.proposal_id, "Booking" reply.booking_ref);
