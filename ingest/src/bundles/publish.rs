//! Publishes what waits, a message at a time for each caller, and gives each request its own result.

use super::waiting::{Full, WaitingRequest, WaitingRequests};
use crate::submit::single_meta;
use common::broker::{CallError, Rpc, RpcRequest};
use common::bundle;
use common::caller::Caller;
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use common::message::{BatchMeta, BatchPart};
use common::metrics::BUNDLE_REQUESTS;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::Instant;
use uuid::Uuid;

/// Which replies that don't fit are logged.
static MISFITS: LogLimit<1> = LogLimit::new();

/// Publishes waiting requests.
#[derive(Debug)]
pub(super) struct Publisher {
    rpc: Rpc,
    runtime: Handle,
    waiting: Mutex<WaitingRequests>,
}

/// A publish under way. When it ends, however that comes about, the caller's next one begins.
struct PublishUnderWay {
    publisher: Arc<Publisher>,
    caller: Caller,
}

impl Publisher {
    pub(super) fn new(rpc: Rpc) -> Self {
        Self { rpc, runtime: Handle::current(), waiting: Mutex::default() }
    }

    /// Has a request be published, at once or after the publish of its caller that is under way.
    pub(super) fn enqueue(self: &Arc<Self>, caller: &Caller, request: WaitingRequest) -> Result<(), Full> {
        let is_first = self.waiting().add(caller, request)?;
        if is_first {
            self.begin(caller.clone());
        }
        Ok(())
    }

    fn begin(self: &Arc<Self>, caller: Caller) {
        let under_way = PublishUnderWay { publisher: Arc::clone(self), caller };
        drop(self.runtime.spawn(under_way.publish_next()));
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingRequests> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PublishUnderWay {
    /// Publishes what waits now, and what is ready to join it.
    async fn publish_next(self) {
        // Requests that have arrived already get to join. With nothing else to do that costs nothing.
        yield_now().await;
        let group = self.publisher.waiting().take(&self.caller);
        if !group.is_empty() {
            self.publish(group).await;
        }
    }

    async fn publish(self, mut group: Vec<WaitingRequest>) {
        metrics::histogram!(BUNDLE_REQUESTS).record(u32::try_from(group.len()).unwrap_or(u32::MAX));
        let holds = group.iter_mut().filter_map(WaitingRequest::take_hold).collect();
        let (meta, body) = message(&self.caller, &group);
        let header = meta.to_header();
        let last =
            |of: fn(&WaitingRequest) -> Instant| group.iter().map(of).max().unwrap_or_else(Instant::now);
        let confirm_by = last(|waiting| waiting.request.confirm_by);
        let request = RpcRequest {
            id: meta.request_id,
            meta: &header,
            traceparent: meta.traceparent.as_deref(),
            body: &body,
            confirm_within: confirm_by.saturating_duration_since(Instant::now()),
            deadline: last(|waiting| waiting.request.reply_by),
        };
        let publisher = Arc::clone(&self.publisher);
        let confirmed = || {
            group.iter().for_each(|waiting| waiting.handover.confirm());
            drop(self);
        };
        let reply = publisher.rpc.call_then(request, holds, confirmed).await;
        drop(body);
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

/// The message of a group: that of a single request as it always was, or a bundle.
fn message<'g>(caller: &Caller, group: &'g [WaitingRequest]) -> (BatchMeta, Cow<'g, [u8]>) {
    if let [waiting] = group {
        let batch = &waiting.request.batch;
        return (single_meta(waiting.request.trail, caller, batch.events), Cow::Borrowed(&batch.body));
    }
    let texts: Vec<&[u8]> = group.iter().map(|waiting| waiting.request.batch.text.as_ref()).collect();
    let parts: Vec<BatchPart> = group.iter().map(part).collect();
    let meta = BatchMeta {
        // Of its own: what names a request names no other.
        request_id: Uuid::now_v7(),
        caller: caller.clone(),
        published_at: clock::now(),
        events: parts.iter().map(|part| part.events).sum(),
        // What a worker of the previous release takes for the place of all of them.
        traceparent: parts.first().and_then(|part| part.traceparent.clone()),
        parts,
    };
    for waiting in group {
        let (message_id, requests) = (meta.request_id, group.len());
        waiting
            .span
            .in_scope(|| tracing::debug!(%message_id, requests, "publishing requests in one message"));
    }
    (meta, Cow::Owned(bundle::join(&texts)))
}

fn part(waiting: &WaitingRequest) -> BatchPart {
    let trail = waiting.request.trail;
    BatchPart {
        request_id: trail.request_id,
        traceparent: Some(trail.context.to_header()),
        events: waiting.request.batch.events,
        bytes: waiting.request.batch.text.len(),
    }
}

/// Gives each request its result. Its caller may have hung up meanwhile.
fn reply_to_each(group: Vec<WaitingRequest>, parts: &[BatchPart], reply: Result<Vec<u8>, CallError>) {
    let results = match reply {
        Ok(reply) if parts.is_empty() => vec![Some(reply)],
        Ok(reply) => bundle::split_reply(&reply, parts).unwrap_or_else(|| {
            let requests = group.iter().map(|waiting| waiting.request.trail.request_id.to_string());
            let request_ids = requests.collect::<Vec<_>>().join(" ");
            limited!(
                MISFITS[0],
                error,
                request_ids,
                "the reply does not fit its bundle; its requests get no result"
            );
            vec![None; parts.len()]
        }),
        Err(error) => {
            group.into_iter().for_each(|waiting| drop(waiting.result.send(Err(error))));
            return;
        }
    };
    for (waiting, result) in group.into_iter().zip(results) {
        drop(waiting.result.send(result.ok_or(CallError::NoAnswer)));
    }
}
