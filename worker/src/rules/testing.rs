//! A tenant in memory, for the tests of the rules. Events are given as JSON and parsed as ingest and worker parse them.

#![expect(clippy::needless_pass_by_value, reason = "tests hand json! values in where they stand")]

use super::events::apply;
use super::{Context, Event, InternalError, NumberBlock, WriteError};
use crate::state::{Client, ClientType, Lead, Member, Tenant, TenantState};
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::event::{Envelope, EventResult, parse_batch};
use common::model::{ClientId, KeyPrefix, LeadId, Scopes, TenantId};
use common::trace::{RequestContext, TraceContext};
use common::write::WriteRefusal;
use serde_json::{Value, json};
use uuid::Uuid;

/// The tenant of all tests, with Traveller Discovery on.
pub(super) fn tenant() -> Tenant {
    let (slug, enquiry_prefix) = ("acme".to_owned(), "ENQ".to_owned());
    Tenant { id: TenantId(Uuid::nil()), slug, enquiry_prefix, discovery_enabled: true, has_subscriptions: true }
}

pub(super) fn member(email: &str) -> Member {
    Member { email: email.to_owned(), name: format!("Member {email}") }
}

/// A caller whose key has all scopes that events need.
pub(super) fn caller() -> Caller {
    Caller {
        tenant_id: TenantId(Uuid::nil()),
        tenant: "acme".to_owned(),
        key: KeyPrefix::parse("ck_test").unwrap(),
        scopes: Scopes::parse(&["events:ingest", "credit:write"]).unwrap(),
        origin: None,
    }
}

pub(super) fn account(id: Uuid, name: &str, domain: &str, now: DateTime<Utc>) -> Client {
    Client {
        id: ClientId(id),
        name: name.to_owned(),
        email: None,
        phone: None,
        company: None,
        external_id: None,
        marketing_opt_in: false,
        client_type: ClientType::Company,
        company_domain: Some(domain.to_owned()),
        account_id: None,
        created_at: now,
        updated_at: now,
    }
}

/// The JSON of one event.
pub(crate) fn envelope(id: &str, kind: &str, actor: &Value, payload: &str) -> String {
    let mut actor = actor.clone();
    actor["type"] = json!("contact");
    format!(
        r#"{{"specVersion": "1.0", "eventId": {}, "eventType": "{kind}", "occurredAt": "2026-04-30T10:00:00Z",
            "tenant": "acme", "origin": "partner-site", "actor": {actor}, "payload": {payload}}}"#,
        json!(id)
    )
}

/// The events of a message, of which the first one is the `first`-th.
pub(super) fn events<'a>(
    caller: &'a Caller, request_id: Uuid, batch: &'a [Envelope<'a>], first: i16,
) -> Vec<Event<'a>> {
    let context = TraceContext::parse("00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-00").unwrap();
    let request_context = RequestContext { request_id, context };
    let event = |(ordinal, envelope)| Event { caller, envelope, ordinal, request_context };
    (first..).zip(batch).map(event).collect()
}

/// New ids after the last one.
pub(super) fn numbered(last: &mut u128) -> impl FnMut() -> Uuid {
    || {
        *last += 1;
        Uuid::from_u128(*last)
    }
}

/// The refusal of a write or action that the rules refuse; panics if they found a broken invariant.
#[track_caller]
pub(super) fn refusal(error: WriteError) -> WriteRefusal {
    match error {
        WriteError::Refused(refusal) => refusal,
        WriteError::Internal(error) => panic!("{error}"),
    }
}

/// A tenant, and the context of its rules. Ids start from 1, numbers from `ENQ-2026-000001`.
pub(super) struct World {
    pub(super) state: TenantState,
    pub(super) caller: Caller,
    pub(super) now: DateTime<Utc>,
    pub(super) skip_discovery: bool,
    numbers: NumberBlock,
    ids: u128,
    messages: u128,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            state: TenantState::new(tenant(), vec![member("advisor@agency.com")]),
            caller: caller(),
            now: "2026-05-01T12:00:00Z".parse().unwrap(),
            skip_discovery: false,
            numbers: NumberBlock::new(2026, 1..=1000),
            ids: 0,
            messages: 0,
        }
    }

    /// Sends one event in a message of its own.
    pub(super) fn send(&mut self, kind: &str, actor: Value, payload: Value) -> EventResult {
        self.try_send(kind, actor, payload).unwrap()
    }

    /// Like `send`, but returns an internal error instead of panicking.
    pub(super) fn try_send(&mut self, kind: &str, actor: Value, payload: Value) -> Result<EventResult, InternalError> {
        let id = format!("auto-{}", self.messages);
        self.try_apply(&envelope(&id, kind, &actor, &payload.to_string()))
    }

    fn try_apply(&mut self, event: &str) -> Result<EventResult, InternalError> {
        let mut results = self.apply(&format!(r#"{{"events": [{event}]}}"#))?;
        Ok(results.remove(0))
    }

    /// Applies a batch as one message.
    pub(super) fn apply(&mut self, body: &str) -> Result<Vec<EventResult>, InternalError> {
        self.messages += 1;
        let (caller, request_id) = (self.caller.clone(), Uuid::from_u128(self.messages));
        let batch = parse_batch(body.as_bytes(), "acme").unwrap();
        let events = events(&caller, request_id, &batch, 0).into_iter();
        events.map(|event| self.run(|state, ctx| apply(state, &event, ctx))).collect()
    }

    pub(super) fn run<T>(&mut self, rule: impl FnOnce(&mut TenantState, &mut Context<'_>) -> T) -> T {
        let mut next_id = numbered(&mut self.ids);
        let (now, skip_discovery) = (self.now, self.skip_discovery);
        let mut ctx = Context { now, next_id: &mut next_id, numbers: &mut self.numbers, skip_discovery };
        rule(&mut self.state, &mut ctx)
    }

    /// Reserves `count` numbers, after those used.
    pub(super) fn reserve(&mut self, count: usize) {
        let used = i32::try_from(self.state.leads.keys().count()).unwrap();
        self.numbers = NumberBlock::new(2026, (used + 1..).take(count));
    }

    pub(super) fn members(&mut self, emails: &[&str]) {
        self.state.members = emails.iter().copied().map(member).collect();
    }

    pub(super) fn account(&mut self, name: &str, domain: &str) -> ClientId {
        let now = self.now;
        let id = self.run(|_, ctx| (ctx.next_id)());
        self.state.add_client(account(id, name, domain, now));
        ClientId(id)
    }

    /// A booking of ana@example.com that counts `credit_used` as paid.
    pub(super) fn booking(&mut self, booking_ref: &str, credit_used: u32) -> EventResult {
        let ana = json!({"email": "ana@example.com"});
        self.send("enquiry.submitted", ana.clone(), json!({}));
        let payload = json!({"bookingRef": booking_ref, "amount": 1000, "currency": "INR", "creditUsed": credit_used});
        self.send("booking.completed", ana, payload)
    }

    pub(super) fn client(&self, id: ClientId) -> &Client {
        self.state.client(id).unwrap()
    }

    pub(super) fn lead(&self, id: LeadId) -> &Lead {
        self.state.leads.get(&id).unwrap()
    }

    pub(super) fn stage(&self, id: LeadId) -> &'static str {
        self.lead(id).stage.as_str()
    }

    /// The whole state, to check that it did not change.
    pub(super) fn snapshot(&self) -> String {
        format!("{:?}", self.state)
    }
}
