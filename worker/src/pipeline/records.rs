//! The entry point of records writes: idempotency, quota and deadline around the rules (D17, D23).
//!
//! Writes that wait together are one unit. A refused write does not change the state, so the others are committed
//! without it. If the unit as a whole cannot be committed, the caller applies its writes one by one.

use super::{Decision, Pipeline, UnitContext, UnitOfWork, refusal};
use crate::record_body;
use crate::rules::records::{self, Record, Write, WriteRequest};
use crate::rules::{Cause, InternalError};
use crate::state::TenantState;
use crate::store::{
    self, DEADLINE_PASSED, IdempotencyClaim, IdempotencyKey, LoadRequest, Loaded, QUOTA_USED_UP, StoredResponse,
    StoredResponses,
};
use chrono::{DateTime, Utc};
use common::clock;
use common::db::{Query, TxError};
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, TenantId};
use common::record::{ClientBody, canonical};
use common::trace::{RequestContext, TraceContext};
use common::version::etag;
use common::write::{WriteMeta, WriteRefusal, Written};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A write with the metadata of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedWrite<'a> {
    /// Caller, target, `If-Match` condition and deadline.
    pub(crate) meta: &'a WriteMeta,
    pub(crate) context: TraceContext,
    /// The body as sent.
    pub(crate) body: &'a [u8],
    /// The write that the body states.
    pub(crate) write: &'a Write,
}

/// The response to a write.
pub(crate) type WriteResult = Result<Written, WriteRefusal>;

impl ReceivedWrite<'_> {
    const fn tenant(&self) -> TenantId {
        self.meta.caller.tenant_id
    }

    /// The `Idempotency-Key` of a POST. A unit holds no two writes with the same one.
    pub(crate) fn idempotency_key(&self) -> Option<IdempotencyKey> {
        let caller = &self.meta.caller;
        self.meta.idempotency_key.as_ref().map(|key| IdempotencyKey {
            tenant: caller.tenant_id,
            key_prefix: caller.key.as_str().to_owned(),
            key: key.clone(),
        })
    }
}

impl Pipeline {
    /// Applies records writes in their order, in one transaction, and returns the result of each. A dry run must be the only one.
    ///
    /// `skip_itinerary` leaves itineraries out, for a retry after one could not be stored (D21b).
    pub(crate) async fn write_records(
        &self, received: &[ReceivedWrite<'_>], skip_itinerary: bool,
    ) -> Result<Vec<WriteResult>, TxError> {
        let mut request = LoadRequest::default();
        let writes: Vec<UnitWrite<'_>> = received.iter().map(|write| UnitWrite::of(*write)).collect();
        for UnitWrite { received, event_id, .. } in &writes {
            request.add_single(received.tenant(), event_id.clone());
            add_write(&mut request, received.tenant(), received.write);
        }
        self.run(&WriteUnit { request, writes, skip_itinerary }).await
    }
}

/// Whether a unit failed because the quota was exceeded, or a deadline had passed, for one of its writes.
pub(crate) fn is_quota_or_deadline_error(error: &TxError) -> bool {
    matches!(error.sql_state(), Some(QUOTA_USED_UP | DEADLINE_PASSED))
}

struct WriteUnit<'a> {
    request: LoadRequest,
    writes: Vec<UnitWrite<'a>>,
    skip_itinerary: bool,
}

struct UnitWrite<'a> {
    received: ReceivedWrite<'a>,
    /// Its event id in the ledger: `connect-api:<request id>` (D17).
    event_id: String,
    /// Its `Idempotency-Key`, and the request hash that a later request with this key is compared with.
    idempotency: Option<(IdempotencyKey, Vec<u8>)>,
}

/// What the last statements of a unit write: responses for retries, quota and deadline.
#[derive(Default)]
struct ClosingStatements {
    responses: Vec<(IdempotencyKey, StoredResponse)>,
    /// Number of writes that count against each tenant's quota.
    counts: BTreeMap<TenantId, i64>,
    /// The latest time at which the unit may be committed, by the server's clock.
    deadline: Option<DateTime<Utc>>,
}

