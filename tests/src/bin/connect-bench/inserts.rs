//! The floor of batches of events: the bare multi-row inserts that the same events need, straight into the same
//! Postgres. Ledger, client upsert and timeline, one transaction for a batch, nothing else: no queue, no look-up, no
//! rule. The rows belong to a tenant of the floor's own, with the same people. The other rows of enquiries, bookings
//! and discoveries are left out.

use crate::measure::{LoadStats, Shape, measure, timed};
use crate::traffic::{Event, Person, everybody, random_id};
use futures_util::future::{join_all, try_join_all};
use std::time::Duration;
use tests::World;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};
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
    SELECT $1, id, 'Bench Traveller', email, email, '+' || digits, digits, external_id, 'individual', now(), now()
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) AS c (id, email, digits, external_id)
    ON CONFLICT (email_key, (tenant_id::text), tenant_id) WHERE email_key IS NOT NULL DO UPDATE SET updated_at = now()";

const TIMELINE: &str = "
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
    SELECT $1, client, entry, id, type, now(), 'website', payload::json
    FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[]) AS t (client, entry, id, type, payload)";

/// The tenant of the floor's rows.
const TENANT: Uuid = Uuid::from_u128(1);

/// Inserts the pool's people for the floor, as the programs also have them.
pub(crate) async fn insert_people(world: &World) {
    let writer = Writer::connect(world).await;
    for batch in everybody().chunks(1_000) {
        writer.write(batch).await.expect("the floor's people");
    }
}

/// Inserts the same events as the load sends, over as many connections, for `length`.
pub(crate) async fn inserts(world: &World, shape: Shape, length: Duration) -> LoadStats {
    let writers = join_all((0..shape.connections).map(|_| Writer::connect(world))).await;
    measure(shape.connections, length, shape.batch, async |number| {
        let events = shape.traffic.draw(shape.batch);
        let (written, took) = timed(writers[number].write(&events)).await;
        written.unwrap_or_else(|error| panic!("the floor's inserts: {error:?}"));
        took
    })
    .await
}

/// A connection with the three statements prepared.
struct Writer {
    connection: Client,
    statements: Vec<Statement>,
}

impl Writer {
    async fn connect(world: &World) -> Self {
        let connection = world.database.connect().await;
        let prepared = try_join_all([LEDGER, CLIENTS, TIMELINE].map(|sql| connection.prepare(sql))).await;
        Self { statements: prepared.expect("the floor's statements fit the schema"), connection }
    }

    async fn write(&self, events: &[Event]) -> Result<(), Error> {
        // Sorted, so that concurrent upserts lock people in one order.
        let mut people: Vec<&Person> = events.iter().map(|event| event.person).collect();
        people.sort_unstable_by(|a, b| a.email.cmp(&b.email));
        people.dedup_by(|a, b| a.email == b.email);
        let clients: Vec<Uuid> = people.iter().map(|person| person.floor_client).collect();
        let emails: Vec<&str> = people.iter().map(|person| person.email.as_str()).collect();
        let digits: Vec<&str> = people.iter().map(|person| person.phone_digits.as_str()).collect();
        let external_ids: Vec<&str> = people.iter().map(|person| person.external_id.as_str()).collect();

        let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
        let types: Vec<&str> = events.iter().map(|event| event.kind).collect();
        let of: Vec<Uuid> = events.iter().map(|event| event.person.floor_client).collect();
        let entries: Vec<Uuid> = events.iter().map(|_| Uuid::now_v7()).collect();
        let payloads: Vec<&str> = events.iter().map(|event| event.payload.as_str()).collect();
        let request = random_id();

        let rows: [Parameters<'_>; 3] = [
            &[&TENANT, &request, &ids, &types, &of],
            &[&TENANT, &clients, &emails, &digits, &external_ids],
            &[&TENANT, &of, &entries, &ids, &types, &payloads],
        ];
        let inserts = self.statements.iter().zip(rows);
        self.connection.batch_execute("BEGIN").await?;
        try_join_all(inserts.map(|(statement, rows)| self.connection.execute(statement, rows))).await?;
        self.connection.batch_execute("COMMIT").await
    }
}
