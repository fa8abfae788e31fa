//! Arguments of `connectctl advisor`. The options of an action are its fields, in kebab case.

use clap::{Args, Subcommand};
use common::settings::SettingValue;
use std::time::Duration;
use uuid::Uuid;

/// How an action is published.
#[derive(Debug, Args)]
pub(crate) struct PublishOptions {
    /// How long to wait for the reply
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = Duration::parse_setting)]
    pub(crate) timeout: Duration,
    /// Id of the message, a UUID; an action is applied once for each id. Repeat a command that got no reply with the
    /// same id [default: a new one]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) message_id: Option<Uuid>,
}

#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(flatten)]
    pub(crate) options: PublishOptions,
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Open a lead for a client
    #[command(after_help = "Examples:
  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana
  connectctl advisor open-lead --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --no-trip")]
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
  connectctl advisor booking-confirm --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e \\
      --booking-ref BR-1 --amount 125000.50 --currency INR --credit-used 5000")]
    BookingConfirm(BookingConfirm),
    /// Cancel a booking, whether an event or an advisor confirmed it
    BookingCancel(BookingCancel),
}

#[derive(Debug, Args)]
pub(crate) struct LeadArgs {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    pub(crate) tenant: String,
    /// Id of the lead
    #[arg(long, value_name = "ID")]
    pub(crate) lead: String,
}

#[derive(Debug, Args)]
pub(crate) struct OpenLead {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    pub(crate) tenant: String,
    /// Id of an existing client
    #[arg(long, value_name = "ID", required_unless_present = "email", conflicts_with_all = ["email", "name"])]
    pub(crate) client: Option<String>,
    /// Email of the client, who is matched by it or created
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Full name of the client
    #[arg(long, requires = "email")]
    pub(crate) name: Option<String>,
    /// Do not open a trip workspace
    #[arg(long)]
    pub(crate) no_trip: bool,
    /// Title of the lead
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Destination of the trip
    #[arg(long)]
    pub(crate) destination: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Assign {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    /// Email of an active member
    #[arg(long, value_name = "EMAIL")]
    pub(crate) owner: String,
}

#[derive(Debug, Args)]
pub(crate) struct Stage {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    /// The stage, such as follow_up
    #[arg(long)]
    pub(crate) stage: String,
    /// Reason for the move; required for lost
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ProposalSend {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    /// Title of the proposal
    #[arg(long)]
    pub(crate) title: String,
    /// URL at which the traveler opens it
    #[arg(long)]
    pub(crate) url: String,
    /// Channel by which it is sent, such as email
    #[arg(long)]
    pub(crate) channel: String,
}

#[derive(Debug, Args)]
pub(crate) struct BookingConfirm {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    pub(crate) booking_ref: String,
    /// Booking amount in major units, such as 1234.50
    #[arg(long, value_name = "DECIMAL", requires = "currency")]
    pub(crate) amount: Option<String>,
    /// ISO 4217 code of the amount
    #[arg(long, value_name = "CODE", requires = "amount")]
    pub(crate) currency: Option<String>,
    /// Corporate credit to count as paid, in major units
    #[arg(long, value_name = "DECIMAL")]
    pub(crate) credit_used: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BookingCancel {
    /// Slug of the tenant
    #[arg(long, value_name = "SLUG")]
    pub(crate) tenant: String,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    pub(crate) booking_ref: String,
    /// Reason for the cancellation
    #[arg(long)]
    pub(crate) reason: Option<String>,
}
