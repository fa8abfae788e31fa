//! Floors of a single event in Postgres: a durable commit, and the entry that protects against replays. Each is one
//! statement in its own transaction, on one connection.

use crate::figures::{LoadStats, measure, timed};
use crate::random::Random;
use std::time::Duration;
use tests::World;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

const COMMIT: &str = "
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, warnings,
                              applied_at)
    VALUES ($1, $2, 'contact.identified', 'floor', $1, 0, $1, '{}', now())";

const REPLAY_ENTRY: &str = "
    INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at, idempotency_key)
    VALUES ($1, 'floor', sha256($2::text::bytea), date_trunc('seconds', now()), NULL)";

/// Measures commits of one inserted row, for `length`.
pub(crate) async fn durable_commits(world: &World, length: Duration) -> LoadStats {
    repeat(world, COMMIT, length).await
}

/// Measures inserts of a replay entry, for `length`.
pub(crate) async fn replay_entries(world: &World, length: Duration) -> LoadStats {
    repeat(world, REPLAY_ENTRY, length).await
}

struct Writer {
    connection: Client,
    statement: Statement,
    random: Random,
}

async fn repeat(world: &World, sql: &str, length: Duration) -> LoadStats {
    let connection = world.database.connect().await;
    let statement = connection.prepare(sql).await.expect("the statement fits the schema");
    let mut writers = [Writer { connection, statement, random: Random::new() }];
    measure(&mut writers, length, 1, async |writer: &mut Writer| {
        let (id, key) = (Uuid::from_u128(3), writer.random.uuid().to_string());
        let parameters: [&(dyn ToSql + Sync); 2] = [&id, &key];
        let (written, took) = timed(writer.connection.execute(&writer.statement, &parameters)).await;
        written.unwrap_or_else(|error| panic!("a bare insert: {error:?}"));
        took
    })
    .await
}
