//! What the callers of a run were told: every confirmed effect, and everything that may have had an effect.

use super::plan::{Fault, FaultKind};
use crate::world::text;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum number of violations that are kept; the others are counted.
const VIOLATIONS: usize = 200;

/// The ids of a result: client, lead and trip.
pub(super) type Ids = [Option<String>; 3];

#[derive(Debug)]
pub(super) struct SentEvent {
    pub(super) tenant: usize,
    /// How often it was `accepted`.
    pub(super) accepted: u32,
    /// The ids of its first result; the others must be the same.
    pub(super) ids: Option<Ids>,
    /// Whether it must fail: no client has its identity.
    pub(super) must_fail: bool,
}

/// A record with a name of its own that was written once, such as a lead with an external id.
#[derive(Debug, Default)]
pub(super) struct SentWrite {
    /// What the response said of it, if it was confirmed: its id, or an empty text.
    pub(super) confirmed: Option<String>,
}

/// A balance of corporate credit that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// Time and amount are both derived from this number, so that a row with the time of one balance and the amount of another is
    /// detected.
    pub(super) number: i64,
    pub(super) is_confirmed: bool,
}

/// Kinds of writes, each with names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WriteKind {
    /// A client, by its email.
    Client,
    /// A change of a client, by the email and the new name.
    ClientName,
    /// A lead, by its external id.
    Lead,
    /// A message in the inbox of a lead, by its text.
    Message,
    /// An advisor action, by its message id.
    Action,
    /// A booking, by its reference.
    Booking,
}

/// Everything that was sent.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// By event id.
    pub(super) events: HashMap<String, SentEvent>,
    /// The client of a person, by tenant and email, as the first result said.
    pub(super) people: HashMap<(usize, String), String>,
    /// By tenant, kind and name.
    pub(super) writes: HashMap<(usize, WriteKind, String), SentWrite>,
    /// The numbers of enquiries that responses showed, by the lead's id.
    pub(super) enquiry_numbers: HashMap<String, String>,
    /// The envelopes of the feed that is read, in the order of their numbers.
    pub(super) feed: Vec<Value>,
    /// Balances by tenant and email.
    pub(super) credits: HashMap<(usize, String), Vec<Credit>>,
    /// What must not have happened.
    violations: Vec<String>,
    more_violations: u64,
}

impl Oracle {
    pub(super) fn add_violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(what);
        } else {
            self.more_violations += 1;
        }
    }

    /// The violations, and how many more there were.
    pub(super) fn violations(&self) -> (&[String], u64) {
        (&self.violations, self.more_violations)
    }

    /// Notes the result of an event.
    pub(super) fn note_result(&mut self, email: Option<&str>, result: &Value) {
        let id = text(&result["eventId"]);
        let Some(event) = self.events.get_mut(id) else {
            return self.add_violation(format!("a result names an event that was not sent: {result}"));
        };
        let ids = ["clientId", "leadId", "tripId"].map(|field| result[field].as_str().map(str::to_owned));
        let status = text(&result["status"]);
        match (status, event.must_fail) {
            ("failed", true) if result["error"] == "contact_not_found" => return,
            ("accepted", false) => event.accepted += 1,
            ("duplicate", false) => {}
            _ => return self.add_violation(format!("unexpected result: {result}")),
        }
        let (tenant, accepted) = (event.tenant, event.accepted);
        let first = event.ids.get_or_insert_with(|| ids.clone()).clone();
        if first != ids {
            self.add_violation(format!("results of {id} differ: {first:?} and {ids:?}"));
        }
        if accepted > 1 {
            self.add_violation(format!("{id} was accepted {accepted} times"));
        }
        if let (Some(email), Some(client)) = (email, &ids[0]) {
            let known = self.people.entry((tenant, email.to_owned())).or_insert_with(|| client.clone());
            if known != client {
                let known = known.clone();
                self.add_violation(format!("{email} is client {known}, and client {client} in {id}"));
            }
        }
    }

    /// Notes that a write is sent, or what its response confirmed.
    pub(super) fn note_write(&mut self, tenant: usize, kind: WriteKind, name: &str, confirmed: Option<&str>) {
        let sent = self.writes.entry((tenant, kind, name.to_owned())).or_default();
        let Some(confirmed) = confirmed else { return };
        let first = sent.confirmed.get_or_insert_with(|| confirmed.to_owned()).clone();
        if first != confirmed {
            self.add_violation(format!("responses to {kind:?} {name} differ: {first} and {confirmed}"));
        }
    }
}

