//! Accounts of events: what the broker has confirmed was applied, has failed, or is in flight.
//!
//! Events are confirmed together with their message, and settled when the worker's reply arrives, also after their caller's timeout.
//! If the reply is lost, for example with the connection to the broker, ingest [checks](checks) the message once the queue is
//! empty. Events that are not settled by then are unaccounted: their number is 0 while the system is at rest, unless
//! messages were lost.
//!
//! Each ingest does this for its own messages, in memory, so a process that ends forgets them.

mod checks;
mod totals;

use bytes::Bytes;
pub(crate) use checks::check_unreplied;
use common::broker::Hold;
use common::limited;
use common::log_limit::LogLimit;
use common::message::BatchMeta;
use common::metrics::{
    EVENTS_CONFIRMED, EVENTS_FORGOTTEN, EVENTS_IN_FLIGHT, EVENTS_SETTLED, EVENTS_UNACCOUNTED,
};
use metrics::{Counter, Gauge};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use totals::{EventTotals, Totals, UnrepliedMessage};

/// Limits the log lines: about unaccounted events, events that are not checked any longer, and messages that are not kept.
static LOGGED: LogLimit<3> = LogLimit::new();

/// The accounts of this process; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventAccounts(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    totals: Mutex<Totals>,
    metrics: TotalsMetrics,
}

/// Looked up once, because each message changes them.
#[derive(Debug)]
struct TotalsMetrics {
    confirmed: Counter,
    settled: Counter,
    in_flight: Gauge,
    unaccounted: Gauge,
    forgotten: Counter,
}

/// A message from its publish to its reply.
#[derive(Debug)]
struct TrackedMessage {
    accounts: EventAccounts,
    meta: Arc<BatchMeta>,
    body: Mutex<TrackedBody>,
    is_confirmed: AtomicBool,
    is_settled: AtomicBool,
}

/// The body of a tracked message, which a check needs.
#[derive(Debug)]
enum TrackedBody {
    /// Shared with the request, whose memory it counts as.
    Shared(Bytes),
    /// A copy, for which capacity is reserved, because the caller has its response.
    Kept(Bytes),
    /// Too many messages are kept: this one will not be checked.
    Dropped,
}

impl EventAccounts {
    /// Accounts without events. To be called after the metrics are installed.
    pub(crate) fn new() -> Self {
        let metrics = TotalsMetrics {
            confirmed: metrics::counter!(EVENTS_CONFIRMED),
            settled: metrics::counter!(EVENTS_SETTLED),
            in_flight: metrics::gauge!(EVENTS_IN_FLIGHT),
            unaccounted: metrics::gauge!(EVENTS_UNACCOUNTED),
            forgotten: metrics::counter!(EVENTS_FORGOTTEN),
        };
        metrics.set(EventTotals::default());
        Self(Arc::new(Shared { totals: Mutex::default(), metrics }))
    }

    /// Accounts for a message that is about to be published.
    pub(super) fn track(&self, meta: Arc<BatchMeta>, body: Bytes) -> Box<dyn Hold> {
        Box::new(TrackedMessage {
            accounts: self.clone(),
            meta,
            body: Mutex::new(TrackedBody::Shared(body)),
            is_confirmed: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        })
    }

    fn next_due(&self, now: Instant) -> Option<UnrepliedMessage> {
        self.totals().next_due(now)
    }

    fn postpone(&self, message: &UnrepliedMessage) {
        self.totals().postpone(message, Instant::now());
    }

    fn record_check(&self, message: &UnrepliedMessage, settled: u64) {
        let events = self.change(|totals| totals.record_check(message, settled, Instant::now()));
        if events > 0 {
            let (tenant, request_ids) = (&message.meta.caller.tenant, message.meta.request_ids());
            limited!(
                LOGGED[0],
                error,
                tenant,
                request_ids,
                events,
                "events of a message that RabbitMQ confirmed are neither applied nor failed, and the queue is empty; checking again for an hour"
            );
        }
    }

