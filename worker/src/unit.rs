//! A unit of work: load → decide → persist, in one transaction, for the events of one or more messages.

use crate::outbox::{Bell, Emitted};
use crate::rules::{self, Context, Event, NumberBlock};
use crate::store::{self, States, Wanted};
use chrono::{DateTime, Datelike, Utc};
use common::clock;
use common::db::{Database, TxError, Work};
use common::event::{Envelope, EventResult};
use common::message::BatchMeta;
use common::model::TenantId;
use common::trace::Trail;
use deadpool_postgres::Transaction;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uuid::Uuid;

/// The databases that units need.
#[derive(Clone, Debug)]
pub struct Databases {
    /// Where units are applied.
    pub units: Database,
    /// Where enquiry numbers are reserved; needn't be durable.
    pub counters: Database,
    /// Rung when outbound events are committed.
    pub bell: Bell,
}

/// One event of a batch, with the batch's metadata.
#[derive(Clone, Copy, Debug)]
pub struct UnitEvent<'a> {
    /// The batch.
    pub meta: &'a BatchMeta,
    /// The event.
    pub envelope: &'a Envelope<'a>,
    /// Its place in the batch.
    pub ordinal: i16,
    /// The request that sent it, and its place in a trace. In a bundle the request's id isn't the message's.
    pub trail: Trail,
}

/// Applies `events` in their order, all of them or none, and gives a result for each.
///
/// `skip_discovery` leaves out the discovery part, on a second try after it couldn't be stored.
pub async fn apply(
    databases: &Databases,
    events: &[UnitEvent<'_>],
    skip_discovery: bool,
) -> Result<Vec<EventResult>, TxError> {
    let mut wanted = Wanted::default();
    for event in events {
        wanted.add(&event.meta.caller, event.envelope);
    }
    let events = events.iter().map(rule_event).collect();
    let emitted = Emitted::default();
    let unit = Unit { counters: &databases.counters, wanted, events, skip_discovery, emitted };
    let results = databases.units.run_tx("apply_unit", &unit).await?;
    databases.bell.after(&unit.emitted);
    Ok(results)
}

/// The transaction of a unit.
struct Unit<'a> {
    counters: &'a Database,
    wanted: Wanted,
    events: Vec<Event<'a>>,
    skip_discovery: bool,
    emitted: Emitted,
}

impl Work for Unit<'_> {
    type Output = Vec<EventResult>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Self::Output, TxError> {
        let mut states = store::load(tx, &self.wanted).await?;
        let now = clock::now();
        let mut numbers = reserve(self.counters, &states, &self.events, now).await?;
        let results = decide(&mut states, &self.events, &mut numbers, now, self.skip_discovery)?;
        store::persist(tx, &states, &self.wanted, now, &self.emitted).await?;
        Ok(results)
    }
}

fn rule_event<'a>(event: &UnitEvent<'a>) -> Event<'a> {
    let UnitEvent { meta, envelope, ordinal, trail } = *event;
    Event { caller: &meta.caller, envelope, request_id: meta.request_id, ordinal, trail: Some(trail) }
}

/// Reserves the enquiry numbers that the events can take.
async fn reserve(
    counters: &Database,
    states: &States,
    events: &[Event<'_>],
    now: DateTime<Utc>,
) -> Result<HashMap<TenantId, NumberBlock>, TxError> {
    let mut wanted = Vec::with_capacity(states.len());
    for (tenant, state) in states {
        let own: Vec<Event<'_>> =
            events.iter().filter(|event| event.caller.tenant_id == *tenant).copied().collect();
        wanted.push((*tenant, rules::opens_wanted(state, &own)));
    }
    let reserved = store::reserve_numbers(counters, &wanted, now).await?;
    let block = |(tenant, _)| {
        let (first, count) = reserved.get(&tenant).copied().unwrap_or((1, 0));
        (tenant, NumberBlock::new(now.year(), first, usize::try_from(count).unwrap_or_default()))
    };
    Ok(wanted.into_iter().map(block).collect())
}

/// Applies the rules. A panic in them is a failure of this unit, not of the worker.
fn decide(
    states: &mut States,
    events: &[Event<'_>],
    numbers: &mut HashMap<TenantId, NumberBlock>,
    now: DateTime<Utc>,
    skip_discovery: bool,
) -> Result<Vec<EventResult>, TxError> {
    let mut decide_one = |event: &Event<'_>| {
        let tenant = event.caller.tenant_id;
        let state = states.get_mut(&tenant).ok_or_else(|| TxError::Abandoned("unknown tenant".to_owned()))?;
        let numbers = numbers.get_mut(&tenant).ok_or_else(|| TxError::Abandoned("no numbers".to_owned()))?;
        let mut context = Context { now, next_id: &mut Uuid::now_v7, numbers, skip_discovery };
        rules::apply(state, event, &mut context).map_err(|error| TxError::Abandoned(error.to_string()))
    };
    catch_unwind(AssertUnwindSafe(|| events.iter().map(&mut decide_one).collect()))
        .unwrap_or_else(|_| Err(TxError::Abandoned("the rules panicked".to_owned())))
}
