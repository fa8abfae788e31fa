//! The entry point of events: those of one or more messages are applied as one unit.

use super::{Decision, Pipeline, UnitContext, UnitOfWork};
use crate::rules::{self, Event};
use crate::state::TenantState;
use crate::store::{LoadRequest, Loaded, locks_its_client};
use common::db::TxError;
use common::event::{Envelope, EventResult, TravellerDiscovery};
use common::message::BatchMeta;
use common::model::TenantId;
use common::trace::RequestContext;
use std::collections::BTreeMap;

/// One event of a unit, with the metadata of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitEvent<'a> {
    pub(crate) meta: &'a BatchMeta,
    pub(crate) envelope: &'a Envelope<'a>,
    /// Its index within the batch.
    pub(crate) ordinal: i16,
    /// The request that sent it, and its trace context.
    pub(crate) request_context: RequestContext,
}

impl Pipeline {
    /// Applies `events` in their order, all of them or none, and returns a result for each, in the same order (D7).
    ///
    /// `skip_discovery` leaves out the discovery part, for a retry after it could not be stored. The events of a dry run must be of
    /// one request.
    pub(crate) async fn apply_events(
        &self, events: &[UnitEvent<'_>], skip_discovery: bool,
    ) -> Result<Vec<EventResult>, TxError> {
        self.run(&EventUnit::new(events, skip_discovery)).await
    }
}

struct EventUnit<'a> {
    request: LoadRequest,
    events: Vec<Event<'a>>,
    skip_discovery: bool,
    is_dry_run: bool,
}

impl<'a> EventUnit<'a> {
    fn new(events: &[UnitEvent<'a>], skip_discovery: bool) -> Self {
        let named = events.iter().map(|event| (event.meta.caller.tenant_id, event.envelope));
        let request = LoadRequest::of_events(named);
        let is_dry_run = events.iter().any(|event| event.meta.dry_run);
        Self { request, events: events.iter().map(rule_event).collect(), skip_discovery, is_dry_run }
    }
}

impl UnitOfWork for EventUnit<'_> {
    const NAME: &'static str = "apply_unit";
    type Output = Vec<EventResult>;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn events(&self) -> &[Event<'_>] {
        &self.events
    }

    fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    fn max_new_leads(&self) -> Vec<(TenantId, usize)> {
        let mut counts = BTreeMap::new();
        for event in self.events.iter().filter(|event| rules::can_open_lead(event.envelope.event_type)) {
            *counts.entry(event.caller.tenant_id).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    fn decide(&self, loaded: &mut Loaded, unit_ctx: &mut UnitContext) -> Result<Decision<Self::Output>, TxError> {
        let mut results = Vec::with_capacity(self.events.len());
        for (index, event) in self.events.iter().enumerate() {
            let tenant = event.caller.tenant_id;
            // An event that is still in the ledger was not about the person who was erased.
            let is_applied =
                loaded.states.get(&tenant).is_some_and(|state| state.ledger.contains_key(&event.envelope.event_id));
            if !is_applied && unit_ctx.erasures.is_erased(index, event) {
                results.push(rules::events::refuse_erased(event));
                continue;
            }
            let result = unit_ctx
                .apply(loaded, tenant, self.skip_discovery, |state, ctx| rules::events::apply(state, event, ctx))??;
            require_lock(loaded, event, &result)?;
            let state = &loaded.states[&tenant];
            results.push(if self.is_dry_run { without_new_ids(state, result) } else { result });
        }
        Ok(Decision::Commit(results, Vec::new()))
    }
}

/// The result of an event of a dry run: without the ids of records that it would have created.
fn without_new_ids(state: &TenantState, result: EventResult) -> EventResult {
    let is_known = |found: &TravellerDiscovery| !state.discoveries.is_new(&found.discovery_id);
    EventResult {
        client_id: result.client_id.filter(|id| !state.clients().is_new(id)),
        lead_id: result.lead_id.filter(|id| !state.leads.is_new(id)),
        trip_id: result.trip_id.filter(|id| !state.trips.is_new(id)),
        traveller_discovery: result.traveller_discovery.filter(is_known),
        ..result
    }
}

/// Fails with [`TxError::Stale`] if a related event's client is not locked: the data that the event read of it must not
/// change before the unit commits. That happens when an identity moved to another client between the lock and the load.
fn require_lock(loaded: &Loaded, event: &Event<'_>, result: &EventResult) -> Result<(), TxError> {
    let (tenant, Some(client)) = (event.caller.tenant_id, result.client_id) else { return Ok(()) };
    let is_held = || {
        let state = &loaded.states[&tenant];
        loaded.locked.contains(&(tenant, client))
            || state.clients().is_new(&client)
            || !state.ledger_added.contains(&event.envelope.event_id)
    };
    if !locks_its_client(event.envelope.event_type) || is_held() {
        return Ok(());
    }
    Err(TxError::Stale("an identity has moved to another client"))
}

fn rule_event<'a>(event: &UnitEvent<'a>) -> Event<'a> {
    let UnitEvent { meta, envelope, ordinal, request_context } = *event;
    Event { caller: &meta.caller, envelope, ordinal, request_context }
}
