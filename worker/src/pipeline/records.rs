//! The entry point of records writes: idempotency, quota and deadline around the rules (D17, D23).

use super::{Decision, Pipeline, Tools, UnitOfWork, in_server_time};
use crate::rules::records::{self, Record, Request, Write};
use crate::rules::{Cause, InternalError};
use crate::show;
use crate::state::TenantState;
use crate::store::{self, DEADLINE_PASSED, IdempotencyClaim, LoadRequest, Loaded, QUOTA_USED_UP};
use chrono::{DateTime, Utc};
use common::clock;
use common::db::{Query, TxError};
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, TenantId};
use common::record::{ClientBody, canonical};
use common::trace::{TraceContext, Trail};
use common::write::{WriteMeta, WriteRefusal, Written, etag};
use sha2::{Digest, Sha256};

/// A write as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedWrite<'a> {
    /// Who writes what, on which condition, until when.
    pub(crate) meta: &'a WriteMeta,
    /// Its place in its trace.
    pub(crate) context: TraceContext,
    /// The body as sent.
    pub(crate) body: &'a [u8],
    /// The body as read.
    pub(crate) write: &'a Write,
}

impl Pipeline {
    /// Does a records write. `skip_itinerary` leaves the itinerary out: storing it failed on the first try (D21b).
    pub(crate) async fn write_record(
        &self,
        received: ReceivedWrite<'_>,
        skip_itinerary: bool,
    ) -> Result<Result<Written, WriteRefusal>, TxError> {
        let ReceivedWrite { meta, body, write, .. } = received;
        let event_id = format!("{RESERVED_PREFIX}{}", meta.request_id);
        let request = load_request(meta.caller.tenant_id, event_id.clone(), write);
        // What makes two requests the same: path and JSON value (D17).
        let hash = Sha256::new_with_prefix(&meta.path).chain_update([0]).chain_update(canonical(body));
        let hash = hash.finalize().to_vec();
        self.run(&RecordWrite { received, skip_itinerary, event_id, request, hash }).await
    }
}

struct RecordWrite<'a> {
    received: ReceivedWrite<'a>,
    skip_itinerary: bool,
    event_id: String,
    request: LoadRequest,
    hash: Vec<u8>,
}

impl UnitOfWork for RecordWrite<'_> {
    const NAME: &'static str = "apply_write";
    type Output = Result<Written, WriteRefusal>;

    fn request(&self) -> &LoadRequest {
        &self.request
    }

    fn own_queries(&self) -> Vec<Query<'static>> {
        let claim = |key: &String| Vec::from(store::claim_key(self.received.meta, key));
        self.received.meta.idempotency_key.as_ref().map(claim).unwrap_or_default()
    }

    fn can_open(&self) -> Vec<(TenantId, usize)> {
        if matches!(self.received.write, Write::NewLead(_)) { vec![(self.tenant(), 1)] } else { Vec::new() }
    }

    fn decide(&self, loaded: &mut Loaded, tools: &mut Tools) -> Result<Decision<Self::Output>, TxError> {
        if let Some(answered) = self.answered_before(loaded)? {
            return Ok(Decision::Rollback(answered));
        }
        let applied = tools.apply(loaded, self.tenant(), false, |state, ctx| {
            records::apply(state, &self.request_for_rules(ctx.now), ctx)
        })?;
        let record = match applied {
            Ok(record) => record,
            Err(WriteRefusal::InternalError) => {
                return Err(TxError::Abandoned("the rules failed".to_owned()));
            }
            Err(refusal) => return Ok(Decision::Rollback(Err(refusal))),
        };
        let written = self.written(&loaded.states[&self.tenant()], record)?;
        let last = self.last_queries(&written, loaded, tools.now);
        Ok(Decision::Commit(Ok(written), last))
    }

    fn refused(&self, sql_state: &str) -> Option<Self::Output> {
        match sql_state {
            QUOTA_USED_UP => {
                let retry_after = store::until_next_month(clock::now());
                Some(Err(WriteRefusal::QuotaExceeded { retry_after }))
            }
            DEADLINE_PASSED => Some(Err(WriteRefusal::ProcessingTimeout)),
            _ => None,
        }
    }
}