impl UnitOfWork for WriteUnit<'_> {
    const NAME: &'static str = "apply_write";
    type Output = Vec<WriteResult>;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn claim_queries(&self) -> Vec<Query<'static>> {
        let keys = self.writes.iter().filter_map(|write| write.idempotency.as_ref());
        store::claim_keys(keys.map(|(key, _)| key))
    }

    fn is_dry_run(&self) -> bool {
        self.writes.iter().any(|write| write.received.meta.dry_run)
    }

    fn max_new_leads(&self) -> Vec<(TenantId, usize)> {
        let mut counts = BTreeMap::new();
        for UnitWrite { received, .. } in &self.writes {
            if matches!(received.write, Write::NewLead(_)) {
                *counts.entry(received.tenant()).or_insert(0) += 1;
            }
        }
        counts.into_iter().collect()
    }

    fn decide(&self, loaded: &mut Loaded, unit_ctx: &mut UnitContext) -> Result<Decision<Self::Output>, TxError> {
        let responses = StoredResponses::parse(&loaded.claims)?;
        let mut closing = ClosingStatements::default();
        let mut results = Vec::with_capacity(self.writes.len());
        for write in &self.writes {
            results.push(self.decide_write(write, &responses, loaded, unit_ctx, &mut closing)?);
        }
        Ok(Decision::Commit(results, closing.queries(unit_ctx.now)))
    }

    fn result_of_failure(&self, sql_state: &str) -> Option<Self::Output> {
        if self.writes.len() != 1 {
            // The SQLSTATE does not say which write is refused; the caller applies them one by one.
            return None;
        }
        match sql_state {
            QUOTA_USED_UP => {
                let retry_after = store::until_next_month(clock::database_now());
                Some(vec![Err(WriteRefusal::QuotaExceeded { retry_after })])
            }
            DEADLINE_PASSED => Some(vec![Err(WriteRefusal::ProcessingTimeout)]),
            _ => None,
        }
    }
}

