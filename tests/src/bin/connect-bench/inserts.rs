//! The floor of batches of events: the bare multi-row inserts that the same events need, straight into the same
//! Postgres. Ledger, client upsert and timeline, one transaction for a batch, nothing else: no queue, no look-up, no
//! rule. The rows belong to a tenant of the floor's own, with the same people.

use crate::event_kinds::EventKind;
use crate::events::LoadShape;
use crate::figures::{LoadStats, measure, timed};
use crate::people::{POOL, person};
use crate::random::Random;
use crate::traffic::Event;
use futures_util::future::join_all;
use std::time::Duration;
use tests::World;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

const LEDGER: &str = "
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, warnings,
                              applied_at)
    SELECT $1, id, type, 'floor', $2, 0, client, '{}', now()
    FROM unnest($3::text[], $4::text[], $5::uuid[]) AS e (id, type, client)";

const CLIENTS: &str = "
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, external_id, client_type,
                         created_at, updated_at)
    SELECT $1, id, 'Bench Traveller', email, email, phone, digits, external_id, 'individual', now(), now()
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[]) AS c (id, email, phone, digits, external_id)
    ON CONFLICT (email_key, (tenant_id::text)) WHERE email_key IS NOT NULL DO UPDATE SET updated_at = now()";

const TIMELINE: &str = "
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
    SELECT $1, client, entry, id, type, now(), 'website', payload::json
    FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[]) AS t (client, entry, id, type, payload)";

/// The tenant of the floor's rows.
const FLOOR_TENANT: Uuid = Uuid::from_u128(1);

/// A connection with the three statements prepared.
struct BareInserts {
    connection: Client,
    ledger: Statement,
    clients: Statement,
    timeline: Statement,
    random: Random,
}

/// Inserts the pool's people for the floor, as the programs also have them.
pub(crate) async fn introduce_pool(world: &World) {
    let mut writer = BareInserts::connect(world).await;
    let mut random = Random::new();
    for first in (0..POOL).step_by(1_000) {
        let known = |number| Event::new(EventKind::Identified, person(number), &mut random);
        let events: Vec<Event> = (first..POOL.min(first + 1_000)).map(known).collect();
        writer.write(&events).await;
    }
}

/// Inserts the same events as `load` sends, over as many connections, for `length`.
pub(crate) async fn floor(world: &World, shape: LoadShape, length: Duration) -> LoadStats {
    let mut writers = join_all((0..shape.connections).map(|_| BareInserts::connect(world))).await;
    measure(&mut writers, length, shape.batch, async |writer: &mut BareInserts| {
        let events = shape.traffic.draw(shape.batch, &mut writer.random);
        timed(writer.write(&events)).await.1
    })
    .await
}

impl BareInserts {
    async fn connect(world: &World) -> Self {
        let connection = world.database.connect().await;
        let prepare = async |sql: &str| {
            connection
                .prepare(sql)
                .await
                .unwrap_or_else(|error| panic!("the floor's statement: {error:?}: {sql}"))
        };
        let (ledger, clients, timeline) =
            (prepare(LEDGER).await, prepare(CLIENTS).await, prepare(TIMELINE).await);
        Self { connection, ledger, clients, timeline, random: Random::new() }
    }

    async fn write(&mut self, events: &[Event]) {
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_unstable_by(|a, b| a.person.email.cmp(&b.person.email));
        let people = PersonColumns::of_people(&events);
        let columns = EventColumns::of(&events);
        let request = self.random.uuid();
        let written = async {
            let transaction = self.connection.transaction().await?;
            let ledger: Parameters<'_> =
                &[&FLOOR_TENANT, &request, &columns.ids, &columns.types, &columns.clients];
            let clients: Parameters<'_> = &[
                &FLOOR_TENANT,
                &people.ids,
                &people.emails,
                &people.phones,
                &people.digits,
                &people.external_ids,
            ];
            let timeline: Parameters<'_> = &[
                &FLOOR_TENANT,
                &columns.clients,
                &columns.entries,
                &columns.ids,
                &columns.types,
                &columns.payloads,
            ];
            futures_util::try_join!(
                transaction.execute(&self.ledger, ledger),
                transaction.execute(&self.clients, clients),
                transaction.execute(&self.timeline, timeline),
            )?;
            transaction.commit().await
        };
        written.await.unwrap_or_else(|error| panic!("the floor's inserts: {error:?}"));
    }
}

/// People as columns, each once, sorted by email: so that concurrent upserts lock them in one order.
struct PersonColumns<'a> {
    ids: Vec<Uuid>,
    emails: Vec<&'a str>,
    phones: Vec<Option<&'a str>>,
    digits: Vec<Option<&'a str>>,
    external_ids: Vec<Option<&'a str>>,
}

impl<'a> PersonColumns<'a> {
    /// Of events that are sorted by email.
    fn of_people(sorted: &[&'a Event]) -> Self {
        let mut people: Vec<_> = sorted.iter().map(|event| event.person.as_ref()).collect();
        people.dedup_by(|a, b| a.email == b.email);
        Self {
            ids: people.iter().map(|person| person.floor_client).collect(),
            emails: people.iter().map(|person| person.email.as_str()).collect(),
            phones: people.iter().map(|person| person.phone.as_deref()).collect(),
            digits: people.iter().map(|person| person.phone_digits.as_deref()).collect(),
            external_ids: people.iter().map(|person| person.external_id.as_deref()).collect(),
        }
    }
}

/// The events of a batch as columns.
struct EventColumns<'a> {
    ids: Vec<&'a str>,
    types: Vec<&'a str>,
    clients: Vec<Uuid>,
    entries: Vec<Uuid>,
    payloads: Vec<&'a str>,
}

impl<'a> EventColumns<'a> {
    fn of(events: &[&'a Event]) -> Self {
        Self {
            ids: events.iter().map(|event| event.id.as_str()).collect(),
            types: events.iter().map(|event| event.kind.name()).collect(),
            clients: events.iter().map(|event| event.person.floor_client).collect(),
            entries: events.iter().map(|_| Uuid::now_v7()).collect(),
            payloads: events.iter().map(|event| event.payload.as_str()).collect(),
        }
    }
}
