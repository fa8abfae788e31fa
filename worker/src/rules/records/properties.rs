//! What holds for any interleaving of records writes and events, on a simulated store with a clock that stands still,
//! jumps and goes back (D19).

mod bodies;
mod writers;

use super::{Record, Write, write};
use crate::rules::Cause;
use crate::rules::simulation::{Loading, Sent, Simulation, start};
use crate::rules::testing::tenant;
use crate::show;
use crate::state::TenantState;
use crate::store::LoadRequest;
use bodies::{Pool, any_write};
use chrono::TimeDelta;
use common::write::{IfMatch, WriteRefusal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use writers::{Agency, any_step};

/// How far the clock is put, in milliseconds: mostly not at all.
fn any_jump() -> impl Strategy<Value = i64> {
    select(vec![0, 0, 0, 1, 7, 60_000, -1, -7, -60_000])
}

/// Does a write as the worker does: on a fresh state, whose changes are kept unless it is refused.
fn apply(
    simulation: &mut Simulation,
    body: &Write,
    condition: Option<&IfMatch>,
    loading: Loading,
) -> Result<Value, WriteRefusal> {
    let mut wanted = LoadRequest::single(tenant().id, "connect-api:1".to_owned());
    crate::pipeline::records::add_write(&mut wanted, tenant().id, body);
    let mut state = simulation.state(&wanted, loading);
    let now = simulation.now.unwrap();
    let cause = Cause {
        key_prefix: Some("ck_test".to_owned()),
        origin: "acme".to_owned(),
        occurred_at: now,
        trail: None,
    };
    let record = simulation.run(now, |ctx| write(&mut state, body, condition, false, &cause, ctx))?;
    let shown = shown(&state, record);
    simulation.rows.take_back(state);
    Ok(shown)
}

/// A record as the API shows it.
fn shown(state: &TenantState, record: Record) -> Value {
    let (body, _) = show::record(state, record).unwrap();
    serde_json::from_str::<Value>(body.get()).unwrap()["data"].take()
}

/// Puts the clock.
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

    // Each step checks itself, see `Agency::step`: a PATCH passes if and only if its ETag is the current one, of two
    // with one ETag one passes, and whatever a record shows anew, under a version that grew.

    #[test]
    fn no_interleaving_of_conditional_changes_loses_an_update(steps in vec(any_step(), 1..60)) {
        let mut agency = Agency::new();
        for (number, step) in steps.iter().enumerate() {
            agency.step(number, step);
        }
        agency.check_kept();
    }

    #[test]
    fn whatever_is_written_what_is_shown_anew_has_a_version_that_grew(
        writes in vec((any_jump(), any_write()), 1..24),
    ) {
        let (mut simulation, mut pool) = (Simulation::new(), Pool::default());
        for (jump, sent) in writes {
            tick(&mut simulation, jump);
            let write = sent.write(&pool);
            let before = pool.shown(&simulation);
            if let Ok(made) = apply(&mut simulation, &write, None, Loading::Needed) {
                pool.take_in(&write, &made);
            }
            let after = pool.shown(&simulation);
            before.iter().for_each(|(id, before)| check_version(before, &after[id]));
        }
    }

    #[test]
    fn loading_what_a_write_needs_is_as_good_as_loading_everything(
        writes in vec((any_jump(), any_write()), 1..24),
    ) {
        let [all, needed] = [Loading::All, Loading::Needed].map(|loading| {
            let (mut simulation, mut pool) = (Simulation::new(), Pool::default());
            let results: Vec<_> = writes.iter().map(|(jump, sent)| {
                tick(&mut simulation, *jump);
                let write = sent.write(&pool);
                let done = apply(&mut simulation, &write, None, loading);
                if let Ok(made) = &done {
                    pool.take_in(&write, made);
                }
                done
            }).collect();
            (results, format!("{:#?}", simulation.rows))
        });
        prop_assert_eq!(all, needed);
    }
}

/// What is shown anew is shown under a version that grew, and a version never shrinks.
#[track_caller]
fn check_version(before: &Value, after: &Value) {
    let version = |record: &Value| record["updatedAt"].as_str().unwrap().to_owned();
    if before == after {
        return;
    }
    assert!(version(after) > version(before), "{before}\n{after}");
}
