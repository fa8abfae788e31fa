-- The dispatcher's look-ups have exactly one index each that can serve them, whatever the planner knows of the tables.
--
-- A delivery is looked up by all columns of its primary key. What is parked is looked up by its subscription: with the
-- agency as the index's first column, the primary key and a filter would be a second way, as cheap while the table is
-- small, and kept when it has grown. Subscription ids are unique across agencies.
-- The previous release finds its rows through the new index as well.

DROP INDEX deliveries_parked;
CREATE INDEX deliveries_parked ON deliveries (subscription_id, next_attempt_at) WHERE parked_at IS NOT NULL;

COMMENT ON COLUMN outbox.relayed_at IS
    'When every delivery of it was on record: delivered or failed at its first attempt, in the queue, or parked. Null while it waits, or its first attempts are under way.';
