//! Hands a records write to the queue and waits for the worker's answer (D17, D21c).
//!
//! What was published may be applied after its caller was told 503 or has hung up; a retry of a POST with the same
//! `Idempotency-Key` then gets the record that was made.

use crate::error::Refusal;
use crate::submit;
use common::broker::{Rpc, RpcRequest};
use common::caller::Caller;
use common::clock;
use common::write::{IfMatch, WriteAnswer, WriteMeta, WriteTarget, Written};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The way to the queue of records writes.
#[derive(Clone, Debug)]
pub struct Writes {
    rpc: Rpc,
    publish_within: Duration,
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
    /// `publish_within` bounds the broker's confirm, `reply_within` the whole.
    pub const fn new(rpc: Rpc, publish_within: Duration, reply_within: Duration) -> Self {
        Self { rpc, publish_within, reply_within }
    }

    /// Whether a write can be submitted now.
    pub fn is_ready(&self) -> bool {
        self.rpc.is_ready()
    }

    /// 503 `overloaded` when a write can't be submitted now. To be asked before the signature is used up.
    pub fn check_ready(&self) -> Result<(), Refusal> {
        if self.is_ready() { Ok(()) } else { Err(Refusal::Overloaded) }
    }

    /// Publishes a write with its `body` as sent, and gives the worker's answer.
    ///
    /// 503 `overloaded` when the broker doesn't take it, 503 `processing_timeout` when there is no answer in time.
    pub async fn submit(&self, caller: &Caller, write: Write, body: &[u8]) -> Result<Written, Refusal> {
        let id = Uuid::now_v7();
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
        };
        let meta = serde_json::to_string(&meta).map_err(|error| {
            tracing::error!(request = %id, %error, "metadata can't be written");
            Refusal::Internal
        })?;
        let deadline = Instant::now() + self.reply_within;
        let request = RpcRequest { id, meta: &meta, body, confirm_within: self.publish_within, deadline };
        let answer = self.rpc.call(request).await.map_err(|error| {
            tracing::debug!(request = %id, %error, "no answer");
            submit::refusal(error)
        })?;
        match serde_json::from_slice(&answer) {
            Ok(WriteAnswer::Written(written)) => Ok(written),
            Ok(WriteAnswer::Refused(refusal)) => Err(Refusal::Write(refusal)),
            Err(error) => {
                tracing::error!(request = %id, %error, "the worker's answer can't be read");
                Err(Refusal::Internal)
            }
        }
    }
}
