//! The requests that wait until the current publish of their caller ends. Pure, except for the channels in it.

use super::SmallRequest;
use crate::limits::backlog::Share;
use common::broker::{CallError, Hold};
use common::bundle::BUNDLE_BYTES_MAX;
use common::caller::Caller;
use common::event::BATCH_MAX;
use common::model::TenantId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::oneshot;
use tracing::Span;

/// The most requests that may wait, of all callers. With the default settings fewer are ever under way, so that only
/// requests whose callers have hung up can fill the queue.
pub(super) const WAITING_MAX: usize = 4_096;
/// The most requests of one tenant, with all of its keys, that may wait.
const TENANT_WAITING_MAX: usize = WAITING_MAX / 4;

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const CONFIRMED: u8 = 2;
const CANCELED: u8 = 3;

/// The state of a request, shared by its caller's task and the publisher.
#[derive(Debug, Default)]
pub(super) struct PublishState(AtomicU8);

impl PublishState {
    /// Claims the request for publishing. False when it was canceled.
    pub(super) fn claim(&self) -> bool {
        self.0.compare_exchange(WAITING, CLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Cancels the publish of the request. False when it is claimed already.
    pub(super) fn cancel(&self) -> bool {
        self.0.compare_exchange(WAITING, CANCELED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Notes that the broker has confirmed the request's message.
    pub(super) fn confirm(&self) {
        self.0.store(CONFIRMED, Ordering::Release);
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.0.load(Ordering::Acquire) == CONFIRMED
    }
}

/// A request that waits. The receiver of its result is dropped when its caller hangs up.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) request: SmallRequest,
    /// The request's span, for log lines about it.
    pub(super) span: Span,
    pub(super) state: Arc<PublishState>,
    pub(super) result: oneshot::Sender<Result<Vec<u8>, CallError>>,
}

impl WaitingRequest {
    /// The share of the backlog, which is held until the message has its reply, also when the caller hangs up.
    pub(super) fn take_hold(&mut self) -> Option<Box<dyn Hold>> {
        self.request.share.take().map(|share| Box::new(share) as Box<dyn Hold>)
    }
}

/// The queue of waiting requests is full.
#[derive(Debug)]
pub(super) struct PublishQueueFull;

/// Waiting requests by caller, in the order in which they came. A caller has an entry exactly while a publish of its
/// requests is under way, so there are as few entries as such callers.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    by_caller: HashMap<Caller, CallerRequests>,
    /// The number of waiting requests of each tenant that has any.
    by_tenant: HashMap<TenantId, usize>,
    count: usize,
}

/// The waiting requests of one caller.
#[derive(Debug, Default)]
struct CallerRequests {
    requests: Vec<WaitingRequest>,
    /// The shares of requests that were removed because their callers had hung up. Kept until the publish under way ends:
    /// hanging up frees nothing.
    shares_of_hung_up: Vec<Share>,
}

impl CallerRequests {
    /// Removes the requests whose callers have hung up, and returns their number.
    fn remove_hung_up(&mut self) -> usize {
        let before = self.requests.len();
        for mut hung_up in self.requests.extract_if(.., |waiting| waiting.result.is_closed()) {
            self.shares_of_hung_up.extend(hung_up.request.share.take());
        }
        before - self.requests.len()
    }
}

impl WaitingRequests {
    /// Adds a request. True when no publish of its caller is under way: the caller of this method must begin one.
    pub(super) fn add(&mut self, caller: &Caller, request: WaitingRequest) -> Result<bool, PublishQueueFull> {
        if self.is_full(caller.tenant_id) {
            self.remove_hung_up();
            if self.is_full(caller.tenant_id) {
                return Err(PublishQueueFull);
            }
        }
        self.count += 1;
        *self.by_tenant.entry(caller.tenant_id).or_insert(0) += 1;
        if let Some(waiting) = self.by_caller.get_mut(caller) {
            waiting.requests.push(request);
            return Ok(false);
        }
        let first = CallerRequests { requests: vec![request], shares_of_hung_up: Vec::new() };
        self.by_caller.insert(caller.clone(), first);
        Ok(true)
    }

    /// Takes the requests that fit one message, and claims them.
    pub(super) fn take(&mut self, caller: &Caller) -> Vec<WaitingRequest> {
        let Some(waiting) = self.by_caller.get_mut(caller) else { return Vec::new() };
        let before = waiting.requests.len();
        waiting.remove_hung_up();
        waiting.shares_of_hung_up = Vec::new();
        let fitting = fitting(&waiting.requests);
        let mut group: Vec<WaitingRequest> = waiting.requests.drain(..fitting).collect();
        let removed = before - waiting.requests.len();
        self.note_removed(caller.tenant_id, removed);
        group.retain(|waiting| waiting.state.claim());
        group
    }

    /// Ends the publish of the caller if no request waits for the next one, and returns whether it did.
    pub(super) fn end_if_idle(&mut self, caller: &Caller) -> bool {
        let is_idle = self.by_caller.get(caller).is_none_or(|waiting| waiting.requests.is_empty());
        if is_idle {
            self.by_caller.remove(caller);
        }
        is_idle
    }

    fn is_full(&self, tenant: TenantId) -> bool {
        let own = self.by_tenant.get(&tenant).copied().unwrap_or(0);
        self.count >= WAITING_MAX || own >= TENANT_WAITING_MAX
    }

    /// Removes the requests of all callers that have hung up.
    fn remove_hung_up(&mut self) {
        let removed: Vec<(TenantId, usize)> = self
            .by_caller
            .iter_mut()
            .map(|(caller, waiting)| (caller.tenant_id, waiting.remove_hung_up()))
            .collect();
        for (tenant, removed) in removed {
            self.note_removed(tenant, removed);
        }
    }

    fn note_removed(&mut self, tenant: TenantId, removed: usize) {
        self.count -= removed;
        if let Some(own) = self.by_tenant.get_mut(&tenant) {
            *own -= removed;
            if *own == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

/// How many of the first requests fit into one message; at least one, if there is a request.
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
    use crate::publish::events::ValidBatch;
    use bytes::Bytes;
    use common::model::{KeyPrefix, Scopes};
    use common::trace::{RequestContext, TraceContext};
    use tokio::sync::oneshot::Receiver;
    use tokio::time::Instant;
    use uuid::Uuid;

    type Outcome = Result<Vec<u8>, CallError>;

    fn caller(key: &str) -> Caller {
        caller_of(0, key)
    }

    fn caller_of(tenant: u128, key: &str) -> Caller {
        Caller {
            tenant_id: TenantId(Uuid::from_u128(tenant)),
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
            request_context: RequestContext {
                request_id: Uuid::now_v7(),
                context: TraceContext::begin(false),
            },
            batch: ValidBatch { body: text.clone(), text, events, dry_run: false },
            confirm_by: Instant::now(),
            reply_by: Instant::now(),
            share: None,
        };
        (WaitingRequest { request, span: Span::none(), state: Arc::default(), result }, outcome)
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
    fn requests_that_hung_up_or_timed_out_are_not_published() {
        let mut waiting = WaitingRequests::default();
        let mut receivers = add(&mut waiting, &[(1, 10), (2, 10), (3, 10)]);
        drop(receivers.remove(0));
        assert!(waiting.by_caller[&caller("ck_a")].requests[1].state.cancel());
        let taken = waiting.take(&caller("ck_a"));
        let events: Vec<u16> = taken.iter().map(|waiting| waiting.request.batch.events).collect();
        assert_eq!((events, waiting.count), (vec![3], 0));
        assert!(!taken[0].state.cancel(), "it is claimed");
    }

    /// Adds requests of a tenant until it is refused.
    fn fill(waiting: &mut WaitingRequests, tenant: u128) -> Vec<Receiver<Outcome>> {
        std::iter::from_fn(|| {
            let (request, receiver) = request(1, 1);
            waiting.add(&caller_of(tenant, "ck_a"), request).ok().map(|_| receiver)
        })
        .collect()
    }

    #[test]
    fn the_queue_is_bounded_for_each_tenant_and_over_all_of_them() {
        let mut waiting = WaitingRequests::default();
        let held: Vec<_> = (0..5).map(|tenant| fill(&mut waiting, tenant)).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [TENANT_WAITING_MAX, 1_024, 1_024, 1_024, 0]);
        assert!(waiting.add(&caller_of(0, "ck_b"), request(1, 1).0).is_err(), "another key of the tenant");
        let taken = waiting.take(&caller_of(0, "ck_a"));
        assert_eq!(fill(&mut waiting, 5).len(), taken.len());
    }

    #[test]
    fn requests_whose_callers_have_hung_up_fill_no_queue() {
        let mut waiting = WaitingRequests::default();
        let kept = fill(&mut waiting, 1);
        let closed: Vec<_> = (2..=4).map(|tenant| fill(&mut waiting, tenant)).collect();
        assert_eq!(waiting.count, WAITING_MAX);
        drop(closed);
        assert!(waiting.add(&caller_of(5, "ck_a"), request(1, 1).0).unwrap());
        assert_eq!((waiting.count, waiting.by_tenant.len()), (kept.len() + 1, 2));
        assert!(!waiting.end_if_idle(&caller_of(1, "ck_a")) && waiting.end_if_idle(&caller_of(2, "ck_a")));
    }
}
