//! The requests that wait for a publish of their caller's to end. Pure, but for the channels in it.

use super::SmallRequest;
use common::broker::{CallError, Hold};
use common::bundle::BUNDLE_BYTES_MAX;
use common::caller::Caller;
use common::event::BATCH_MAX;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::oneshot;
use tracing::Span;

/// Requests that may wait, of all callers. More than are ever under way, unless the settings say otherwise.
pub(super) const WAITING_MAX: usize = 4_096;

const WAITING: u8 = 0;
const HANDED_OVER: u8 = 1;
const CONFIRMED: u8 = 2;
const GIVEN_UP: u8 = 3;

/// How far a request has come, as its two sides agree on it.
#[derive(Debug, Default)]
pub(super) struct Handover(AtomicU8);

impl Handover {
    /// Has the request be published, unless it was given up.
    pub(super) fn hand_over(&self) -> bool {
        self.0.compare_exchange(WAITING, HANDED_OVER, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Has the request not be published any more, unless it is handed over already.
    pub(super) fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The broker has confirmed the request's message.
    pub(super) fn confirm(&self) {
        self.0.store(CONFIRMED, Ordering::Release);
    }

    /// Whether it has.
    pub(super) fn is_confirmed(&self) -> bool {
        self.0.load(Ordering::Acquire) == CONFIRMED
    }
}

/// A request that waits. Its receiver is gone once its caller has hung up.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) request: SmallRequest,
    /// What log lines about it name.
    pub(super) span: Span,
    pub(super) handover: Arc<Handover>,
    pub(super) result: oneshot::Sender<Result<Vec<u8>, CallError>>,
}

impl WaitingRequest {
    /// What is kept until its message has been replied to, also when its caller hangs up.
    pub(super) fn take_hold(&mut self) -> Option<Box<dyn Hold>> {
        self.request.share.take().map(|share| Box::new(share) as Box<dyn Hold>)
    }
}

/// The queue of waiting requests is full.
#[derive(Debug)]
pub(super) struct Full;

/// Waiting requests by caller, in the order in which they came. A caller has an entry exactly while a publish of its
/// requests is under way, so there are as few entries as such callers.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    by_caller: HashMap<Caller, Vec<WaitingRequest>>,
    count: usize,
}

impl WaitingRequests {
    /// Adds a request. Gives whether no publish of its caller was under way: one has to be begun.
    pub(super) fn add(&mut self, caller: &Caller, request: WaitingRequest) -> Result<bool, Full> {
        if self.count == WAITING_MAX {
            return Err(Full);
        }
        self.count += 1;
        if let Some(waiting) = self.by_caller.get_mut(caller) {
            waiting.push(request);
            return Ok(false);
        }
        self.by_caller.insert(caller.clone(), vec![request]);
        Ok(true)
    }

    /// Takes what one message may hold, and hands it over.
    pub(super) fn take(&mut self, caller: &Caller) -> Vec<WaitingRequest> {
        let Some(waiting) = self.by_caller.get_mut(caller) else { return Vec::new() };
        let before = waiting.len();
        // A caller who has hung up has no use for being published.
        waiting.retain(|waiting| !waiting.result.is_closed());
        let fitting = fitting(waiting);
        let mut group: Vec<WaitingRequest> = waiting.drain(..fitting).collect();
        self.count -= before - waiting.len();
        group.retain(|waiting| waiting.handover.hand_over());
        group
    }

    /// Notes that no publish of the caller is under way any more, unless something waits for the next one; gives whether
    /// nothing does.
    pub(super) fn end_if_idle(&mut self, caller: &Caller) -> bool {
        let is_idle = self.by_caller.get(caller).is_none_or(Vec::is_empty);
        if is_idle {
            self.by_caller.remove(caller);
        }
        is_idle
    }
}