impl RecordWrite<'_> {
    const fn tenant(&self) -> TenantId {
        self.received.meta.caller.tenant_id
    }

    fn request_for_rules(&self, now: DateTime<Utc>) -> Request<'_> {
        let ReceivedWrite { meta, context, body, write } = self.received;
        let caller = &meta.caller;
        let cause = Cause {
            key_prefix: Some(caller.key.as_str().to_owned()),
            origin: caller.origin.clone().unwrap_or_else(|| "connect-api".to_owned()),
            occurred_at: now,
            trail: Some(Trail { request_id: meta.request_id, context }),
        };
        Request {
            write,
            body,
            if_match: meta.if_match.as_ref(),
            skip_itinerary: self.skip_itinerary,
            event_id: &self.event_id,
            request_id: meta.request_id,
            cause,
        }
    }

    /// The response that the request has been given before: by its key, or, when its message was delivered again because
    /// the reply or the commit's reply was lost, by the ledger.
    fn answered_before(&self, loaded: &Loaded) -> Result<Option<Result<Written, WriteRefusal>>, TxError> {
        let Some(state) = loaded.states.get(&self.tenant()) else { return Ok(None) };
        let applied = state.ledger.get(&self.event_id);
        // The lock's row comes first.
        if let Some(rows) = loaded.own.get(1) {
            match IdempotencyClaim::read(rows, &self.hash)? {
                IdempotencyClaim::New => {}
                // The same message delivered again is no retry of its caller's.
                IdempotencyClaim::Answered(written) => {
                    return Ok(Some(Ok(Written { replayed: applied.is_none(), ..written })));
                }
                IdempotencyClaim::UsedByAnother => return Ok(Some(Err(WriteRefusal::IdempotencyKeyReused))),
            }
        }
        let record = applied.and_then(|entry| self.received.write.record(entry));
        Ok(record.map(|record| self.written(state, record)).transpose()?.map(Ok))
    }

    /// The response to a write that left `record`.
    fn written(&self, state: &TenantState, record: Record) -> Result<Written, InternalError> {
        let (body, updated_at) = show::record(state, record)?;
        let is_new = matches!(self.received.write, Write::NewClient(_) | Write::NewLead(_));
        Ok(Written { status: if is_new { 201 } else { 200 }, etag: etag(updated_at), replayed: false, body })
    }

    /// The response for retries, then quota and deadline.
    fn last_queries(&self, written: &Written, loaded: &Loaded, now: DateTime<Utc>) -> Vec<Query<'static>> {
        let meta = self.received.meta;
        let keep = |key: &String| store::keep_response(meta, key, self.hash.clone(), written, now);
        // What is committed after the deadline would be done although its caller was told 503.
        let deadline = in_server_time(meta.deadline, loaded.server_time, now);
        let count = store::count_write(self.tenant(), now, deadline);
        meta.idempotency_key.as_ref().map(keep).into_iter().chain([count]).collect()
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

/// Every record that a write may touch or show.
pub(crate) fn load_request(tenant: TenantId, event_id: String, write: &Write) -> LoadRequest {
    let mut request = LoadRequest::single(tenant, event_id);
    match write {
        Write::NewClient(body) => request.add_person(tenant, &identity_of(body)),
        Write::Client(id, body) => {
            request.add_person(tenant, &identity_of(body));
            request.clients.ids.add(tenant, id.0);
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
            request.with_proposals = matches!(write, Write::Trip(..));
            request.clients.leads.add(tenant, id.0);
            request.leads.add(tenant, id.0);
        }
    }
    request
}