    fn forget_old(&self) {
        let events = self.change(|totals| totals.forget_old(Instant::now()));
        if events > 0 {
            limited!(
                LOGGED[1],
                error,
                events,
                "events that RabbitMQ confirmed have had no result for an hour; not checking them any longer"
            );
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Totals) -> T) -> T {
        let mut totals = self.totals();
        let changed = change(&mut totals);
        self.0.metrics.set(totals.events());
        changed
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.0.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TotalsMetrics {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn set(&self, totals: EventTotals) {
        self.confirmed.absolute(totals.confirmed);
        self.settled.absolute(totals.settled);
        self.in_flight.set(totals.in_flight as f64);
        self.unaccounted.set(totals.unaccounted as f64);
        self.forgotten.absolute(totals.forgotten);
    }
}

impl TrackedMessage {
    /// Counts the events as confirmed, unless they are already.
    fn confirm(&self) {
        if !self.is_confirmed.swap(true, Ordering::Relaxed) {
            self.accounts.change(|totals| totals.confirm(self.events()));
        }
    }

    /// Replaces a shared body by a copy, unless too many messages are kept.
    fn keep_body(&self) {
        let mut body = self.body();
        let TrackedBody::Shared(shared) = &*body else { return };
        let kept = self.accounts.totals().reserve(shared.len());
        *body = kept.map_or(TrackedBody::Dropped, |()| TrackedBody::Kept(Bytes::copy_from_slice(shared)));
    }

    /// The reply of a confirmed message was lost.
    fn check_later(&self) {
        self.keep_body();
        let body = std::mem::replace(&mut *self.body(), TrackedBody::Dropped);
        let meta = Arc::clone(&self.meta);
        if let TrackedBody::Kept(body) = body {
            return self.accounts.change(|totals| totals.add_unreplied(meta, body, Instant::now()));
        }
        self.accounts.change(|totals| totals.forget(self.events()));
        let (tenant, request_ids) = (&meta.caller.tenant, meta.request_ids());
        limited!(
            LOGGED[2],
            warn,
            tenant,
            request_ids,
            "too many messages have no reply; not checking whether this one was applied"
        );
    }

    fn events(&self) -> u64 {
        u64::from(self.meta.events)
    }

    fn body(&self) -> MutexGuard<'_, TrackedBody> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold for TrackedMessage {
    fn confirmed(&self) {
        self.confirm();
    }

    fn abandoned(&self) {
        self.keep_body();
    }

    fn replied(&self) {
        // A reply may arrive before the confirm.
        self.confirm();
        self.is_settled.store(true, Ordering::Relaxed);
        self.accounts.change(|totals| totals.settle(self.events()));
    }

    fn unreplied_hold_time(&self) -> Duration {
        // It need not wait longer than the message's share of the backlog.
        Duration::ZERO
    }

    fn release_after_longest_wait(self: Box<Self>) {
        // Dropped at once: the message will be checked.
    }
}

impl Drop for TrackedMessage {
    fn drop(&mut self) {
        if *self.is_confirmed.get_mut() && !*self.is_settled.get_mut() {
            self.check_later();
        } else if let TrackedBody::Kept(body) = &*self.body() {
            self.accounts.totals().release(body.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(accounts: &EventAccounts) -> Box<dyn Hold> {
        accounts.track(totals::tests::meta(3), Bytes::from_static(b"body"))
    }

    fn numbers(confirmed: u64, settled: u64, in_flight: u64) -> EventTotals {
        EventTotals { confirmed, settled, in_flight, ..EventTotals::default() }
    }

    #[test]
    fn a_reply_settles_a_message_before_and_after_its_callers_timeout() {
        for is_late in [false, true] {
            let accounts = EventAccounts::new();
            let message = tracked(&accounts);
            message.confirmed();
            assert_eq!(accounts.totals().events(), numbers(3, 0, 3));
            if is_late {
                message.abandoned();
            }
            message.replied();
            drop(message);
            assert_eq!(accounts.totals().events(), numbers(3, 3, 0));
            assert!(accounts.next_due(Instant::now()).is_none());
        }
    }

    #[test]
    fn a_reply_before_the_confirm_counts_once() {
        let accounts = EventAccounts::new();
        let message = tracked(&accounts);
        message.replied();
        message.confirmed();
        drop(message);
        assert_eq!(accounts.totals().events(), numbers(3, 3, 0));
    }

    #[test]
    fn a_confirmed_message_without_a_reply_is_due_for_a_check() {
        for is_abandoned in [false, true] {
            let accounts = EventAccounts::new();
            let message = tracked(&accounts);
            message.confirmed();
            if is_abandoned {
                message.abandoned();
            }
            message.release_after_longest_wait();
            assert_eq!(accounts.totals().events(), numbers(3, 0, 3));
            assert_eq!(
                accounts.next_due(Instant::now()).map(|due| due.body),
                Some(Bytes::from_static(b"body"))
            );
        }
    }

    #[test]
    fn a_message_that_was_not_confirmed_does_not_count() {
        for is_abandoned in [false, true] {
            let accounts = EventAccounts::new();
            let message = tracked(&accounts);
            if is_abandoned {
                message.abandoned();
            }
            drop(message);
            assert_eq!(accounts.totals().events(), numbers(0, 0, 0));
            assert!(accounts.next_due(Instant::now()).is_none());
        }
    }
}
