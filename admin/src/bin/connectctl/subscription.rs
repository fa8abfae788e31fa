//! `connectctl subscription`: the receivers of a tenant's webhooks.

use crate::arguments::{RotationArgs, TenantArgs};
use crate::context::Context;
use crate::delivery;
use crate::output::show;
use admin::input::EventTypes;
use admin::subscriptions::{self, NewSubscription, Subscription, SubscriptionSecret, check_receiver};
use anyhow::ensure;
use clap::{Args, Subcommand};
use common::egress::EgressSettings;
use common::model::DeliveryState;
use common::settings::{SettingValue, TenantBounds};
use std::time::Duration;
use uuid::Uuid;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Subscribe a receiver; prints the secret that signs its deliveries, which is never shown again
    #[command(after_help = CREATE_HELP)]
    Create(Create),
    /// List the subscriptions of a tenant
    #[command(after_help = "Example:\n  connectctl subscription list --tenant acme")]
    List(TenantArgs),
    /// Pause a subscription: its deliveries wait until it is resumed
    #[command(after_help = "Example:\n  connectctl subscription pause 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Pause(SubscriptionArgs),
    /// Resume a paused subscription: deliveries whose time has come are sent now, the others at their next attempt
    #[command(after_help = "Example:\n  connectctl subscription resume 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Resume(SubscriptionArgs),
    /// Replace the event types that a subscription receives
    #[command(after_help = EVENTS_HELP)]
    Events(Events),
    /// Send a test event to a subscription, and print its delivery once the first attempt has ended
    #[command(after_help = TEST_HELP)]
    Test(Test),
    /// Remove a subscription permanently, and drop its pending and dead-lettered deliveries
    #[command(after_help = "Example:\n  connectctl subscription remove 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Remove(SubscriptionArgs),
    /// Replace the signing secret; prints the new one, which is never shown again
    #[command(after_help = ROTATE_HELP)]
    RotateSecret(Rotate),
}

const CREATE_HELP: &str = "\
Events: lead.assigned lead.stage_changed proposal.sent proposal.viewed
        booking.confirmed booking.cancelled

Example:
  connectctl subscription create --tenant acme --url https://partner.example/hooks \\
      --key ck_0123456789abcdef";

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// URL of the receiver: https:// with a public address
    #[arg(long)]
    pub(crate) url: String,
    /// API key of the receiving system: events caused by the key's own calls are not sent to it
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key: Option<String>,
    /// Event types to deliver, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) events: Option<Vec<String>>,
}

#[derive(Debug, Args)]
pub(crate) struct SubscriptionArgs {
    /// Id of the subscription
    id: String,
}

impl SubscriptionArgs {
    fn id(&self) -> admin::Result<Uuid> {
        subscriptions::parse_id(&self.id)
    }
}

const EVENTS_HELP: &str = "\
Events: lead.assigned lead.stage_changed proposal.sent proposal.viewed
        booking.confirmed booking.cancelled
It concerns events that occur from now on.

Examples:
  connectctl subscription events 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --set proposal.sent
  connectctl subscription events 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --all";

#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) named: SubscriptionArgs,
    /// Event types to deliver from now on, separated by commas
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', required_unless_present = "all")]
    pub(crate) set: Option<Vec<String>>,
    /// Deliver events of all types
    #[arg(long, conflicts_with = "set")]
    pub(crate) all: bool,
}

const TEST_HELP: &str = "\
The event has the type webhook.test and no data of a lead. It takes the way of every event, whatever the event types \
of the subscription are, and no other subscription receives it. A failed attempt is not repeated.

Example:
  connectctl subscription test 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) named: SubscriptionArgs,
    /// How long to wait until the first attempt has ended
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = Duration::parse_setting)]
    pub(crate) wait: Duration,
}

const ROTATE_HELP: &str = "\
Without --overlap the old secret is invalid from now on. With it, each delivery has two signatures until the \
overlap ends, the new secret's first; the receiver may verify either. Only one old secret is kept: until then \
another rotation needs --replace-overlap.

Example:
  connectctl subscription rotate-secret 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --overlap 24h";

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    pub(crate) named: SubscriptionArgs,
    #[command(flatten)]
    pub(crate) rotation: RotationArgs,
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    let Context { database, actor, .. } = &mut *context;
    match command {
        Command::Create(create) => {
            let created = self::create(create, context).await?;
            show_secret(context, &created)
        }
        Command::List(of) => {
            let all = subscriptions::list(&context.database, &of.slug, None, u32::MAX).await?;
            output.print_list(&all.items)
        }
        Command::Pause(named) => output.print_one(&subscriptions::pause(database, actor, named.id()?).await?),
        Command::Resume(named) => output.print_one(&subscriptions::resume(database, actor, named.id()?).await?),
        Command::Remove(named) => output.print_one(&subscriptions::remove(database, actor, named.id()?).await?),
        Command::Events(Events { named, set, all: _ }) => {
            let events = set.as_deref().map(EventTypes::parse).transpose()?;
            output.print_one(&subscriptions::set_events(database, actor, named.id()?, events.as_ref()).await?)
        }
        Command::Test(Test { named, wait }) => {
            let sent = subscriptions::send_test(database, actor, named.id()?, Uuid::now_v7()).await?;
            let delivery = subscriptions::wait_for_test(database, sent, wait).await?;
            delivery::print(context, &delivery)?;
            ensure!(
                delivery.state == DeliveryState::Delivered,
                "the receiver did not accept the test event; correct it and send another one, because a test is not repeated"
            );
            Ok(())
        }
        Command::RotateSecret(rotate) => {
            let (master_keys, id) = (context.master_keys()?, rotate.named.id()?);
            let Context { database, actor, .. } = &mut *context;
            let rotated =
                subscriptions::rotate_secret(database, actor, &master_keys, id, rotate.rotation.into()).await?;
            show_secret(context, &rotated)
        }
    }
}

fn show_secret(context: &Context, created: &SubscriptionSecret) -> anyhow::Result<()> {
    context.output.note("The secret is shown only once: store it now.");
    context.output.print_one(created)
}

async fn create(create: Create, context: &mut Context) -> anyhow::Result<SubscriptionSecret> {
    let Create { tenant, url, key, events } = create;
    let events = events.as_deref().map(EventTypes::parse).transpose()?;
    let (egress, bound) = (context.settings::<EgressSettings>()?, context.settings::<TenantBounds>()?.subscriptions);
    let master_keys = context.master_keys()?;
    if egress.allow_private {
        context.output.warn("CONNECT_WEBHOOK_ALLOW_PRIVATE is on: http://, loopback and any port are accepted");
    }
    let receiver = check_receiver(&url, &egress).await?;
    let new = NewSubscription { tenant: tenant.slug, receiver, key, events };
    let Context { database, actor, .. } = context;
    Ok(subscriptions::create(database, actor, &master_keys, bound, &new).await?)
}

show!(SubscriptionSecret, created: "Id" created.id, "Secret" created.secret);

show!(Subscription, shown: "Id" shown.id, "State" shown.state.as_str(), "Url" shown.url, "Key" shown.key,
    "Events" shown.events.as_ref().map_or_else(|| "all".to_owned(), |events| events.join(", ")), "Created at" shown.created_at);