/// Numbers of a run.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Confirmed events, records writes and actions, without duplicates.
    pub(super) events: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) actions: AtomicU64,
    /// Results `duplicate`.
    pub(super) duplicates: AtomicU64,
    /// Requests that got 503, and those whose connection failed.
    pub(super) unavailable: AtomicU64,
    pub(super) failed_connections: AtomicU64,
}

impl Totals {
    pub(super) fn line(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} events, {} duplicates, {} records writes, {} advisor actions; {} responses 503, {} failed connections",
            of(&self.events),
            of(&self.duplicates),
            of(&self.writes),
            of(&self.actions),
            of(&self.unavailable),
            of(&self.failed_connections)
        )
    }
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) totals: Totals,
    oracle: Mutex<Oracle>,
    /// Whether the load has ended: no new operation and no new fault begins.
    load_ended: watch::Sender<bool>,
    /// Whether the retries have ended: operations that are not confirmed yet are not sent again.
    retries_ended: AtomicBool,
    /// The latest begin of a request that succeeded.
    success: watch::Sender<Option<Instant>>,
    /// Times to recover by kind of fault; `None` where there was no success in time.
    faults: Mutex<BTreeMap<String, Vec<Option<Duration>>>>,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            totals: Totals::default(),
            oracle: Mutex::default(),
            load_ended: watch::Sender::new(false),
            retries_ended: AtomicBool::new(false),
            success: watch::Sender::new(None),
            faults: Mutex::default(),
        }
    }

    /// What was sent and confirmed.
    pub(super) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock()
    }

    pub(super) fn load_ended(&self) -> bool {
        *self.load_ended.borrow()
    }

    /// Ends the load: operations that have begun are finished.
    pub(super) fn end_load(&self) {
        self.load_ended.send_replace(true);
    }

    /// Waits until the load ends.
    pub(super) async fn until_over(&self) {
        drop(self.load_ended.subscribe().wait_for(|load_ended| *load_ended).await);
    }

    pub(super) fn retries_ended(&self) -> bool {
        self.retries_ended.load(Ordering::Relaxed)
    }

    /// Ends the retries of operations that are not confirmed.
    pub(super) fn close(&self) {
        self.retries_ended.store(true, Ordering::Relaxed);
    }

    /// Notes that a request succeeded which began then.
    pub(super) fn note_success(&self, begun: Instant) {
        self.success.send_if_modified(|latest| {
            let is_later = latest.is_none_or(|latest| latest < begun);
            if is_later {
                *latest = Some(begun);
            }
            is_later
        });
    }

    /// Waits until a request has succeeded that began after `then`.
    pub(super) async fn until_success_begun_after(&self, then: Instant) {
        let mut success = self.success.subscribe();
        drop(success.wait_for(|latest| latest.is_some_and(|latest| latest > then)).await);
    }

    /// Notes a fault that has ended, and how long no request succeeded afterwards.
    pub(super) fn note_fault(&self, fault: &Fault, recovered: Option<Duration>) {
        let Fault { kind, lasts, .. } = fault;
        let took = recovered.map_or("never".to_owned(), |took| format!("{} ms", took.as_millis()));
        println!("  {kind} ({} ms): next success after {took}", lasts.as_millis());
        let mut faults = self.faults.lock();
        faults.entry(group(*kind)).or_default().push(recovered);
        drop(faults);
        if recovered.is_none() && !self.load_ended() {
            self.oracle().add_violation(format!("no request succeeds after the fault: {kind}"));
        }
    }

    /// The number of faults that happened.
    pub(super) fn faults(&self) -> usize {
        self.faults.lock().values().map(Vec::len).sum()
    }

    /// Numbers of faults with the median and the longest time to recover, a line for each kind.
    pub(super) fn recovery_lines(&self) -> Vec<String> {
        let faults = self.faults.lock();
        let line = |(kind, times): (&String, &Vec<Option<Duration>>)| {
            let mut known: Vec<u128> = times.iter().flatten().map(Duration::as_millis).collect();
            known.sort_unstable();
            let median = known.get(known.len() / 2).copied().unwrap_or_default();
            let longest = known.last().copied().unwrap_or_default();
            format!("{kind}: {} times; recovered in {median} ms (median), {longest} ms (longest)", times.len())
        };
        faults.iter().map(line).collect()
    }
}

/// Faults whose recovery is summarized together.
fn group(kind: FaultKind) -> String {
    let text = kind.to_string();
    text.strip_suffix([' ', '0', '1']).and_then(|text| text.strip_suffix(' ')).unwrap_or(&text).to_owned()
}
