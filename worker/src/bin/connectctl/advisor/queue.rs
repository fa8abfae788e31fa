//! Publishing an action and waiting for its answer.

use anyhow::{anyhow, bail};
use common::broker::{Broker, CallError, MessageKeys, Queue, Rpc, RpcRequest};
use common::clock;
use common::message::ActionMeta;
use common::settings::{BrokerSettings, Environment, MessageSettings, SealingSettings, Section};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest that closing the connection may take.
const CLOSING: Duration = Duration::from_secs(1);

/// Publishes an action under the id `id` and gives the worker's answer.
pub(super) async fn ask(id: Uuid, body: &[u8], within: Duration) -> anyhow::Result<Vec<u8>> {
    let environment = Environment::of_process();
    let settings = BrokerSettings::read(&environment)?;
    let SealingSettings { master_key } = SealingSettings::read(&environment)?;
    let MessageSettings { accepts_unsigned } = MessageSettings::read(&environment)?;
    let keys = MessageKeys::new(&master_key, &settings.prefix, accepts_unsigned);
    let ended = CancellationToken::new();
    let broker = Broker::start(&settings, keys, "connectctl", ended.clone());
    let rpc = Rpc::start(&broker, Queue::Crm, ended.clone());
    let answer = call(&rpc, id, body, within).await;
    ended.cancel();
    // One that is cut instead is no harm, but stands in the broker's log.
    drop(timeout(CLOSING, broker.closed()).await);
    answer
}

async fn call(rpc: &Rpc, id: Uuid, body: &[u8], within: Duration) -> anyhow::Result<Vec<u8>> {
    let deadline = Instant::now() + within;
    if !matches!(timeout_at(deadline, rpc.ready()).await, Ok(Some(()))) {
        bail!("the broker can't be reached; nothing was published");
    }
    let meta = serde_json::to_string(&ActionMeta { published_at: clock::now(), traceparent: None })?;
    let request = RpcRequest { id, meta: &meta, traceparent: None, body, confirm_within: within, deadline };
    rpc.call(request, Vec::new()).await.map_err(|error| match error {
        CallError::Unavailable => anyhow!("the broker can't be reached; nothing was published"),
        CallError::Refused => anyhow!("the queue takes no more; nothing was published"),
        CallError::NoAnswer => {
            anyhow!("no answer in time; the action may be done still, repeat it with --message-id {id}")
        }
    })
}
