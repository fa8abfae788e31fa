//! Hands a batch to the queue and waits for the worker's result (D9).
//!
//! When a caller hangs up, nothing is lost by that. Before the publish nothing was ingested and nothing was confirmed; the
//! signature may be used up, and a retry is signed anew in any case. From the publish on the batch is the queue's, it is
//! applied exactly once, and a retry reports `duplicate`. The publish and the wait for its reply go on without the caller,
//! and so does the batch's share of the backlog: hanging up makes no room.
//!
//! A small batch may share its message with others of the same caller (see [`crate::bundles`]). A large one is published
//! by itself, at once, from the bytes that it came as.

use crate::backlog::{self, Backlog, Share};
use crate::bound::Bound;
use crate::bundles::{Bundles, Rejection, SmallRequest};
use crate::error::Refusal;
use bytes::Bytes;
use common::broker::{CallError, Rpc, RpcRequest};
use common::caller::Caller;
use common::clock;
use common::message::BatchMeta;
use common::metrics::{BATCH_EVENTS, BUNDLE_REQUESTS};
use common::model::TenantId;
use common::trace::Trail;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;

/// Most events of a batch that may share its message.
const SMALL_EVENTS: u16 = 10;
/// Most bytes of such a batch.
const SMALL_BYTES: usize = 32 * 1024;

/// The way to the queue of events.
#[derive(Clone, Debug)]
pub struct Events {
    rpc: Rpc,
    bundles: Bundles,
    backlog: Backlog,
    publish_within: Duration,
    reply_within: Duration,
}

/// The body of a valid batch.
#[derive(Clone, Debug)]
pub struct ValidBatch {
    /// As it was sent.
    pub body: Bytes,
    /// Its events: what stands between the brackets of `events`.
    pub text: Bytes,
    /// How many they are.
    pub events: u16,
}

impl ValidBatch {
    fn is_small(&self) -> bool {
        self.events <= SMALL_EVENTS && self.body.len() <= SMALL_BYTES
    }
}

impl Events {
    /// `publish_within` bounds the broker's confirm, `reply_within` the whole, `backlog` what waits to be applied.
    pub fn new(rpc: Rpc, backlog: Backlog, publish_within: Duration, reply_within: Duration) -> Self {
        let bundles = Bundles::new(rpc.clone());
        Self { rpc, bundles, backlog, publish_within, reply_within }
    }

    /// What waits to be applied.
    pub const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// A share of the backlog for a body that has not been read yet; 503 `overloaded` when there is none. To be asked for
    /// before the signature is used up.
    pub fn admit(&self, tenant: TenantId, body: &[u8]) -> Result<Share, Refusal> {
        self.backlog.admit(tenant, backlog::batch_units(body))
    }

    /// Whether a batch can be submitted now.
    pub fn is_ready(&self) -> bool {
        self.rpc.is_ready()
    }

    /// 503 `overloaded` when a batch can't be submitted now. To be asked before the signature is used up.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        self.rpc.check_ready().map_err(|_| Bound::Broker.refuse())
    }

    /// Publishes a batch and gives the result as the worker wrote it: JSON of a `BatchResult`.
    ///
    /// 503 `overloaded` when too many batches wait or the broker doesn't take it, 503 `processing_timeout` when there is
    /// no result in time.
    pub async fn submit(
        &self,
        trail: Trail,
        caller: &Caller,
        batch: ValidBatch,
        share: Share,
    ) -> Result<Vec<u8>, Refusal> {
        metrics::histogram!(BATCH_EVENTS).record(batch.events);
        let now = Instant::now();
        let (confirm_by, reply_by) = (now + self.publish_within, now + self.reply_within);
        let result = if batch.is_small() {
            let share = Some(share);
            self.bundles.submit(caller, SmallRequest { trail, batch, confirm_by, reply_by, share }).await
        } else {
            let alone = self.clone().publish_alone(trail, caller.clone(), batch, reply_by, share);
            tokio::spawn(alone.in_current_span()).await.unwrap_or(Err(CallError::NoAnswer.into()))
        };
        result.map_err(|rejection| {
            tracing::debug!(error = %rejection, "the batch has no result");
            refusal(rejection)
        })
    }

    async fn publish_alone(
        self,
        trail: Trail,
        caller: Caller,
        batch: ValidBatch,
        deadline: Instant,
        share: Share,
    ) -> Result<Vec<u8>, Rejection> {
        metrics::histogram!(BUNDLE_REQUESTS).record(1);
        let meta = single_meta(trail, &caller, batch.events);
        let request = RpcRequest {
            id: meta.request_id,
            meta: &meta.to_header(),
            traceparent: meta.traceparent.as_deref(),
            body: &batch.body,
            confirm_within: self.publish_within,
            deadline,
        };
        Ok(self.rpc.call(request, vec![Box::new(share)]).await?)
    }
}

/// The metadata of a message with the batch of a single request.
pub(crate) fn single_meta(trail: Trail, caller: &Caller, events: u16) -> BatchMeta {
    BatchMeta {
        request_id: trail.request_id,
        caller: caller.clone(),
        published_at: clock::now(),
        events,
        traceparent: Some(trail.context.to_header()),
        parts: Vec::new(),
    }
}

/// What a caller is told when there is no result.
fn refusal(rejection: Rejection) -> Refusal {
    match rejection {
        Rejection::TooManyWaiting => Bound::PublishQueue.refuse(),
        Rejection::Call(error) => Bound::of(error).map_or(Refusal::ProcessingTimeout, Bound::refuse),
    }
}