/// How many of the first requests one message may hold; at least one where there is one.
fn fitting(waiting: &[WaitingRequest]) -> usize {
    let (mut events, mut bytes) = (0, 0);
    let fits = |waiting: &&WaitingRequest| {
        let batch = &waiting.request.batch;
        events += usize::from(batch.events);
        bytes += batch.text.len() + 1;
        events <= BATCH_MAX && bytes <= BUNDLE_BYTES_MAX
    };
    waiting.iter().take_while(fits).count().max(waiting.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::ValidBatch;
    use bytes::Bytes;
    use common::model::{KeyPrefix, Scopes, TenantId};
    use common::trace::{TraceContext, Trail};
    use tokio::sync::oneshot::Receiver;
    use tokio::time::Instant;
    use uuid::Uuid;

    type Outcome = Result<Vec<u8>, CallError>;

    fn caller(key: &str) -> Caller {
        Caller {
            tenant_id: TenantId(Uuid::nil()),
            tenant: "acme".to_owned(),
            key: KeyPrefix::parse(key).unwrap(),
            scopes: Scopes::default(),
            origin: None,
        }
    }

    fn request(events: u16, bytes: usize) -> (WaitingRequest, Receiver<Outcome>) {
        let (result, outcome) = oneshot::channel();
        let text = Bytes::from(vec![b' '; bytes]);
        let request = SmallRequest {
            trail: Trail { request_id: Uuid::now_v7(), context: TraceContext::begin(false) },
            batch: ValidBatch { body: text.clone(), text, events },
            confirm_by: Instant::now(),
            reply_by: Instant::now(),
            share: None,
        };
        (WaitingRequest { request, span: Span::none(), handover: Arc::default(), result }, outcome)
    }

    /// Adds requests of that many events and bytes each, and gives their receivers.
    fn add(waiting: &mut WaitingRequests, requests: &[(u16, usize)]) -> Vec<Receiver<Outcome>> {
        let mut receivers = Vec::new();
        for &(events, bytes) in requests {
            let (request, receiver) = request(events, bytes);
            waiting.add(&caller("ck_a"), request).unwrap();
            receivers.push(receiver);
        }
        receivers
    }

    fn sizes(waiting: &mut WaitingRequests, limit: usize) -> Vec<usize> {
        (0..limit).map(|_| waiting.take(&caller("ck_a")).len()).collect()
    }

    #[test]
    fn only_the_first_request_of_a_caller_begins_a_publish() {
        let mut waiting = WaitingRequests::default();
        let mut add = |key| waiting.add(&caller(key), request(1, 10).0).unwrap();
        assert_eq!([add("ck_a"), add("ck_a"), add("ck_b"), add("ck_a")], [true, false, true, false]);
        // What waits begins the next publish; without it the caller's next request does.
        assert!(!waiting.end_if_idle(&caller("ck_b")));
        assert_eq!(waiting.take(&caller("ck_b")).len(), 0, "its caller has hung up");
        assert!(waiting.end_if_idle(&caller("ck_b")));
        assert!(waiting.add(&caller("ck_b"), request(1, 10).0).unwrap());
    }

    #[test]
    fn a_message_is_bounded_in_events_and_bytes_and_holds_at_least_one_request() {
        let mut waiting = WaitingRequests::default();
        let _events = add(&mut waiting, &[(60, 10), (40, 10), (1, 10)]);
        assert_eq!(sizes(&mut waiting, 3), [2, 1, 0]);
        let half = BUNDLE_BYTES_MAX / 2;
        let _bytes = add(&mut waiting, &[(1, half), (1, half), (1, BUNDLE_BYTES_MAX), (1, 10)]);
        assert_eq!(sizes(&mut waiting, 5), [1, 1, 1, 1, 0]);
        assert_eq!(waiting.count, 0);
    }

    #[test]
    fn who_has_hung_up_or_given_up_is_not_published() {
        let mut waiting = WaitingRequests::default();
        let mut receivers = add(&mut waiting, &[(1, 10), (2, 10), (3, 10)]);
        drop(receivers.remove(0));
        assert!(waiting.by_caller[&caller("ck_a")][1].handover.give_up());
        let taken = waiting.take(&caller("ck_a"));
        let events: Vec<u16> = taken.iter().map(|waiting| waiting.request.batch.events).collect();
        assert_eq!((events, waiting.count), (vec![3], 0));
        assert!(!taken[0].handover.give_up(), "it is handed over");
    }

    #[test]
    fn the_queue_is_bounded_over_all_callers() {
        let mut waiting = WaitingRequests::default();
        let _receivers = add(&mut waiting, &vec![(1, 1); WAITING_MAX]);
        assert!(waiting.add(&caller("ck_b"), request(1, 1).0).is_err());
        waiting.take(&caller("ck_a"));
        assert!(waiting.add(&caller("ck_b"), request(1, 1).0).unwrap());
    }
}
