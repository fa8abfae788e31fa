//! The requests that wait until the current publish of their caller ends. Pure, except for the channels in it. Each has
//! its share of the backlog and of the memory for bodies, so they need no bound of their own.

use crate::admission::Share;
use crate::publish::RequestMessage;
use common::broker::{CallError, Hold};
use common::bundle::BUNDLE_BYTES_MAX;
use common::caller::Caller;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, oneshot};
use tracing::Span;

/// Whether a request is published or canceled, shared by its caller's task and the publisher: the first one decides.
#[derive(Debug, Default)]
pub(super) struct PublishState(AtomicBool);

impl PublishState {
    /// True the first time: whoever calls it publishes the request, or gives it up.
    pub(super) fn decide(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// A request that waits. The receiver of its result is dropped when its caller hangs up.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) message: RequestMessage,
    /// Its share of the backlog.
    pub(super) share: Option<Share>,
    /// The request's span, for log lines about it.
    pub(super) span: Span,
    pub(super) state: Arc<PublishState>,
    pub(super) result: oneshot::Sender<Result<Vec<u8>, CallError>>,
}

impl WaitingRequest {
    /// The share of the backlog, which is held until the message has its reply, also when the caller hangs up.
    pub(super) fn take_hold(&mut self) -> Option<Box<dyn Hold>> {
        self.share.take().map(|share| Box::new(share) as Box<dyn Hold>)
    }
}

/// Waiting requests by caller, in the order in which they came. A caller has an entry exactly while a publish of its
/// requests is under way, so there are as few entries as such callers.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests(HashMap<Caller, OfCaller>);

#[derive(Debug, Default)]
struct OfCaller {
    requests: Vec<WaitingRequest>,
    /// Notified when a request waits for the publish under way.
    is_followed: Arc<Notify>,
}

impl WaitingRequests {
    /// Adds a request. True when no publish of its caller is under way: the caller of this method must begin one.
    pub(super) fn add(&mut self, caller: &Caller, request: WaitingRequest) -> bool {
        if let Some(waiting) = self.0.get_mut(caller) {
            waiting.requests.push(request);
            waiting.is_followed.notify_one();
            return false;
        }
        self.0.insert(caller.clone(), OfCaller { requests: vec![request], ..OfCaller::default() });
        true
    }

    /// Takes the requests that fit one message of so many events, and claims them. Removes those whose callers have hung up: only now,
    /// because hanging up frees no share of the backlog while the message before is under way. What is returned beside them
    /// is notified when others wait for the end of their publish.
    pub(super) fn take(&mut self, caller: &Caller, events: usize) -> (Vec<WaitingRequest>, Arc<Notify>) {
        let Some(OfCaller { requests, is_followed }) = self.0.get_mut(caller) else { return Default::default() };
        requests.retain(|waiting| !waiting.result.is_closed());
        let fitting = fitting(requests, events);
        let mut group: Vec<WaitingRequest> = requests.drain(..fitting).collect();
        group.retain(|waiting| waiting.state.decide());
        *is_followed = Arc::default();
        if !requests.is_empty() {
            is_followed.notify_one();
        }
        (group, Arc::clone(is_followed))
    }

