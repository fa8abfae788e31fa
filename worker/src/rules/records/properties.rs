//! Property tests for arbitrary interleavings of records writes and events, on a simulated database with a clock that
//! stops, jumps and goes back (D19).

mod bodies;
mod writers;

use super::{Record, Write, write};
use crate::record_body;
use crate::rules::Cause;
use crate::rules::simulation::{Loading, Sent, Simulation, start};
use crate::rules::testing::{refusal, tenant};
use crate::state::TenantState;
use crate::store::LoadRequest;
use bodies::{Pool, any_write};
use chrono::TimeDelta;
use common::write::{IfMatch, WriteRefusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use writers::{ConcurrentWriters, any_step};

/// By how many milliseconds the clock is moved; often by none.
fn any_jump() -> impl Strategy<Value = i64> {
    select(vec![0, 0, 0, 1, 7, 60_000, -1, -7, -60_000])
}

/// Applies a write as the worker does: on a fresh state, whose changes are saved unless it is refused.
fn apply(
    simulation: &mut Simulation, body: &Write, condition: Option<&IfMatch>, loading: Loading,
) -> Result<Value, WriteRefusal> {
    let mut wanted = LoadRequest::single(tenant().id, "connect-api:1".to_owned());
    crate::pipeline::records::add_write(&mut wanted, tenant().id, body);
    let mut state = simulation.state(&wanted, loading);
    let now = simulation.now.unwrap();
    let (key_prefix, origin) = (Some("ck_test".to_owned()), "acme".to_owned());
    let cause = Cause { key_prefix, origin, occurred_at: now, request_context: None };
    let record = simulation.run(now, |ctx| write(&mut state, body, condition, false, &cause, ctx));
    let record = record.map_err(refusal)?;
    let shown = shown(&state, record);
    simulation.rows.save_changes(state);
    Ok(shown)
}

/// A record as the API shows it.
fn shown(state: &TenantState, record: Record) -> Value {
    let (body, _) = record_body::render(state, record).unwrap();
    serde_json::from_str::<Value>(body.get()).unwrap()["data"].take()
}

/// Moves the clock by `milliseconds`, which may be negative.
fn tick(simulation: &mut Simulation, milliseconds: i64) {
    let now = simulation.now.unwrap_or_else(start);
    simulation.now = Some(now + TimeDelta::milliseconds(milliseconds));
}

/// An event of Ana's.
fn event(number: usize, kind: &'static str) -> Sent {
    let actor = json!({"email": "ana@example.com", "phone": format!("9{number}")});
    Sent { id: format!("e-{number}"), kind, actor, payload: json!({}) }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

proptest! {
    #![proptest_config(config())]

    // `ConcurrentWriters::step` checks each step: a PATCH succeeds if and only if its ETag is the current one,
    // of two PATCHes with one ETag one succeeds, and a record that shows something new has a higher version.

    #[test]
    fn no_interleaving_of_conditional_changes_loses_an_update(steps in vec(any_step(), 1..60)) {
        let mut writers = ConcurrentWriters::new();
        for (number, step) in steps.iter().enumerate() {
            writers.step(number, step);
        }
        writers.check_kept();
    }

    #[test]
    fn a_record_that_shows_something_new_has_a_higher_version(
        writes in vec((any_jump(), any_write()), 1..24),
    ) {
        let (mut simulation, mut pool) = (Simulation::new(), Pool::default());
        for (jump, sent) in writes {
            tick(&mut simulation, jump);
            let write = sent.write(&pool);
            let before = pool.shown(&simulation);
            if let Ok(made) = apply(&mut simulation, &write, None, Loading::Needed) {
                pool.add_created(&write, &made);
            }
            let after = pool.shown(&simulation);
            before.iter().for_each(|(id, before)| check_version(before, &after[id]));
        }
    }

    #[test]
    fn loading_only_what_a_write_needs_gives_the_same_results(
        writes in vec((any_jump(), any_write()), 1..24),
    ) {
        let [all, needed] = [Loading::All, Loading::Needed].map(|loading| {
            let (mut simulation, mut pool) = (Simulation::new(), Pool::default());
            let results: Vec<_> = writes.iter().map(|(jump, sent)| {
                tick(&mut simulation, *jump);
                let write = sent.write(&pool);
                let done = apply(&mut simulation, &write, None, loading);
                if let Ok(made) = &done {
                    pool.add_created(&write, made);
                }
                done
            }).collect();
            (results, format!("{:#?}", simulation.rows))
        });
        prop_assert_eq!(all, needed);
    }
}

/// Checks that a record that shows something new has a higher version.
#[track_caller]
fn check_version(before: &Value, after: &Value) {
    let version = |record: &Value| record["updatedAt"].as_str().unwrap().to_owned();
    if before == after {
        return;
    }
    assert!(version(after) > version(before), "{before}\n{after}");
}
