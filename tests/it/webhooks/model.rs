//! A model of leases, epochs and numbers, explored exhaustively: two dispatchers, two subscriptions of one slot, three events. Any
//! event may commit late, and any dispatcher may be stopped, cut off or killed at any moment and come back.
//!
//! A statement of the real programs locks the lease and checks its epoch, works on a snapshot, and commits. Here it begins and ends
//! in two steps, between which everything else may happen.

use stateright::{Checker as _, Model, Property};

const DISPATCHERS: usize = 2;
const SUBSCRIPTIONS: usize = 2;
const EVENTS: usize = 3;
/// Leases that are given in all, so that the number of states is finite.
const EPOCHS_MAX: u8 = 3;

/// The first properties, which do not hold without the check of the epoch.
const FOUND: [&str; 3] = [
    "nothing of an earlier epoch is written",
    "a number never changes its event",
    "an event is in a log once, and lost from none",
];

/// The model, with or without the check of the epoch, so that its absence is found.
struct Deliveries {
    checks_epoch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    Uncommitted,
    Pending,
    FannedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Delivery {
    event: usize,
    attempts: u8,
    is_delivered: bool,
}

/// The statement of a fan-out: the events that it takes and the numbers that follow, as it saw them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FanOut {
    epoch: u8,
    events: Vec<usize>,
    next: [usize; SUBSCRIPTIONS],
}

/// An attempt under way, of the delivery with that number of the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    subscription: usize,
    number: usize,
    epoch: u8,
    made: u8,
}

/// What a dispatcher believes and does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Dispatcher {
    epoch: Option<u8>,
    fan_out: Option<FanOut>,
    attempt: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    holder: Option<usize>,
    epoch: u8,
    has_expired: bool,
    events: [Event; EVENTS],
    logs: [Vec<Delivery>; SUBSCRIPTIONS],
    dispatchers: [Dispatcher; DISPATCHERS],
    /// A statement of an earlier epoch has written.
    has_stale_write: bool,
    /// A number was given to another event.
    has_changed_number: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Commit(usize),
    /// The holder does not renew the lease in time, whatever the reason.
    Expire,
    /// The dispatcher takes the slot.
    Take(usize),
    /// It learns from the database that it does not hold the slot any more.
    Learn(usize),
    /// It gives the slot up, without an attempt under way; its fan-out may still run.
    GiveUp(usize),
    /// It is killed, and starts again.
    Kill(usize),
    BeginFanOut(usize),
    EndFanOut(usize),
    /// The statement is rolled back.
    AbortFanOut(usize),
    Send(usize, usize, usize),
    Record(usize),
}

impl Deliveries {
    fn may_write(&self, state: &State, dispatcher: usize, epoch: u8) -> bool {
        !self.checks_epoch || (state.holder, state.epoch) == (Some(dispatcher), epoch)
    }
}

