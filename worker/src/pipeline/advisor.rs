//! The entry point of advisor actions (operator's contract: Advisor actions).

use super::{Decision, Pipeline, Tools, UnitOfWork};
use crate::rules::advisor::{self, Request, SENDER};
use crate::store::{LoadRequest, Loaded};
use common::advisor::{Action, ActionDone, AdvisorAction, Who};
use common::db::TxError;
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, LeadId, TenantId};
use common::trace::Trail;
use common::write::WriteRefusal;

/// An action as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedAction<'a> {
    /// What is done, for which tenant.
    pub(crate) action: &'a AdvisorAction,
    /// The message that it came with: an action is done once for each.
    pub(crate) message_id: &'a str,
    /// What its log lines name, and its place in its trace.
    pub(crate) trail: Trail,
}

/// An action that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acted {
    /// The reply.
    pub(crate) done: ActionDone,
    /// Whether it was done before, by an earlier delivery of the message.
    pub(crate) repeated: bool,
}

impl Pipeline {
    /// Does an advisor action.
    pub(crate) async fn act(
        &self,
        received: ReceivedAction<'_>,
    ) -> Result<Result<Acted, WriteRefusal>, TxError> {
        let Some(tenant) = self.tenants.find(&self.database, &received.action.tenant).await? else {
            return Ok(Err(WriteRefusal::NotFound));
        };
        let event_id = format!("{RESERVED_PREFIX}{SENDER}:{}", received.message_id);
        let request = load_request(tenant, event_id.clone(), &received.action.action);
        let mut unit = ActionUnit { received, tenant, event_id, request };
        match self.run(&unit).await? {
            Outcome::Ended(ended) => Ok(ended),
            // A message that comes again names no lead where it opened one: the ledger does.
            Outcome::DoneBefore(lead) => {
                unit.request = LoadRequest::single(tenant, unit.event_id.clone());
                unit.request.with_proposals = true;
                unit.request.leads.add(tenant, lead.0);
                match self.run(&unit).await? {
                    Outcome::Ended(ended) => Ok(ended),
                    Outcome::DoneBefore(_) => Ok(Err(WriteRefusal::NotFound)),
                }
            }
        }
    }
}

struct ActionUnit<'a> {
    received: ReceivedAction<'a>,
    tenant: TenantId,
    event_id: String,
    request: LoadRequest,
}

enum Outcome {
    Ended(Result<Acted, WriteRefusal>),
    /// It was done before, to a lead that is not loaded.
    DoneBefore(LeadId),
}

impl UnitOfWork for ActionUnit<'_> {
    const NAME: &'static str = "apply_action";
    type Output = Outcome;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn can_open(&self) -> Vec<(TenantId, usize)> {
        let opens = matches!(self.received.action.action, Action::OpenLead(_));
        if opens { vec![(self.tenant, 1)] } else { Vec::new() }
    }

    fn decide(&self, loaded: &mut Loaded, tools: &mut Tools) -> Result<Decision<Outcome>, TxError> {
        if let Some(before) = self.done_before(loaded) {
            return Ok(Decision::Discard(before));
        }
        let ReceivedAction { action, trail, .. } = self.received;
        let request = Request { action: &action.action, event_id: &self.event_id, trail };
        let done =
            tools.apply(loaded, self.tenant, false, |state, ctx| advisor::apply(state, &request, ctx))?;
        Ok(match done {
            Ok(done) => Decision::Commit(Outcome::Ended(Ok(Acted { done, repeated: false })), Vec::new()),
            Err(refusal) => Decision::Discard(Outcome::Ended(Err(refusal))),
        })
    }
}

impl ActionUnit<'_> {
    /// What an earlier delivery of the message did, as the ledger knows it.
    fn done_before(&self, loaded: &Loaded) -> Option<Outcome> {
        let state = loaded.states.get(&self.tenant)?;
        let entry = state.ledger.get(&self.event_id)?;
        let action = &self.received.action.action;
        if entry.event_type != action.name().in_ledger() {
            return Some(Outcome::Ended(Err(WriteRefusal::IdempotencyKeyReused)));
        }
        let lead = entry.lead_id?;
        if state.leads.get(&lead).is_none() {
            return Some(Outcome::DoneBefore(lead));
        }
        let acted = advisor::done(state, lead, action).map(|done| Acted { done, repeated: true });
        Some(Outcome::Ended(acted))
    }
}

/// Every record that the action may touch, or that the reply tells of.
fn load_request(tenant: TenantId, event_id: String, action: &Action) -> LoadRequest {
    let mut request = LoadRequest::single(tenant, event_id);
    request.with_members = true;
    request.with_proposals = true;
    match action {
        Action::OpenLead(new) => match &new.who {
            Who::Client(id) => {
                if let Some(id) = ClientId::parse(id.as_str()) {
                    request.clients.ids.add(tenant, id.0);
                }
            }
            Who::Contact { email, .. } => {
                let actor = Actor { email: Some(email.clone()), ..Actor::default() };
                request.add_person(tenant, &actor);
            }
        },
        // Whoever changes a booking for its client's sake locks the client first.
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
