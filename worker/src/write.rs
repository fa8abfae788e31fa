//! A records write: idempotency, load → decide → persist, metering, in one transaction (D17, D23).

use crate::outbox::Emitted;
use crate::rules::records::{self, Record, Write};
use crate::rules::{Cause, Context, InternalError, NumberBlock, lead};
use crate::show;
use crate::state::{LedgerEntry, TenantState, TimelineEntry};
use crate::store::{self, Known, States, Wanted};
use chrono::{DateTime, Datelike, Utc};
use common::clock;
use common::db::{Database, TxError, Work};
use common::event::{Actor, RESERVED_PREFIX};
use common::model::{ClientId, TenantId};
use common::record::canonical;
use common::trace::{TraceContext, Trail};
use common::write::{WriteMeta, WriteRefusal, Written, etag};
use deadpool_postgres::Transaction;
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use uuid::Uuid;

/// The transaction of a write.
#[derive(Debug)]
pub struct WriteWork<'a> {
    /// Where enquiry numbers are reserved.
    pub counters: &'a Database,
    /// Who writes what, on which condition.
    pub meta: &'a WriteMeta,
    /// Its place in its trace.
    pub context: TraceContext,
    /// The body as sent.
    pub body: &'a [u8],
    /// The body as read.
    pub write: Write,
    /// Leave the itinerary out: storing it failed on the first try (D21b).
    pub skip_itinerary: bool,
    /// Whether it wrote to the outbox.
    pub emitted: Emitted,
}

impl Work for WriteWork<'_> {
    type Output = Result<Written, WriteRefusal>;

    /// What is refused, or answered from before, has nothing to commit.
    fn is_kept(output: &Self::Output) -> bool {
        output.as_ref().is_ok_and(|written| !written.replayed)
    }

    async fn run(&self, tx: &Transaction<'_>) -> Result<Self::Output, TxError> {
        let hash = self.hash();
        if let Some(key) = &self.meta.idempotency_key {
            match store::claim(tx, self.meta, key, &hash).await? {
                Known::New => {}
                Known::Answered(written) => {
                    // The same message once more is no retry of its caller's.
                    let replayed = store::applied(tx, self.tenant(), &self.event_id()).await?.is_none();
                    return Ok(Ok(Written { replayed, ..written }));
                }
                Known::Other => return Ok(Err(WriteRefusal::IdempotencyKeyReused)),
            }
        }
        let wanted = self.wanted();
        let mut states = store::load(tx, &wanted).await?;
        if let Some(written) = self.applied_before(&states)? {
            return Ok(Ok(written));
        }
        let now = clock::now();
        let mut numbers = self.reserve(now).await?;
        let written = match self.decide_safely(&mut states, &mut numbers, now)? {
            Ok(written) => written,
            Err(refusal) => return Ok(Err(refusal)),
        };
        store::persist(tx, &states, &wanted, now, &self.emitted).await?;
        if let Some(key) = &self.meta.idempotency_key {
            store::keep(tx, self.meta, key, &hash, &written, now).await?;
        }
        if !store::count(tx, self.tenant(), now).await? {
            return Ok(Err(WriteRefusal::QuotaExceeded { retry_after: store::until_next_month(now) }));
        }
        // Waits for others' locks are behind it: what took too long isn't kept, for its caller was told 503.
        Ok(if clock::now() < self.meta.deadline { Ok(written) } else { Err(WriteRefusal::ProcessingTimeout) })
    }
}

