//! `connectctl queue`: the queues and their dead letters. Bodies are never shown: they may contain personal data.

use crate::arguments::queue::{Command, DropArgs, Requeue, ShowArgs};
use crate::confirm::confirm;
use crate::context::{Context, connect_database, open_broker};
use crate::output::{Output, Show};
use admin::queues::{
    self, DeadLetterDrop, DeadLetterView, DropReport, LetterMetadata, QueueView, RequeueReport,
};
use common::broker::{OperatorConnection, Queue};
use common::sealed::MasterKeys;
use common::settings::{BrokerSettings, DatabaseSettings, Environment, SealingSettings, Section as _};
use std::time::Duration;
use tokio::time::timeout;

/// Longest time for the ages of queues, which are in the database: the list is needed most while that does not respond.
const AGES_WITHIN: Duration = Duration::from_secs(3);

/// Runs a command. Connects to the database for `requeue` and `drop`, which add an audit record, and, if it can, for `list`,
/// which shows ages.
pub(crate) async fn run(command: Command, json: bool) -> anyhow::Result<()> {
    let output = Output::new(json);
    let environment = Environment::from_process();
    let broker = open_broker(&environment).await?;
    match command {
        Command::Declare => {
            broker.declare(&BrokerSettings::from_env(&environment)?).await?;
            output.print_list(&queues::list(&broker).await?)?;
        }
        Command::List => output.print_list(&list(&broker, &environment, output).await?)?,
        Command::Show(ShowArgs { named, limit }) => {
            let masters = master_keys(&environment, output);
            let letters = queues::dead_letters(&broker, named.queue(), limit, masters.as_ref()).await?;
            output.print_list(&letters)?;
        }
        Command::Requeue(requeue) => output.print_one(&self::requeue(&broker, json, &requeue).await?)?,
        Command::Drop(dropped) => output.print_one(&discard(&broker, json, &dropped).await?)?,
    }
    Ok(broker.close().await?)
}

/// The master keys, which dead letters are verified with. Without them, they are shown all the same.
fn master_keys(environment: &Environment, output: Output) -> Option<MasterKeys> {
    match SealingSettings::from_env(environment) {
        Ok(settings) => Some(settings.master_keys),
        Err(error) => {
            output.note(&format!("Forged messages are not recognized: {error}"));
            None
        }
    }
}

/// The queues. Their ages are in the database, without which the rest is listed all the same.
async fn list(
    broker: &OperatorConnection,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<Vec<QueueView>> {
    let mut listed = queues::list(broker).await?;
    let Ok(settings) = DatabaseSettings::from_env(environment) else { return Ok(listed) };
    let aged = async {
        let database = connect_database(&settings).await?;
        queues::add_ages(&database, &mut listed).await.map_err(anyhow::Error::from)
    };
    let late = || anyhow::anyhow!("the database does not respond within {} s", AGES_WITHIN.as_secs());
    if let Err(error) = timeout(AGES_WITHIN, aged).await.unwrap_or_else(|_| Err(late())) {
        output.note(&format!("For how long messages have waited is unknown: {error:#}"));
    }
    Ok(listed)
}

async fn requeue(
    broker: &OperatorConnection,
    json: bool,
    requeue: &Requeue,
) -> anyhow::Result<RequeueReport> {
    let Context { mut database, output, actor, .. } = Context::open(json).await?;
    let mut observer = output.observer();
    let requeued = match requeue.named.queue() {
        Queue::Webhooks => {
            output.note("Dead letters of webhooks are replayed as deliveries, through the database.");
            queues::requeue_webhooks(&mut database, &actor, broker, requeue.limit, &mut observer).await?
        }
        queue @ (Queue::Events | Queue::Records | Queue::Crm) => {
            queues::requeue(&mut database, &actor, broker, queue, requeue.limit, &mut observer).await?
        }
    };
    Ok(requeued)
}

async fn discard(broker: &OperatorConnection, json: bool, dropped: &DropArgs) -> anyhow::Result<DropReport> {
    let Context { mut database, output, actor, .. } = Context::open(json).await?;
    let queue = dropped.named.queue();
    let drop = DeadLetterDrop::prepare(broker, queue).await?;
    if drop.count() > 0 && !dropped.yes {
        let (count, name) = (drop.count(), broker.queue_name(queue));
        let question =
            format!("Dead letters of {name} to drop: {count}. Their content is lost for good. Drop them?");
        confirm(&question, "nothing is dropped").await?;
    }
    Ok(drop.run(&mut database, &actor, &mut output.observer()).await?)
}

impl Show for QueueView {
    const COLUMNS: &'static [&'static str] = &["Queue", "Depth", "Oldest", "Consumers", "Dead"];

    fn cells(&self) -> Vec<Option<String>> {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        vec![
            Some(self.name.clone()),
            number(self.depth),
            self.oldest.clone(),
            number(self.consumers),
            number(self.dead),
        ]
    }
}

impl Show for DeadLetterView {
    const COLUMNS: &'static [&'static str] =
        &["Dead since", "Why", "MAC", "Type", "Request or delivery", "Bytes"];

    fn cells(&self) -> Vec<Option<String>> {
        let LetterMetadata { kind, request_id, delivery_id, .. } = &self.metadata;
        vec![
            self.at.clone(),
            Some(self.why.to_owned()),
            self.mac.map(|mac| mac.as_str().to_owned()),
            kind.clone(),
            delivery_id.or(*request_id).map(|id| id.to_string()),
            Some(self.bytes.to_string()),
        ]
    }
}

impl Show for RequeueReport {
    const COLUMNS: &'static [&'static str] = &["Requeued", "Kept", "Removed"];

    fn cells(&self) -> Vec<Option<String>> {
        [self.requeued, self.kept, self.removed].map(|number| Some(number.to_string())).to_vec()
    }
}

impl Show for DropReport {
    const COLUMNS: &'static [&'static str] = &["Dropped"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.dropped.to_string())]
    }
}