impl Model for Deliveries {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            holder: None,
            epoch: 0,
            has_expired: false,
            events: [Event::Uncommitted; EVENTS],
            logs: Default::default(),
            dispatchers: Default::default(),
            has_stale_write: false,
            has_changed_number: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let uncommitted = (0..EVENTS).filter(|event| state.events[*event] == Event::Uncommitted);
        steps.extend(uncommitted.map(Step::Commit));
        if state.holder.is_some() && !state.has_expired {
            steps.push(Step::Expire);
        }
        // The lock of a statement under way keeps others from taking the slot.
        let is_locked = self.checks_epoch && state.dispatchers.iter().any(|one| one.fan_out.is_some());
        for (number, dispatcher) in state.dispatchers.iter().enumerate() {
            let is_free = state.holder.is_none() || state.has_expired;
            if is_free && !is_locked && state.epoch < EPOCHS_MAX {
                steps.push(Step::Take(number));
            }
            if dispatcher.epoch.is_some() || dispatcher.attempt.is_some() {
                steps.push(Step::Kill(number));
            }
            if dispatcher.fan_out.is_some() {
                steps.extend([Step::EndFanOut(number), Step::AbortFanOut(number)]);
            }
            if dispatcher.attempt.is_some() {
                steps.push(Step::Record(number));
            }
            let Some(epoch) = dispatcher.epoch else { continue };
            let is_holder = (state.holder, state.epoch) == (Some(number), epoch);
            if !is_holder {
                steps.push(Step::Learn(number));
            } else if dispatcher.attempt.is_none() {
                steps.push(Step::GiveUp(number));
            }
            let is_pending = state.events.contains(&Event::Pending);
            if dispatcher.fan_out.is_none() && is_pending && self.may_write(state, number, epoch) {
                steps.push(Step::BeginFanOut(number));
            }
            if dispatcher.attempt.is_none() {
                for (subscription, log) in state.logs.iter().enumerate() {
                    let due = (0..log.len()).filter(|at| !log[*at].is_delivered);
                    steps.extend(due.take(1).map(|at| Step::Send(number, subscription, at)));
                }
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Commit(event) => state.events[event] = Event::Pending,
            Step::Expire => state.has_expired = true,
            Step::Take(dispatcher) => {
                state.epoch += 1;
                (state.holder, state.has_expired) = (Some(dispatcher), false);
                state.dispatchers[dispatcher].epoch = Some(state.epoch);
            }
            Step::Learn(dispatcher) => state.dispatchers[dispatcher].epoch = None,
            Step::GiveUp(dispatcher) => {
                state.holder = None;
                state.dispatchers[dispatcher].epoch = None;
            }
            // The server may commit a statement whose client is gone.
            Step::Kill(dispatcher) => {
                let fan_out = state.dispatchers[dispatcher].fan_out.take();
                state.dispatchers[dispatcher] = Dispatcher { fan_out, ..Dispatcher::default() };
            }
            Step::AbortFanOut(dispatcher) => state.dispatchers[dispatcher].fan_out = None,
            Step::BeginFanOut(dispatcher) => {
                let epoch = state.dispatchers[dispatcher].epoch?;
                let events = (0..EVENTS).filter(|event| state.events[*event] == Event::Pending).collect();
                let next = [state.logs[0].len(), state.logs[1].len()];
                state.dispatchers[dispatcher].fan_out = Some(FanOut { epoch, events, next });
            }
            Step::EndFanOut(dispatcher) => {
                let FanOut { epoch, events, next } = state.dispatchers[dispatcher].fan_out.take()?;
                state.has_stale_write |= epoch != state.epoch;
                for event in &events {
                    state.events[*event] = Event::FannedOut;
                }
                for (log, next) in state.logs.iter_mut().zip(next) {
                    for (at, event) in (next..).zip(&events) {
                        let delivery = Delivery { event: *event, attempts: 0, is_delivered: false };
                        match log.get_mut(at) {
                            None => log.push(delivery),
                            Some(before) => {
                                state.has_changed_number |= before.event != *event;
                                *before = delivery;
                            }
                        }
                    }
                }
            }
            Step::Send(dispatcher, subscription, number) => {
                let epoch = state.dispatchers[dispatcher].epoch?;
                let made = state.logs[subscription][number].attempts;
                state.dispatchers[dispatcher].attempt = Some(Attempt { subscription, number, epoch, made });
            }
            Step::Record(dispatcher) => {
                let Attempt { subscription, number, epoch, made } = state.dispatchers[dispatcher].attempt.take()?;
                if self.may_write(&state, dispatcher, epoch) {
                    let is_stale = epoch != state.epoch;
                    let delivery = &mut state.logs[subscription][number];
                    if delivery.attempts == made && !delivery.is_delivered {
                        (delivery.attempts, delivery.is_delivered) = (made + 1, true);
                        state.has_stale_write |= is_stale;
                    }
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(FOUND[0], |_, state: &State| !state.has_stale_write),
            Property::always(FOUND[1], |_, state: &State| !state.has_changed_number),
            Property::always(FOUND[2], |_, state: &State| {
                let is_complete = |log: &Vec<Delivery>| {
                    (0..EVENTS).all(|event| {
                        let count = log.iter().filter(|delivery| delivery.event == event).count();
                        count == usize::from(state.events[event] == Event::FannedOut)
                    })
                };
                state.logs.iter().all(is_complete)
            }),
            Property::always("a delivery is recorded once", |_, state: &State| {
                state.logs.iter().flatten().all(|delivery| delivery.attempts == u8::from(delivery.is_delivered))
            }),
            Property::sometimes("everything is delivered", |_, state: &State| {
                let is_delivered =
                    |log: &Vec<Delivery>| log.len() == EVENTS && log.iter().all(|delivery| delivery.is_delivered);
                state.logs.iter().all(is_delivered)
            }),
        ];
        if !self.checks_epoch {
            // The exploration ends when each of these is known to be violated.
            properties.truncate(FOUND.len());
        }
        properties
    }
}

#[test]
fn numbers_and_records_hold_whatever_is_stopped_killed_or_late() {
    let checker = Deliveries { checks_epoch: true }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
}

#[test]
fn the_model_finds_a_missing_check_of_the_epoch() {
    let checker = Deliveries { checks_epoch: false }.checker().threads(2).spawn_bfs().join();
    for property in FOUND {
        assert!(checker.discovery(property).is_some(), "{property}");
    }
}
