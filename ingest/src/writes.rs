//! Hands a records write to the queue and waits for the worker's answer (D17, D21c).
//!
//! A write whose caller was told 503 isn't begun any more: the message says until when it may be, and `processing_timeout`
//! is not answered before then, also when the broker hangs or its connection breaks. What was begun in time may be kept
//! all the same; a retry of a POST with the same `Idempotency-Key` then gets the record that was made.
//!
//! When a caller hangs up, the write goes on without it, and keeps its share of the backlog until it is done or refused.

use crate::backlog::{self, Backlog, Share};
use crate::bound::Bound;
use crate::error::Refusal;
use bytes::Bytes;
use common::broker::{CallError, Rpc, RpcRequest};
use common::caller::Caller;
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use common::model::TenantId;
use common::trace::Trail;
use common::write::{IfMatch, WriteAnswer, WriteMeta, WriteRefusal, WriteTarget, Written};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

/// Which faults are logged.
static FAULTS: LogLimit<2> = LogLimit::new();

/// The way to the queue of records writes.
#[derive(Clone, Debug)]
pub struct Writes {
    rpc: Rpc,
    backlog: Backlog,
    reply_within: Duration,
}

/// A write whose body is valid.
#[derive(Clone, Debug)]
pub struct Write {
    /// What is written.
    pub target: WriteTarget,
    /// The request's path.
    pub path: String,
    /// `Idempotency-Key` of a POST.
    pub idempotency_key: Option<String>,
    /// `If-Match` of a PATCH.
    pub if_match: Option<IfMatch>,
}

impl Writes {
    /// `reply_within` bounds the wait for the broker's confirm and the worker's answer, `backlog` what waits to be written.
    pub const fn new(rpc: Rpc, backlog: Backlog, reply_within: Duration) -> Self {
        Self { rpc, backlog, reply_within }
    }

    /// What waits to be written.
    pub const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// A share of the backlog; 503 `overloaded` when there is none. To be asked for before the signature is used up.
    pub fn admit(&self, tenant: TenantId, body: &[u8]) -> Result<Share, Refusal> {
        self.backlog.admit(tenant, backlog::units(1, body.len()))
    }

    /// Whether a write can be submitted now.
    pub fn is_ready(&self) -> bool {
        self.rpc.is_ready()
    }

    /// 503 `overloaded` when a write can't be submitted now. To be asked before the signature is used up.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        self.rpc.check_ready().map_err(|_| Bound::Broker.refuse())
    }

    /// Publishes a write with its `body` as sent, and gives the worker's answer.
    ///
    /// 503 `overloaded` when the broker doesn't take it, 503 `processing_timeout` when there is no answer in time.
    pub async fn submit(
        &self,
        trail: Trail,
        caller: &Caller,
        write: Write,
        body: &Bytes,
        share: Share,
    ) -> Result<Written, Refusal> {
        let Trail { request_id: id, context } = trail;
        let traceparent = context.to_header();
        let published_at = clock::now();
        let meta = WriteMeta {
            request_id: id,
            caller: caller.clone(),
            published_at,
            deadline: published_at + self.reply_within,
            target: write.target,
            path: write.path,
            idempotency_key: write.idempotency_key,
            if_match: write.if_match,
            traceparent: Some(traceparent.clone()),
        };
        let meta = serde_json::to_string(&meta).map_err(|error| {
            limited!(FAULTS[0], error, %error, "metadata can't be written");
            Refusal::Internal
        })?;
        let deadline = Instant::now() + self.reply_within;
        let (rpc, body, confirm_within) = (self.rpc.clone(), body.clone(), self.reply_within);
        let call = async move {
            let traceparent = Some(traceparent.as_str());
            let request = RpcRequest { id, meta: &meta, traceparent, body: &body, confirm_within, deadline };
            rpc.call(request, vec![Box::new(share)]).await
        };
        let answer = match tokio::spawn(call.in_current_span()).await.unwrap_or(Err(CallError::NoAnswer)) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "no answer");
                return Err(refusal(error, deadline).await);
            }
        };
        match serde_json::from_slice(&answer) {
            Ok(WriteAnswer::Written(written)) => Ok(written),
            Ok(WriteAnswer::Refused(refusal)) => Err(Refusal::Write(refusal)),
            Err(error) => {
                limited!(FAULTS[1], error, %error, "the worker's answer can't be read");
                Err(Refusal::Internal)
            }
        }
    }
}

/// What a caller is told when there is no answer, and not before it is true.
async fn refusal(error: CallError, deadline: Instant) -> Refusal {
    match Bound::of(error) {
        Some(bound) => bound.refuse(),
        None => {
            sleep_until(deadline).await;
            Refusal::Write(WriteRefusal::ProcessingTimeout)
        }
    }
}
