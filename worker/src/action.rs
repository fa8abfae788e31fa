//! An advisor action: load → decide → persist, in one transaction (operator's contract: Advisor actions).

use crate::outbox::Emitted;
use crate::rules::{Cause, Context, NumberBlock, advisor};
use crate::state::{LedgerEntry, TenantState};
use crate::store::{self, Wanted};
use chrono::{DateTime, Datelike, Utc};
use common::advisor::{Action, ActionDone, AdvisorAction, Who};
use common::clock;
use common::db::{Database, TxError, Work};
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, LeadId, TenantId};
use common::trace::Trail;
use common::write::WriteRefusal;
use deadpool_postgres::Transaction;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uuid::Uuid;

/// Who the ledger says that actions are sent by: no API key's prefix.
const SENDER: &str = "crm";

/// The transaction of an action.
#[derive(Debug)]
pub struct ActionWork<'a> {
    /// Where enquiry numbers are reserved.
    pub counters: &'a Database,
    /// What is done, for which agency.
    pub action: &'a AdvisorAction,
    /// The message that it came with: an action is done once for each.
    pub message_id: &'a str,
    /// What its log lines name, and its place in its trace.
    pub trail: Trail,
    /// Whether it wrote to the outbox.
    pub emitted: Emitted,
}

/// An action that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// The answer.
    pub done: ActionDone,
    /// Whether it was done before, by an earlier delivery of the message.
    pub repeated: bool,
}

impl Work for ActionWork<'_> {
    type Output = Result<Acted, WriteRefusal>;

    /// What is refused, or was done before, has nothing to commit.
    fn is_kept(output: &Self::Output) -> bool {
        output.as_ref().is_ok_and(|acted| !acted.repeated)
    }

    async fn run(&self, tx: &Transaction<'_>) -> Result<Self::Output, TxError> {
        let Some(tenant) = store::find_tenant(tx, &self.action.tenant).await? else {
            return Ok(Err(WriteRefusal::NotFound));
        };
        let before = store::applied(tx, tenant, &self.event_id()).await?;
        if before.as_ref().is_some_and(|entry| entry.event_type != self.action.action.name().in_ledger()) {
            return Ok(Err(WriteRefusal::IdempotencyKeyReused));
        }
        let before = before.and_then(|entry| entry.lead_id);
        let wanted = match before {
            Some(lead) => showing(tenant, lead),
            None => self.wanted(tx, tenant).await?,
        };
        let mut states = store::load(tx, &wanted).await?;
        let now = clock::now();
        let mut numbers = self.reserve(tenant, now).await?;
        let state = states.get_mut(&tenant).ok_or_else(|| TxError::Abandoned("unknown tenant".to_owned()))?;
        let acted = match before {
            Some(lead) => self.done(state, lead, true),
            None => self.decide(state, &mut numbers, now)?,
        };
        if acted.as_ref().is_ok_and(|acted| !acted.repeated) {
            store::persist(tx, &states, &wanted, now, &self.emitted).await?;
        }
        Ok(acted)
    }
}

impl ActionWork<'_> {
    fn event_id(&self) -> String {
        format!("{RESERVED_PREFIX}{SENDER}:{}", self.message_id)
    }

    /// Every record that the action may touch or tell of.
    async fn wanted(&self, tx: &Transaction<'_>, tenant: TenantId) -> Result<Wanted, TxError> {
        let mut wanted = of_tenant(tenant);
        match &self.action.action {
            Action::OpenLead(new) => match &new.who {
                Who::Client(id) => {
                    if let Some(id) = ClientId::parse(id.as_str()) {
                        wanted.clients.add(tenant, id.0);
                    }
                }
                Who::Contact { email, .. } => {
                    let actor = Actor { email: Some(email.clone()), ..Actor::default() };
                    wanted.add_identity(tenant, &actor);
                }
            },
            Action::BookingCancel(booking) => {
                let booking_ref = booking.booking_ref.as_str();
                if let Some(client) = store::client_of_booking(tx, tenant, booking_ref).await? {
                    wanted.clients.add(tenant, client.0);
                    wanted.booking_refs.add(tenant, booking_ref.to_owned());
                }
            }
            Action::BookingConfirm(booking) => {
                wanted.booking_refs.add(tenant, booking.booking_ref.as_str().to_owned());
            }
            Action::Assign(_)
            | Action::Stage(_)
            | Action::Archive(_)
            | Action::Travelled(_)
            | Action::ProposalSend(_)
            | Action::ProposalView(_)
            | Action::ProposalDiscard(_) => {}
        }
        if let Some(lead) = self.action.action.lead().and_then(LeadId::parse) {
            wanted.leads.add(tenant, lead.0);
        }
        Ok(wanted)
    }

    async fn reserve(&self, tenant: TenantId, now: DateTime<Utc>) -> Result<NumberBlock, TxError> {
        let wanted = usize::from(matches!(self.action.action, Action::OpenLead(_)));
        let reserved = store::reserve_numbers(self.counters, &[(tenant, wanted)], now).await?;
        let first = reserved.get(&tenant).map_or(1, |(first, _)| *first);
        Ok(NumberBlock::new(now.year(), first, wanted))
    }

    /// Applies the rules. A panic in them is a failure of this action, not of the worker.
    fn decide(
        &self,
        state: &mut TenantState,
        numbers: &mut NumberBlock,
        now: DateTime<Utc>,
    ) -> Result<Result<Acted, WriteRefusal>, TxError> {
        let ctx = &mut Context { now, next_id: &mut Uuid::now_v7, numbers, skip_discovery: false };
        let cause = Cause { trail: Some(self.trail), ..Cause::crm(now) };
        let decide = AssertUnwindSafe(|| {
            let lead = advisor::act(state, &self.action.action, &cause, ctx)?;
            let acted = self.done(state, lead, false)?;
            self.enter(state, &acted.done);
            Ok(acted)
        });
        catch_unwind(decide).map_err(|_| TxError::Abandoned("the rules panicked".to_owned()))
    }

    fn done(&self, state: &TenantState, lead: LeadId, repeated: bool) -> Result<Acted, WriteRefusal> {
        Ok(Acted { done: advisor::done(state, lead, &self.action.action)?, repeated })
    }

    /// Every action is in the ledger, and on no timeline: it is no event of the traveller's.
    fn enter(&self, state: &mut TenantState, done: &ActionDone) {
        let entry = LedgerEntry {
            event_id: self.event_id(),
            event_type: self.action.action.name().in_ledger().to_owned(),
            key_prefix: SENDER.to_owned(),
            request_id: self.trail.request_id,
            ordinal: 0,
            client_id: Some(done.client_id),
            lead_id: Some(done.lead_id),
            trip_id: done.trip_id,
            discovery_id: None,
            warnings: Vec::new(),
        };
        state.ledger_added.push(entry.event_id.clone());
        state.ledger.insert(entry.event_id.clone(), entry);
    }
}

fn of_tenant(tenant: TenantId) -> Wanted {
    let mut wanted = Wanted { events: 1, shown: true, ..Wanted::default() };
    wanted.tenants.insert(tenant.0);
    wanted
}

/// What an answer tells of an enquiry.
fn showing(tenant: TenantId, lead: LeadId) -> Wanted {
    let mut wanted = of_tenant(tenant);
    wanted.leads.add(tenant, lead.0);
    wanted
}
