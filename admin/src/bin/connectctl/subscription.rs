//! `connectctl subscription`: the receivers of a tenant's webhooks.

use crate::arguments::subscription::{Command, Create, Events, Test};
use crate::context::Context;
use crate::delivery;
use crate::output::Show;
use admin::input::EventTypes;
use admin::subscriptions::{self, NewSubscription, Subscription, SubscriptionSecret};
use common::clock;
use common::egress::EgressSettings;

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    match command {
        Command::Create(create) => {
            let created = self::create(create, context).await?;
            show_secret(context, &created)
        }
        Command::List(of) => output.print_list(&subscriptions::list(&context.database, &of.slug).await?),
        Command::Pause(named) => {
            let Context { database, actor, .. } = context;
            output.print_one(&subscriptions::pause(database, actor, &named.id).await?)
        }
        Command::Resume(named) => {
            let Context { database, actor, .. } = context;
            output.print_one(&subscriptions::resume(database, actor, &named.id).await?)
        }
        Command::Remove(named) => {
            let Context { database, actor, .. } = context;
            output.print_one(&subscriptions::remove(database, actor, &named.id).await?)
        }
        Command::Events(Events { named, set, all: _ }) => {
            let events = set.as_deref().map(EventTypes::parse).transpose()?;
            let Context { database, actor, .. } = context;
            output.print_one(&subscriptions::set_events(database, actor, &named.id, events.as_ref()).await?)
        }
        Command::Test(Test { named, wait }) => {
            let Context { database, actor, .. } = &mut *context;
            let sent = subscriptions::send_test(database, actor, &named.id).await?;
            let delivery = subscriptions::wait_for_test(database, sent, wait).await?;
            delivery::print(context, &delivery)
        }
        Command::RotateSecret(rotate) => {
            let (master_keys, id) = (context.master_keys()?, &rotate.named.id);
            let Context { database, actor, .. } = &mut *context;
            let rotated =
                subscriptions::rotate_secret(database, actor, &master_keys, id, rotate.overlap).await?;
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
    let new = NewSubscription { tenant: tenant.slug, url, key, events };
    let egress: EgressSettings = context.settings()?;
    let (master_keys, mut observer) = (context.master_keys()?, context.output.observer());
    let Context { database, actor, .. } = context;
    let created = subscriptions::create(database, actor, &master_keys, &egress, &new, &mut observer).await?;
    Ok(created)
}

impl Show for SubscriptionSecret {
    const COLUMNS: &'static [&'static str] = &["Id", "Secret"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.id.to_string()), Some(self.secret.clone())]
    }
}

impl Show for Subscription {
    const COLUMNS: &'static [&'static str] = &["Id", "State", "Url", "Key", "Events", "Created at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.id.to_string()),
            Some(self.state.as_str().to_owned()),
            Some(self.url.clone()),
            self.key.clone(),
            Some(self.events.as_ref().map_or_else(|| "all".to_owned(), |events| events.join(", "))),
            Some(clock::to_text(self.created_at)),
        ]
    }
}
