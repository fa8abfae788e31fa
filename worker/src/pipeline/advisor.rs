//! The entry point of advisor actions (operator's contract: Advisor actions).

use super::{Decision, Pipeline, UnitContext, UnitOfWork, refusal};
use crate::rules::advisor::{self, ActionRequest, SENDER};
use crate::store::{self, LoadRequest, Loaded};
use common::advisor::{Action, ActionReply, AdvisorAction, LeadClient};
use common::db::{Database, Query, TxError};
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, LeadId, TenantId};
use common::trace::RequestContext;
use common::write::WriteRefusal;

/// An action with its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedAction<'a> {
    pub(crate) tenant: TenantId,
    /// Its number among the tenant's actions that wait.
    pub(crate) number: i64,
    pub(crate) action: &'a AdvisorAction,
    /// Id of its message. An action is applied once for each id.
    pub(crate) message_id: &'a str,
    /// Its request id, and its trace context.
    pub(crate) request_context: RequestContext,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedAction {
    /// The content of the reply.
    pub(crate) reply: ActionReply,
    /// Whether an earlier delivery of the message had applied it already.
    pub(crate) repeated: bool,
}

impl Pipeline {
    pub(crate) async fn find_tenant(&self, database: &Database, slug: &str) -> Result<Option<TenantId>, TxError> {
        self.tenants.find(database, slug).await
    }

    /// Applies an advisor action, and removes it from those that wait in the same transaction, also if it is refused. An internal
    /// error leaves it. `None` if another worker applies it, or has applied it.
    pub(crate) async fn apply_action(
        &self, received: ReceivedAction<'_>,
    ) -> Result<Option<Result<AppliedAction, WriteRefusal>>, TxError> {
        let tenant = received.tenant;
        let event_id = format!("{RESERVED_PREFIX}{SENDER}:{}", received.message_id);
        let request = load_request(tenant, event_id.clone(), &received.action.action);
        let mut unit = ActionUnit { received, event_id, request };
        match self.run(&unit).await? {
            Outcome::Finished(result) => Ok(Some(result)),
            Outcome::NotClaimed => Ok(None),
            // A redelivered `open-lead` does not name the lead that it opened: the ledger does.
            Outcome::AppliedBefore(lead) => {
                unit.request = LoadRequest::single(tenant, unit.event_id.clone());
                unit.request.with_proposals = true;
                unit.request.leads.add(tenant, lead.0);
                match self.run(&unit).await? {
                    Outcome::Finished(result) => Ok(Some(result)),
                    Outcome::NotClaimed => Ok(None),
                    Outcome::AppliedBefore(_) => {
                        store::drop_action(&self.database, tenant, received.number).await?;
                        Ok(Some(Err(WriteRefusal::NotFound)))
                    }
                }
            }
        }
    }
}

struct ActionUnit<'a> {
    received: ReceivedAction<'a>,
    event_id: String,
    request: LoadRequest,
}

enum Outcome {
    Finished(Result<AppliedAction, WriteRefusal>),
    /// It was applied before, to a lead that is not loaded.
    AppliedBefore(LeadId),
    /// It is gone, or another worker has locked it.
    NotClaimed,
}

impl UnitOfWork for ActionUnit<'_> {
    const NAME: &'static str = "apply_action";
    type Output = Outcome;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn max_new_leads(&self) -> Vec<(TenantId, usize)> {
        let opens = matches!(self.received.action.action, Action::OpenLead(_));
        if opens { vec![(self.received.tenant, 1)] } else { Vec::new() }
    }

    fn claim_queries(&self) -> Vec<Query<'static>> {
        vec![store::claim_action(self.received.tenant, self.received.number)]
    }

    fn decide(&self, loaded: &mut Loaded, unit_ctx: &mut UnitContext) -> Result<Decision<Outcome>, TxError> {
        if let Some(before) = self.applied_before(loaded) {
            return Ok(self.decision(before));
        }
        if loaded.claims.iter().all(Vec::is_empty) {
            return Ok(Decision::Discard(Outcome::NotClaimed));
        }
        let ReceivedAction { tenant, action, request_context, .. } = self.received;
        let request = ActionRequest { action: &action.action, event_id: &self.event_id, request_context };
        let done = unit_ctx.apply(loaded, tenant, false, |state, ctx| advisor::apply(state, &request, ctx))?;
        let done = done.map(|reply| AppliedAction { reply, repeated: false }).map_err(refusal);
        if done.is_err() {
            // What a refused action has changed is not written.
            loaded.states.clear();
        }
        Ok(self.decision(Outcome::Finished(done)))
    }
}

impl ActionUnit<'_> {
    /// Commits a result together with the removal of the action. One that failed stays until it is dead-lettered.
    fn decision(&self, outcome: Outcome) -> Decision<Outcome> {
        match outcome {
            Outcome::Finished(Err(WriteRefusal::InternalError)) | Outcome::AppliedBefore(_) | Outcome::NotClaimed => {
                Decision::Discard(outcome)
            }
            Outcome::Finished(_) => {
                let remove = store::remove_action(self.received.tenant, self.received.number);
                Decision::Commit(outcome, vec![remove])
            }
        }
    }

    /// The result of an earlier delivery of the message, according to the ledger.
    fn applied_before(&self, loaded: &Loaded) -> Option<Outcome> {
        let state = loaded.states.get(&self.received.tenant)?;
        let entry = state.ledger.get(&self.event_id)?;
        let action = &self.received.action.action;
        if entry.event_type != action.name().ledger_event_type() {
            return Some(Outcome::Finished(Err(WriteRefusal::IdempotencyKeyReused)));
        }
        let lead = entry.lead_id?;
        if state.leads.get(&lead).is_none() {
            return Some(Outcome::AppliedBefore(lead));
        }
        let reply = advisor::reply_to(state, lead, action).map_err(|error| refusal(error.into()));
        Some(Outcome::Finished(reply.map(|reply| AppliedAction { reply, repeated: true })))
    }
}

/// Every record that the action may change, or that the reply contains.
fn load_request(tenant: TenantId, event_id: String, action: &Action) -> LoadRequest {
    let mut request = LoadRequest::single(tenant, event_id);
    request.with_members = true;
    request.with_proposals = true;
    match action {
        Action::OpenLead(new) => match &new.who {
            LeadClient::Client(id) => {
                if let Some(id) = ClientId::parse(id.as_str()) {
                    request.clients.ids.add(tenant, id.0);
                }
            }
            LeadClient::Contact { email, .. } => {
                let actor = Actor { email: Some(email.clone()), ..Actor::default() };
                request.add_person(tenant, &actor);
            }
        },
        // Lock order: a client is locked before its invoices.
        Action::BookingCancel(booking) => {
            let booking_ref = booking.booking_ref.as_str().to_owned();
            request.clients.booking_refs.add(tenant, booking_ref.clone());
            request.booking_refs.add(tenant, booking_ref);
        }
        Action::BookingConfirm(booking) => {
            request.booking_refs.add(tenant, booking.booking_ref.as_str().to_owned());
        }
        Action::Assign(_)
        | Action::Stage(_)
        | Action::Archive(_)
        | Action::Travelled(_)
        | Action::ProposalSend(_)
        | Action::ProposalView(_)
        | Action::ProposalDiscard(_) => {}
    }
    if let Some(lead) = action.lead().and_then(LeadId::parse) {
        request.clients.leads.add(tenant, lead.0);
        request.leads.add(tenant, lead.0);
    }
    request
}
