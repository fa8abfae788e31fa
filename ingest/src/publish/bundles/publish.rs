//! Publishes waiting requests, one message at a time for each caller, and hands each request its own result.

use super::waiting::{WaitingRequest, WaitingRequests};
use crate::publish::{QueuePublisher, RequestMessage};
use common::broker::{CallError, Holds};
use common::bundle::{BundleMeta, BundledRequest, split_reply};
use common::caller::Caller;
use common::log_limit::LogLimit;
use common::metrics::BUNDLE_REQUESTS;
use common::{clock, limited};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// Limits the log lines of replies that do not match their bundle.
static MISMATCHES: LogLimit<1> = LogLimit::new();

/// Publishes requests to one queue.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) queue: QueuePublisher,
    /// Maximum number of events, or writes, of a message.
    events: usize,
    /// How long a publish without a confirm delays the next one of its caller.
    wait: Duration,
    waiting: Mutex<WaitingRequests>,
}

/// A publish under way. When it is dropped, also after a panic, the caller's next one begins.
struct PublishUnderWay {
    publisher: Arc<Publisher>,
    caller: Caller,
}

impl Publisher {
    /// A message has at most so many `events`, or writes. Requests wait for an unconfirmed one at most so long.
    pub(in crate::publish) fn new(queue: QueuePublisher, events: usize, wait: Duration) -> Arc<Self> {
        Arc::new(Self { queue, events, wait, waiting: Mutex::default() })
    }

    /// Queues a request: it is published at once, or after the publish of its caller that is under way.
    pub(super) fn enqueue(self: &Arc<Self>, caller: &Caller, request: WaitingRequest) {
        let span = request.span.clone();
        if self.waiting.lock().add(caller, request) {
            self.begin(caller.clone());
        } else {
            span.in_scope(|| tracing::debug!("waiting for the publish under way"));
        }
    }

    fn begin(self: &Arc<Self>, caller: Caller) {
        let under_way = PublishUnderWay { publisher: Arc::clone(self), caller };
        drop(tokio::spawn(under_way.publish_next()));
    }
}

impl PublishUnderWay {
    /// Publishes the requests that wait, and those that are ready to join them.
    async fn publish_next(self) {
        // Lets requests that have arrived already join. When nothing else is ready to run, this costs nothing.
        yield_now().await;
        let (group, is_followed) = self.publisher.waiting.lock().take(&self.caller, self.publisher.events);
        if !group.is_empty() {
            self.publish(group, is_followed).await;
        }
    }

    async fn publish(self, mut group: Vec<WaitingRequest>, is_followed: Arc<Notify>) {
        metrics::histogram!(BUNDLE_REQUESTS).record(u32::try_from(group.len()).unwrap_or(u32::MAX));
        let holds: Holds = group.iter_mut().filter_map(WaitingRequest::take_hold).collect();
        let bundle = (group.len() > 1).then(|| bundle(&self.caller, &group));
        let (publisher, wait) = (Arc::clone(&self.publisher), self.publisher.wait);
        // Dropping `self` begins the caller's next publish.
        let under_way = Mutex::new(Some(self));
        let end = || drop(under_way.lock().take());
        let reply = {
            let message = bundle.as_ref().unwrap_or(&group[0].message);
            let mut call = pin!(publisher.queue.call(message, holds, end, is_followed.notified()));
            match timeout(wait, &mut call).await {
                Ok(reply) => reply,
                Err(_) => {
                    end();
                    call.await
                }
            }
        };
        end();
        reply_to_each(group, reply);
    }
}

impl Drop for PublishUnderWay {
    fn drop(&mut self) {
        if !self.publisher.waiting.lock().end_if_idle(&self.caller) {
            self.publisher.begin(self.caller.clone());
        }
    }
}

/// The message of several requests.
fn bundle(caller: &Caller, group: &[WaitingRequest]) -> RequestMessage {
    let messages = || group.iter().map(|waiting| &waiting.message);
    let requests: Vec<BundledRequest<'_>> = messages().map(RequestMessage::bundled).collect();
    let (meta, body) = BundleMeta::join(caller.clone(), clock::database_now(), &requests);
    let id = Uuid::now_v7();
    for waiting in group {
        let requests = group.len();
        waiting.span.in_scope(|| tracing::debug!(message_id = %id, requests, "publishing requests in one message"));
    }
    let last = |of: fn(&RequestMessage) -> Instant| messages().map(of).max().unwrap_or_else(Instant::now);
    RequestMessage {
        id,
        meta: meta.to_header(),
        // Each request has its own.
        traceparent: None,
        body: body.into(),
        accepted: messages().map(|message| message.accepted).sum(),
        confirm_by: last(|message| message.confirm_by),
        reply_by: last(|message| message.reply_by),
    }
}

/// Hands each request its result; ignored if its caller has hung up.
fn reply_to_each(mut group: Vec<WaitingRequest>, reply: Result<Vec<u8>, CallError>) {
    if group.len() == 1
        && let Some(waiting) = group.pop()
    {
        return drop(waiting.result.send(reply));
    }
    let results = match reply {
        Ok(reply) => split_reply(&reply, group.len()).unwrap_or_else(|| {
            let requests = group.iter().map(|waiting| waiting.message.id.to_string());
            let request_ids = requests.collect::<Vec<_>>().join(" ");
            limited!(
                MISMATCHES[0],
                error,
                request_ids,
                "the worker's reply does not match its bundle; responding 503 to its requests"
            );
            vec![None; group.len()]
        }),
        Err(error) => return group.into_iter().for_each(|waiting| drop(waiting.result.send(Err(error)))),
    };
    for (waiting, result) in group.into_iter().zip(results) {
        drop(waiting.result.send(result.ok_or(CallError::NoReply)));
    }
}
