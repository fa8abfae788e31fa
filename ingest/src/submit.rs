//! Hands a batch to the queue and waits for the worker's result (D9).
//!
//! When a caller hangs up, its request ends wherever it stands, and nothing is lost by that. Before the publish nothing
//! was ingested and nothing was confirmed; the signature may be used up, and a retry is signed anew in any case. From
//! the publish on the batch is the queue's, it is applied exactly once, and a retry reports `duplicate`. A message is
//! handed to the connection whole or not at all, so that ending in the middle can't break it.

use crate::bound::Bound;
use crate::error::Refusal;
use common::broker::{CallError, Rpc, RpcRequest};
use common::caller::Caller;
use common::clock;
use common::message::BatchMeta;
use common::metrics::BATCH_EVENTS;
use common::trace::Trail;
use std::time::Duration;
use tokio::time::Instant;

/// The way to the queue of events.
#[derive(Clone, Debug)]
pub struct Events {
    rpc: Rpc,
    publish_within: Duration,
    reply_within: Duration,
}

impl Events {
    /// `publish_within` bounds the broker's confirm, `reply_within` the whole.
    pub const fn new(rpc: Rpc, publish_within: Duration, reply_within: Duration) -> Self {
        Self { rpc, publish_within, reply_within }
    }

    /// Whether a batch can be submitted now.
    pub fn is_ready(&self) -> bool {
        self.rpc.is_ready()
    }

    /// 503 `overloaded` when a batch can't be submitted now. To be asked before the signature is used up.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        self.rpc.check_ready().map_err(|_| Bound::Broker.refuse())
    }

    /// Publishes `body`, a valid batch of `events` events, as it is, and gives the result as the worker wrote it: JSON
    /// of a `BatchResult`.
    ///
    /// 503 `overloaded` when the broker doesn't take it, 503 `processing_timeout` when there is no result in time.
    pub async fn submit(
        &self,
        trail: Trail,
        caller: &Caller,
        events: u16,
        body: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        metrics::histogram!(BATCH_EVENTS).record(events);
        let Trail { request_id: id, context } = trail;
        let traceparent = context.to_header();
        let meta = BatchMeta {
            request_id: id,
            caller: caller.clone(),
            published_at: clock::now(),
            events,
            traceparent: Some(traceparent.clone()),
        };
        let meta = serde_json::to_string(&meta).map_err(|error| {
            tracing::error!(%error, "metadata can't be written");
            Refusal::Internal
        })?;
        let deadline = Instant::now() + self.reply_within;
        let traceparent = Some(traceparent.as_str());
        let confirm_within = self.publish_within;
        let request = RpcRequest { id, meta: &meta, traceparent, body, confirm_within, deadline };
        self.rpc.call(request).await.map_err(|error| {
            tracing::debug!(%error, "no result");
            refusal(error)
        })
    }
}

/// What a caller is told when there is no answer.
fn refusal(error: CallError) -> Refusal {
    Bound::of(error).map_or(Refusal::ProcessingTimeout, Bound::refuse)
}
