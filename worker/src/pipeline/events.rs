//! The entry point of events: those of one or more messages are applied as one unit.

use super::{Decision, Pipeline, Tools, UnitOfWork};
use crate::rules::{self, Event};
use crate::store::{LoadRequest, Loaded, is_related};
use common::db::TxError;
use common::event::{Envelope, EventResult};
use common::message::BatchMeta;
use common::model::TenantId;
use common::trace::Trail;
use std::collections::BTreeMap;

/// One event of a batch, with the batch's metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitEvent<'a> {
    /// The batch.
    pub(crate) meta: &'a BatchMeta,
    /// The event.
    pub(crate) envelope: &'a Envelope<'a>,
    /// Its place in the batch.
    pub(crate) ordinal: i16,
    /// The request that sent it, and its place in a trace. In a bundle the request's id is not the message's.
    pub(crate) trail: Trail,
}

impl Pipeline {
    /// Applies `events` in their order, all of them or none, and gives a result for each.
    ///
    /// `skip_discovery` leaves out the discovery part, on a second try after it could not be stored.
    pub(crate) async fn apply_events(
        &self,
        events: &[UnitEvent<'_>],
        skip_discovery: bool,
    ) -> Result<Vec<EventResult>, TxError> {
        let named = events.iter().map(|event| (event.meta.caller.tenant_id, event.envelope));
        let request = LoadRequest::of_events(named);
        let events = events.iter().map(rule_event).collect();
        self.run(&EventUnit { request, events, skip_discovery }).await
    }
}

struct EventUnit<'a> {
    request: LoadRequest,
    events: Vec<Event<'a>>,
    skip_discovery: bool,
}

impl UnitOfWork for EventUnit<'_> {
    const NAME: &'static str = "apply_unit";
    type Output = Vec<EventResult>;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn can_open(&self) -> Vec<(TenantId, usize)> {
        let mut counts = BTreeMap::new();
        for event in self.events.iter().filter(|event| rules::can_open(event.envelope.event_type)) {
            *counts.entry(event.caller.tenant_id).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    fn decide(&self, loaded: &mut Loaded, tools: &mut Tools) -> Result<Decision<Self::Output>, TxError> {
        let mut results = Vec::with_capacity(self.events.len());
        for event in &self.events {
            let tenant = event.caller.tenant_id;
            let result = tools
                .apply(loaded, tenant, self.skip_discovery, |state, ctx| rules::apply(state, event, ctx))??;
            require_lock(loaded, event, &result)?;
            results.push(result);
        }
        Ok(Decision::Commit(results, Vec::new()))
    }
}

/// What a related event looks up of its client must not change before the unit commits. The client is locked, unless the
/// identity that names it has moved to another client between the lock and the load.
fn require_lock(loaded: &Loaded, event: &Event<'_>, result: &EventResult) -> Result<(), TxError> {
    let (tenant, Some(client)) = (event.caller.tenant_id, result.client_id) else { return Ok(()) };
    let is_held = || {
        let state = &loaded.states[&tenant];
        loaded.locked.contains(&(tenant, client))
            || state.clients().is_new(&client)
            || !state.ledger_added.contains(&event.envelope.event_id)
    };
    if !is_related(event.envelope.event_type) || is_held() {
        return Ok(());
    }
    Err(TxError::Stale("an identity has moved to another client"))
}

fn rule_event<'a>(event: &UnitEvent<'a>) -> Event<'a> {
    let UnitEvent { meta, envelope, ordinal, trail } = *event;
    Event { caller: &meta.caller, envelope, request_id: meta.request_id, ordinal, trail: Some(trail) }
}
