//! Publishes a records write and waits for the worker's reply (D17, D21c).
//!
//! The worker begins no write whose caller got 503: the message carries a deadline for its beginning, and ingest does not
//! respond with `processing_timeout` before that deadline, even if the broker hangs or its connection breaks. A write that
//! began in time may still commit; a retry of a POST with the same `Idempotency-Key` then gets the created record.
//!
//! When the caller of a published write hangs up, it continues, and holds its share of the backlog until the worker has replied or
//! the broker has refused it.

use super::bundles::Publisher;
use super::{QueuePublisher, RequestMessage, refuse};
use crate::admission::Share;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::broker::CallError;
use common::bundle::BUNDLE_WRITES_MAX;
use common::caller::Caller;
use common::log_limit::LogLimit;
use common::trace::RequestContext;
use common::write::{IfMatch, WriteMeta, WriteRefusal, WriteReply, WriteTarget, Written};
use common::{clock, limited};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Limits the log lines of messages and replies that cannot be serialized or parsed.
static FAULTS: LogLimit<2> = LogLimit::new();

/// Publishes records writes.
#[derive(Debug)]
pub(crate) struct WritePublisher {
    pub(crate) publisher: Arc<Publisher>,
    reply_within: Duration,
}

/// A write whose body is valid.
#[derive(Clone, Debug)]
pub(crate) struct ValidWrite {
    /// The record to create or change.
    pub(crate) target: WriteTarget,
    pub(crate) path: String,
    /// `Idempotency-Key` of a POST.
    pub(crate) idempotency_key: Option<String>,
    /// `If-Match` of a PATCH.
    pub(crate) if_match: Option<IfMatch>,
    /// Whether nothing is to be written.
    pub(crate) dry_run: bool,
}

impl WritePublisher {
    /// `publish_within` limits the wait for the confirm of an earlier write, `reply_within` that for the broker's confirm and the
    /// worker's reply together.
    pub(crate) fn new(queue: QueuePublisher, publish_within: Duration, reply_within: Duration) -> Self {
        Self { publisher: Publisher::new(queue, BUNDLE_WRITES_MAX, publish_within), reply_within }
    }

    /// Publishes a write with its `body` as sent, and returns the worker's reply.
    ///
    /// 503 `overloaded` when the broker refuses the message, 503 `processing_timeout` when there is no reply in time.
    pub(crate) async fn submit(
        &self, request_context: RequestContext, caller: &Caller, write: ValidWrite, body: &Bytes, share: Share,
    ) -> Result<Written, Refusal> {
        let RequestContext { request_id: id, context } = request_context;
        let traceparent = context.to_header();
        let published_at = clock::database_now();
        let meta = WriteMeta {
            request_id: id,
            caller: caller.clone(),
            published_at,
            deadline: clock::database_now() + self.reply_within,
            target: write.target,
            path: write.path,
            idempotency_key: write.idempotency_key,
            if_match: write.if_match,
            dry_run: write.dry_run,
            traceparent: Some(traceparent.clone()),
        };
        let meta = serde_json::to_string(&meta).map_err(|error| {
            limited!(FAULTS[0], error, %error, "serializing the metadata of a records write failed; responding 500");
            Refusal::Internal
        })?;
        let deadline = Instant::now() + self.reply_within;
        let message = RequestMessage {
            id,
            meta,
            traceparent: Some(traceparent),
            body: body.clone(),
            accepted: 0,
            confirm_by: deadline,
            reply_by: deadline,
        };
        let reply = match self.publisher.submit(caller, message, share, !write.dry_run).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::debug!(%error, "a records write got no reply from the worker");
                if error == CallError::NoReply {
                    sleep_until(deadline).await;
                }
                let without_reply = Refusal::Write(WriteRefusal::ProcessingTimeout);
                return Err(refuse(error, without_reply));
            }
        };
        match serde_json::from_slice(&reply) {
            Ok(WriteReply::Written(written)) => Ok(written),
            Ok(WriteReply::Refused(refusal)) => Err(Refusal::Write(refusal)),
            Err(error) => {
                limited!(FAULTS[1], error, %error, "the worker's reply to a records write cannot be parsed; responding 500");
                Err(Refusal::Internal)
            }
        }
    }
}
