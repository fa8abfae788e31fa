//! Publishes waiting requests, one message at a time for each caller, and hands each request its own result.

use super::waiting::{WaitingRequest, WaitingRequests};
use crate::publish::QueuePublisher;
use crate::publish::batch::{batch_message, count_accepted, single_meta};
use bytes::Bytes;
use common::broker::{CallError, Holds};
use common::caller::Caller;
use common::log_limit::LogLimit;
use common::message::{BatchMeta, BatchPart};
use common::metrics::BUNDLE_REQUESTS;
use common::{bundle, clock, limited};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;
use uuid::Uuid;

/// Limits the log lines of replies that do not match their bundle.
static MISMATCHES: LogLimit<1> = LogLimit::new();

#[derive(Debug)]
pub(super) struct Publisher {
    queue: QueuePublisher,
    waiting: Mutex<WaitingRequests>,
}

/// A publish under way. When it is dropped, also after a panic, the caller's next one begins.
struct PublishUnderWay {
    publisher: Arc<Publisher>,
    caller: Caller,
}

impl Publisher {
    pub(super) fn new(queue: QueuePublisher) -> Self {
        Self { queue, waiting: Mutex::default() }
    }

    /// Queues a request: it is published at once, or after the publish of its caller that is under way.
    pub(super) fn enqueue(self: &Arc<Self>, caller: &Caller, request: WaitingRequest) {
        let is_first = self.waiting().add(caller, request);
        if is_first {
            self.begin(caller.clone());
        }
    }

    fn begin(self: &Arc<Self>, caller: Caller) {
        let under_way = PublishUnderWay { publisher: Arc::clone(self), caller };
        drop(tokio::spawn(under_way.publish_next()));
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingRequests> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PublishUnderWay {
    /// Publishes the requests that wait, and those that are ready to join them.
    async fn publish_next(self) {
        // Lets requests that have arrived already join. When nothing else is ready to run, this costs nothing.
        yield_now().await;
        let (group, is_followed) = self.publisher.waiting().take(&self.caller);
        if !group.is_empty() {
            self.publish(group, is_followed).await;
        }
    }

    async fn publish(self, mut group: Vec<WaitingRequest>, is_followed: Arc<Notify>) {
        metrics::histogram!(BUNDLE_REQUESTS).record(u32::try_from(group.len()).unwrap_or(u32::MAX));
        let holds: Holds = group.iter_mut().filter_map(WaitingRequest::take_hold).collect();
        let (meta, body) = message(&self.caller, &group);
        let last = |of: fn(&WaitingRequest) -> Instant| group.iter().map(of).max().unwrap_or_else(Instant::now);
        let confirm_by = last(|waiting| waiting.request.confirm_by);
        let reply_by = last(|waiting| waiting.request.reply_by);
        let message = batch_message(&meta, body, confirm_by, reply_by);
        let publisher = Arc::clone(&self.publisher);
        // Dropping `self` begins the caller's next publish. If the call ends without a confirm, the closure is dropped, and `self` with
        // it.
        let on_confirm = || {
            count_accepted(meta.events);
            drop(self);
        };
        let reply = publisher.queue.call(&message, holds, on_confirm, is_followed.notified()).await;
        drop(message);
        reply_to_each(group, &meta.parts, reply);
    }
}

impl Drop for PublishUnderWay {
    fn drop(&mut self) {
        if !self.publisher.waiting().end_if_idle(&self.caller) {
            self.publisher.begin(self.caller.clone());
        }
    }
}

/// The message of a group: the unchanged body of a single request, or a bundle.
fn message(caller: &Caller, group: &[WaitingRequest]) -> (BatchMeta, Bytes) {
    if let [waiting] = group {
        let batch = &waiting.request.batch;
        return (single_meta(waiting.request.request_context, caller, batch.events), batch.body.clone());
    }
    let texts: Vec<&[u8]> = group.iter().map(|waiting| waiting.request.batch.text.as_ref()).collect();
    let parts: Vec<BatchPart> = group.iter().map(part).collect();
    let meta = BatchMeta {
        // A new id, because each part keeps the id of its request.
        request_id: Uuid::now_v7(),
        caller: caller.clone(),
        published_at: clock::database_now(),
        events: parts.iter().map(|part| part.events).sum(),
        dry_run: false,
        // Each part has its own.
        traceparent: None,
        parts,
    };
    for waiting in group {
        let (message_id, requests) = (meta.request_id, group.len());
        waiting.span.in_scope(|| tracing::debug!(%message_id, requests, "publishing requests in one message"));
    }
    (meta, bundle::join(&texts).into())
}

fn part(waiting: &WaitingRequest) -> BatchPart {
    let request_context = waiting.request.request_context;
    BatchPart {
        request_id: request_context.request_id,
        traceparent: Some(request_context.context.to_header()),
        events: waiting.request.batch.events,
        bytes: waiting.request.batch.text.len(),
    }
}

/// Hands each request its result; ignored if its caller has hung up.
fn reply_to_each(group: Vec<WaitingRequest>, parts: &[BatchPart], reply: Result<Vec<u8>, CallError>) {
    let results = match reply {
        Ok(reply) if parts.is_empty() => vec![Some(reply)],
        Ok(reply) => bundle::split_reply(&reply, parts).unwrap_or_else(|| {
            let requests = group.iter().map(|waiting| waiting.request.request_context.request_id.to_string());
            let request_ids = requests.collect::<Vec<_>>().join(" ");
            limited!(
                MISMATCHES[0],
                error,
                request_ids,
                "the worker's reply does not match its bundle; responding 503 to its requests"
            );
            vec![None; parts.len()]
        }),
        Err(error) => {
            group.into_iter().for_each(|waiting| drop(waiting.result.send(Err(error))));
            return;
        }
    };
    for (waiting, result) in group.into_iter().zip(results) {
        drop(waiting.result.send(result.ok_or(CallError::NoReply)));
    }
}
