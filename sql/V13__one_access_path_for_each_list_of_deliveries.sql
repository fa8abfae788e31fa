-- outside a transaction
-- Operators list, find, replay and drop deliveries without reading others.
--
-- The primary key lists all deliveries of a tenant: it begins with the tenant, and a delivery's id is a UUIDv7 of
-- its event's time. The first index finds those of a subscription or in a state; a list of a tenant's dead-lettered
-- deliveries is merged from its subscriptions, so that no index by tenant and state is needed.
--
-- Both indexes begin with the bytes of an id (uuid_send), and only look-ups that compare these can use them (V4):
-- parked deliveries are looked up by subscription_id itself, and the primary key, which ends with the id of the
-- delivery, could serve a comparison of that id by being read whole.
--
-- Cost of a delivery: an entry in each index with every version of its row. Entries of deliveries_id are written in the
-- order of time, at the end of the index. No update loses HOT because of the two indexes: each update changes
-- state, parked_at or next_attempt_at, on which the indexes of queued and parked deliveries depend already.
-- Both contain the id, or are looked up with it, so that they fit partitions by id.
DROP INDEX CONCURRENTLY IF EXISTS deliveries_subscription;

CREATE INDEX CONCURRENTLY deliveries_subscription ON deliveries (uuid_send(subscription_id), state, delivery_id)
    WHERE subscription_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS deliveries_id;

CREATE INDEX CONCURRENTLY deliveries_id ON deliveries (uuid_send(delivery_id)) WHERE delivery_id IS NOT NULL;

COMMENT ON COLUMN deliveries.created_at IS
    'When the delivery was created: when its first attempt began, or it was queued or parked before that.';