impl WriteWork<'_> {
    fn tenant(&self) -> TenantId {
        self.meta.caller.tenant_id
    }

    fn event_id(&self) -> String {
        format!("{RESERVED_PREFIX}{}", self.meta.request_id)
    }

    /// What makes two requests the same: path and JSON value (D17).
    fn hash(&self) -> Vec<u8> {
        let digest =
            Sha256::new_with_prefix(&self.meta.path).chain_update([0]).chain_update(canonical(self.body));
        digest.finalize().to_vec()
    }

    fn wanted(&self) -> Wanted {
        wanted(self.tenant(), self.event_id(), &self.write)
    }

    async fn reserve(&self, now: DateTime<Utc>) -> Result<NumberBlock, TxError> {
        let wanted = usize::from(matches!(self.write, Write::NewLead(_)));
        let reserved = store::reserve_numbers(self.counters, &[(self.tenant(), wanted)], now).await?;
        let first = reserved.get(&self.tenant()).map_or(1, |(first, _)| *first);
        Ok(NumberBlock::new(now.year(), first, wanted))
    }

    /// The answer to a message that was applied, and is here again because its answer or its commit's was lost. What a
    /// POST was answered is kept; a PATCH is answered with the record as it is now.
    fn applied_before(&self, states: &States) -> Result<Option<Written>, TxError> {
        let Some(state) = states.get(&self.tenant()) else { return Ok(None) };
        let Some(entry) = state.ledger.get(&self.event_id()) else { return Ok(None) };
        let Some(record) = self.write.record(entry) else { return Ok(None) };
        self.written(state, record).map(Some).map_err(|error| TxError::Abandoned(error.to_string()))
    }

    /// [`decide`](Self::decide), of which a fault or a panic fails this write and not the worker.
    fn decide_safely(
        &self,
        states: &mut States,
        numbers: &mut NumberBlock,
        now: DateTime<Utc>,
    ) -> Result<Result<Written, WriteRefusal>, TxError> {
        match catch_unwind(AssertUnwindSafe(|| self.decide(states, numbers, now))) {
            Ok(Err(WriteRefusal::InternalError)) => Err(TxError::Abandoned("the rules failed".to_owned())),
            Ok(decided) => Ok(decided),
            Err(_) => Err(TxError::Abandoned("the rules panicked".to_owned())),
        }
    }

    fn decide(
        &self,
        states: &mut States,
        numbers: &mut NumberBlock,
        now: DateTime<Utc>,
    ) -> Result<Written, WriteRefusal> {
        let state = states.get_mut(&self.tenant()).ok_or(WriteRefusal::InternalError)?;
        let cause = Cause {
            key_prefix: Some(self.meta.caller.key.as_str().to_owned()),
            origin: self.meta.caller.origin.clone().unwrap_or_else(|| "connect-api".to_owned()),
            occurred_at: now,
            trail: Some(Trail { request_id: self.meta.request_id, context: self.context }),
        };
        let ctx = &mut Context { now, next_id: &mut Uuid::now_v7, numbers, skip_discovery: false };
        let condition = self.meta.if_match.as_ref();
        let record = records::write(state, &self.write, condition, self.skip_itinerary, &cause, ctx)?;
        self.enter(state, record, &cause, ctx)?;
        Ok(self.written(state, record)?)
    }

    /// The answer to a write that left `record`.
    fn written(&self, state: &TenantState, record: Record) -> Result<Written, InternalError> {
        let (body, updated_at) = show::record(state, record)?;
        let status = if matches!(self.write, Write::NewClient(_) | Write::NewLead(_)) { 201 } else { 200 };
        Ok(Written { status, etag: etag(updated_at), replayed: false, body })
    }

    /// Every write is in the ledger; an enquiry opened is on the timeline, as an `enquiry.submitted` is (D14, D17).
    fn enter(
        &self,
        state: &mut TenantState,
        record: Record,
        cause: &Cause,
        ctx: &mut Context<'_>,
    ) -> Result<(), WriteRefusal> {
        let (client_id, lead_id) = match record {
            Record::Client(id) => (id, None),
            Record::Lead(id) | Record::Trip(id, _) => (lead::get(state, id)?.client_id, Some(id)),
        };
        let entry = LedgerEntry {
            event_id: self.event_id(),
            event_type: self.name().to_owned(),
            key_prefix: self.meta.caller.key.as_str().to_owned(),
            request_id: self.meta.request_id,
            ordinal: 0,
            client_id: Some(client_id),
            lead_id,
            trip_id: lead_id.and_then(|id| lead::trip_id(state, id)),
            discovery_id: None,
            warnings: record.warnings(),
        };
        if matches!(self.write, Write::NewLead(_)) {
            state.timeline.push(TimelineEntry {
                entry_id: (ctx.next_id)(),
                client_id,
                event_id: entry.event_id.clone(),
                event_type: "enquiry.submitted".to_owned(),
                occurred_at: cause.occurred_at,
                origin: cause.origin.clone(),
                payload: std::str::from_utf8(self.body).ok().map(str::to_owned),
            });
        }
        state.ledger_added.push(entry.event_id.clone());
        state.ledger.insert(entry.event_id.clone(), entry);
        Ok(())
    }

    /// What the ledger calls it.
    const fn name(&self) -> &'static str {
        match self.write {
            Write::NewClient(_) => "client.created",
            Write::Client(..) => "client.changed",
            Write::NewLead(_) => "lead.opened",
            Write::Lead(..) => "lead.changed",
            Write::Trip(..) => "trip.changed",
        }
    }
}

fn identity_of(body: &common::record::ClientBody) -> Actor {
    Actor {
        email: body.email.get().cloned(),
        phone: body.phone.get().cloned(),
        external_id: body.external_id.get().map(|id| id.as_str().to_owned()),
        name: None,
    }
}

/// Every record that a write may touch or show.
pub(crate) fn wanted(tenant: TenantId, event_id: String, write: &Write) -> Wanted {
    let mut wanted = Wanted { events: 1, shown: true, ..Wanted::default() };
    wanted.tenants.insert(tenant.0);
    wanted.event_ids.add(tenant, event_id);
    match write {
        Write::NewClient(body) => wanted.add_identity(tenant, &identity_of(body)),
        Write::Client(id, body) => {
            wanted.add_identity(tenant, &identity_of(body));
            wanted.clients.add(tenant, id.0);
        }
        Write::NewLead(body) => {
            if let Some(contact) = body.contact.get() {
                wanted.add_identity(tenant, &contact.clone().into());
            }
            if let Some(id) = body.client_id.get().and_then(|id| ClientId::parse(id.as_str())) {
                wanted.clients.add(tenant, id.0);
            }
        }
        Write::Lead(id, _) | Write::Trip(id, _) => wanted.leads.add(tenant, id.0),
    }
    wanted
}