impl WriteUnit<'_> {
    fn decide_write(
        &self, write: &UnitWrite<'_>, responses: &StoredResponses, loaded: &mut Loaded, unit_ctx: &mut UnitContext,
        closing: &mut ClosingStatements,
    ) -> Result<WriteResult, TxError> {
        if let Some(earlier) = write.earlier_response(responses, loaded)? {
            return Ok(earlier);
        }
        let tenant = write.received.tenant();
        let applied = unit_ctx.apply(loaded, tenant, false, |state, ctx| {
            records::apply(state, &write.request_for_rules(ctx.now, self.skip_itinerary), ctx)
        })?;
        let record = match applied.map_err(refusal) {
            Ok(record) => record,
            Err(WriteRefusal::InternalError) => {
                return Err(TxError::Abandoned("the rules failed".to_owned()));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        let written = write.written(&loaded.states[&tenant], record)?;
        let deadline = write.received.meta.deadline;
        closing.add(write, &written, deadline);
        Ok(Ok(written))
    }
}

impl ClosingStatements {
    fn add(&mut self, write: &UnitWrite<'_>, written: &Written, deadline: DateTime<Utc>) {
        // A dry run occupies no key. It is counted to learn whether the quota suffices, which is rolled back.
        if let Some((key, request_hash)) = write.idempotency.clone()
            && !write.received.meta.dry_run
        {
            self.responses.push((key, StoredResponse { request_hash, written: written.clone() }));
        }
        *self.counts.entry(write.received.tenant()).or_insert(0) += 1;
        // A write must not be committed after ingest has responded with 503.
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// The statements: responses for retries, then quota and deadline. Empty if nothing was written.
    fn queries(self, now: DateTime<Utc>) -> Vec<Query<'static>> {
        let Some(deadline) = self.deadline else { return Vec::new() };
        let count = store::count_writes(&self.counts, now, deadline);
        store::store_responses(&self.responses, now).into_iter().chain([count]).collect()
    }
}

impl<'a> UnitWrite<'a> {
    fn of(received: ReceivedWrite<'a>) -> Self {
        let ReceivedWrite { meta, body, .. } = received;
        // Two requests are the same if path and JSON value are (D17).
        let hash = || {
            let hash = Sha256::new_with_prefix(&meta.path).chain_update([0]).chain_update(canonical(body));
            hash.finalize().to_vec()
        };
        let idempotency = received.idempotency_key().map(|key| (key, hash()));
        Self { received, event_id: format!("{RESERVED_PREFIX}{}", meta.request_id), idempotency }
    }

    fn request_for_rules(&self, now: DateTime<Utc>, skip_itinerary: bool) -> WriteRequest<'_> {
        let ReceivedWrite { meta, context, body, write } = self.received;
        let caller = &meta.caller;
        // The origin of the events that the write causes (D24).
        let cause = Cause {
            key_prefix: Some(caller.key.as_str().to_owned()),
            origin: caller.origin.clone().unwrap_or_else(|| "connect-api".to_owned()),
            occurred_at: now,
            request_context: Some(RequestContext { request_id: meta.request_id, context }),
        };
        WriteRequest {
            write,
            body,
            if_match: meta.if_match.as_ref(),
            skip_itinerary,
            event_id: &self.event_id,
            request_id: meta.request_id,
            cause,
        }
    }

    /// The response that the request got before: found by its `Idempotency-Key`, or by the ledger if the message was
    /// redelivered because the reply or the confirmation of the commit was lost.
    fn earlier_response(&self, responses: &StoredResponses, loaded: &Loaded) -> Result<Option<WriteResult>, TxError> {
        let Some(state) = loaded.states.get(&self.received.tenant()) else { return Ok(None) };
        let applied = state.ledger.get(&self.event_id);
        if let Some((key, request_hash)) = &self.idempotency {
            match responses.claim(key, request_hash) {
                IdempotencyClaim::New => {}
                // With an entry in the ledger this message was applied and is redelivered: the same response. Without one the
                // caller has retried.
                IdempotencyClaim::SameRequest(written) => {
                    return Ok(Some(Ok(Written { replayed: applied.is_none(), ..written })));
                }
                IdempotencyClaim::UsedByAnother => return Ok(Some(Err(WriteRefusal::IdempotencyKeyReused))),
            }
        }
        let record = applied.and_then(|entry| self.received.write.record(entry));
        Ok(record.map(|record| self.written(state, record)).transpose()?.map(Ok))
    }

    /// The response to a write whose result is `record`.
    fn written(&self, state: &TenantState, record: Record) -> Result<Written, InternalError> {
        let (body, updated_at) = record_body::render(state, record)?;
        let is_new = matches!(self.received.write, Write::NewClient(_) | Write::NewLead(_));
        let (body, etag) = match self.received.meta.dry_run {
            true => (record_body::without_new_ids(state, record, &body), String::new()),
            false => (body, etag(updated_at)),
        };
        Ok(Written { status: if is_new { 201 } else { 200 }, etag, replayed: false, body })
    }
}

fn identity_of(body: &ClientBody) -> Actor {
    Actor {
        email: body.email.get().cloned(),
        phone: body.phone.get().cloned(),
        external_id: body.external_id.get().map(|id| id.as_str().to_owned()),
        name: None,
    }
}

/// Adds every record that a write may change, or that its response shows.
pub(crate) fn add_write(request: &mut LoadRequest, tenant: TenantId, write: &Write) {
    match write {
        Write::NewClient(body) => request.add_person(tenant, &identity_of(body)),
        Write::Client(id, body) => {
            request.add_person(tenant, &identity_of(body));
            request.clients.ids.add(tenant, id.0);
            if let Some(email) = body.email.get() {
                request.assigned_emails.add(tenant, email.key().to_owned());
            }
            request.with_travelers = true;
        }
        Write::NewLead(body) => {
            request.with_members = true;
            if let Some(contact) = body.contact.get() {
                request.add_person(tenant, &contact.clone().into());
            }
            if let Some(id) = body.client_id.get().and_then(|id| ClientId::parse(id.as_str())) {
                request.clients.ids.add(tenant, id.0);
            }
        }
        Write::Lead(id, _) | Write::Trip(id, _) => {
            request.with_members = true;
            request.with_proposals |= matches!(write, Write::Trip(..));
            request.clients.leads.add(tenant, id.0);
            request.leads.add(tenant, id.0);
        }
    }
}