    /// Ends the publish of the caller if no request waits for the next one, and returns whether it did.
    pub(super) fn end_if_idle(&mut self, caller: &Caller) -> bool {
        let is_idle = self.0.get(caller).is_none_or(|waiting| waiting.requests.is_empty());
        if is_idle {
            self.0.remove(caller);
        }
        is_idle
    }
}

/// How many of the first requests fit into one message; at least one, if there is a request.
fn fitting(waiting: &[WaitingRequest], most: usize) -> usize {
    let (mut events, mut bytes) = (0, 0);
    let fits = |waiting: &&WaitingRequest| {
        events += usize::from(waiting.message.weight());
        bytes += waiting.message.size();
        events <= most && bytes <= BUNDLE_BYTES_MAX
    };
    waiting.iter().take_while(fits).count().max(waiting.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ApiKey;
    use bytes::Bytes;
    use common::event::BATCH_MAX;
    use common::model::KeyPrefix;
    use futures_util::FutureExt;
    use tokio::sync::oneshot::Receiver;
    use tokio::time::Instant;
    use uuid::Uuid;

    type Outcome = Result<Vec<u8>, CallError>;

    fn caller(key: &str) -> Caller {
        Caller { key: KeyPrefix::parse(key).unwrap(), ..Caller::clone(&ApiKey::for_tests().caller) }
    }

    fn request(events: u16, bytes: usize) -> (WaitingRequest, Receiver<Outcome>) {
        let (result, outcome) = oneshot::channel();
        let message = RequestMessage {
            id: Uuid::now_v7(),
            meta: String::new(),
            traceparent: None,
            body: Bytes::from(vec![b' '; bytes]),
            accepted: events,
            confirm_by: Instant::now(),
            reply_by: Instant::now(),
        };
        (WaitingRequest { message, share: None, span: Span::none(), state: Arc::default(), result }, outcome)
    }

    /// Adds requests of that many events and bytes each, and gives their receivers.
    fn add(waiting: &mut WaitingRequests, requests: &[(u16, usize)]) -> Vec<Receiver<Outcome>> {
        let mut receivers = Vec::new();
        for &(events, bytes) in requests {
            let (request, receiver) = request(events, bytes);
            waiting.add(&caller("ck_a"), request);
            receivers.push(receiver);
        }
        receivers
    }

    fn sizes(waiting: &mut WaitingRequests, limit: usize) -> Vec<usize> {
        (0..limit).map(|_| waiting.take(&caller("ck_a"), BATCH_MAX).0.len()).collect()
    }

    #[test]
    fn only_the_first_request_of_a_caller_begins_a_publish() {
        let mut waiting = WaitingRequests::default();
        let mut add = |key| waiting.add(&caller(key), request(1, 10).0);
        assert_eq!([add("ck_a"), add("ck_a"), add("ck_b"), add("ck_a")], [true, false, true, false]);
        // What waits begins the next publish; without it the caller's next request does.
        assert!(!waiting.end_if_idle(&caller("ck_b")));
        assert_eq!(waiting.take(&caller("ck_b"), BATCH_MAX).0.len(), 0, "its caller has hung up");
        assert!(waiting.end_if_idle(&caller("ck_b")));
        assert!(waiting.add(&caller("ck_b"), request(1, 10).0));
    }

    #[test]
    fn a_message_is_bounded_in_events_and_bytes_and_holds_at_least_one_request() {
        let mut waiting = WaitingRequests::default();
        let _events = add(&mut waiting, &[(60, 10), (40, 10), (1, 10)]);
        assert_eq!(sizes(&mut waiting, 3), [2, 1, 0]);
        let half = BUNDLE_BYTES_MAX / 2;
        let _bytes = add(&mut waiting, &[(1, half), (1, half), (1, half + 1), (1, BUNDLE_BYTES_MAX), (1, 10)]);
        assert_eq!(sizes(&mut waiting, 5), [2, 1, 1, 1, 0]);
        // A write has no events, and counts as one.
        let _writes = add(&mut waiting, &[(0, 10); 3]);
        assert_eq!(waiting.take(&caller("ck_a"), 2).0.len(), 2);
    }

    #[test]
    fn a_publish_is_told_that_others_wait_for_its_end() {
        let mut waiting = WaitingRequests::default();
        let _first = add(&mut waiting, &[(60, 10)]);
        let (group, is_followed) = waiting.take(&caller("ck_a"), BATCH_MAX);
        assert_eq!((group.len(), is_followed.notified().now_or_never()), (1, None));
        let _others = add(&mut waiting, &[(60, 10), (60, 10)]);
        assert_eq!(is_followed.notified().now_or_never(), Some(()));
        // One message has not enough space for both.
        let (group, is_followed) = waiting.take(&caller("ck_a"), BATCH_MAX);
        assert_eq!((group.len(), is_followed.notified().now_or_never()), (1, Some(())));
    }

    #[test]
    fn requests_that_hung_up_or_timed_out_are_not_published() {
        let mut waiting = WaitingRequests::default();
        let mut receivers = add(&mut waiting, &[(1, 10), (2, 10), (3, 10)]);
        drop(receivers.remove(0));
        assert!(waiting.0[&caller("ck_a")].requests[1].state.decide());
        let (taken, _) = waiting.take(&caller("ck_a"), BATCH_MAX);
        let events: Vec<u16> = taken.iter().map(|waiting| waiting.message.accepted).collect();
        assert_eq!(events, [3]);
        assert!(waiting.end_if_idle(&caller("ck_a")), "none waits");
        assert!(!taken[0].state.decide(), "it is claimed");
    }
}
