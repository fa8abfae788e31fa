-- outside a transaction
-- Rows that have expired are found in the order of time, and removed in small batches (common::retention).
--
-- Every index begins with the id or time by which rows expire, and contains only rows that can expire. So the number of
-- entries that a batch reads does not depend on how many deliveries are unfinished or dead-lettered, which never expire.
-- Other look-ups cannot use these indexes: none compares such a time, and those that name a delivery or an event by its id
-- do not imply the predicate. The exception is deliveries.delivered_or_dropped of connectctl, which names the deliveries it
-- reads: it reads the same rows by this index and by the primary key.
--
-- Cost: an entry for each row, written at the end of the index, because ids (UUIDv7) and times ascend. State and relay mark
-- are columns that other indexes depend on already, so that no update loses HOT.
DROP INDEX CONCURRENTLY IF EXISTS deliveries_settled;

CREATE INDEX CONCURRENTLY deliveries_settled ON deliveries (delivery_id) WHERE state IN ('delivered', 'dropped');

DROP INDEX CONCURRENTLY IF EXISTS outbox_relayed;

CREATE INDEX CONCURRENTLY outbox_relayed ON outbox (event_id) WHERE relayed_at IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS idempotency_keys_created_at;

CREATE INDEX CONCURRENTLY idempotency_keys_created_at ON idempotency_keys (created_at) WHERE created_at IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS notifications_at;

CREATE INDEX CONCURRENTLY notifications_at ON notifications (at) WHERE at IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS event_ledger_applied_at;

CREATE INDEX CONCURRENTLY event_ledger_applied_at ON event_ledger (applied_at) WHERE applied_at IS NOT NULL;

-- The space of removed rows is reused once the table was vacuumed: after a twentieth of the rows, not after a fifth.
ALTER TABLE deliveries SET (autovacuum_vacuum_scale_factor = 0.05);

ALTER TABLE attempts SET (autovacuum_vacuum_scale_factor = 0.05);

ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0.05);

ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.05);

ALTER TABLE notifications SET (autovacuum_vacuum_scale_factor = 0.05);

ALTER TABLE event_ledger SET (autovacuum_vacuum_scale_factor = 0.05);
