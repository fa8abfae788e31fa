-- outside a transaction
-- V5 for a database in use, see V4 in this directory.
DROP INDEX CONCURRENTLY IF EXISTS deliveries_parked_building;

CREATE INDEX CONCURRENTLY deliveries_parked_building ON deliveries (subscription_id, next_attempt_at)
    WHERE parked_at IS NOT NULL;

DO $do$ BEGIN IF to_regclass('deliveries_parked_building') IS NOT NULL THEN DROP INDEX IF EXISTS deliveries_parked; ALTER INDEX deliveries_parked_building RENAME TO deliveries_parked; END IF; END $do$;

-- in the transaction that records the migration
COMMENT ON COLUMN outbox.relayed_at IS
    'When every delivery of it was on record: delivered or failed at its first attempt, in the queue, or parked. Null while it waits, or its first attempts are under way.';
