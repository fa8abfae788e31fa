-- What the dispatcher needs to know of a delivery beyond its state.

ALTER TABLE deliveries
    -- Its id is derived from event and subscription, so that the primary key already says what this index said.
    DROP CONSTRAINT deliveries_event_subscription_key,
    ADD COLUMN attempts        smallint NOT NULL DEFAULT 0,
    ADD COLUMN attempts_before smallint NOT NULL DEFAULT 0,
    ADD COLUMN parked_at       timestamptz,
    ADD COLUMN parked_until    timestamptz;
COMMENT ON COLUMN deliveries.delivery_id IS
    'X-Connect-Delivery: the same for all attempts and replays (D26). Derived from event and subscription.';
COMMENT ON COLUMN deliveries.attempts IS 'Attempts made so far.';
COMMENT ON COLUMN deliveries.attempts_before IS
    'Of these, the attempts made before the last replay, which begins the schedule anew (D26).';
COMMENT ON COLUMN deliveries.parked_at IS
    'Since when it waits here to be put into the queue when it is due: its subscription is paused or its receiver slow, the queue was full, the queue has lost it, or it is replayed. Null while the queue has it, and once it has ended.';
COMMENT ON COLUMN deliveries.parked_until IS
    'Until when its receiver is expected to be busy with others; null unless that is why it waits here (D28).';

-- Deliveries that wait here, by subscription and time: what is put into the queue next.
CREATE INDEX deliveries_parked ON deliveries (tenant_id, subscription_id, next_attempt_at)
    WHERE parked_at IS NOT NULL;
-- What the queue has, by when it is due: the gauge, and what the queue has lost.
CREATE INDEX deliveries_queued ON deliveries (next_attempt_at) WHERE state = 'pending' AND parked_at IS NULL;
-- Dead letters of an agency: the gauge, and their replay.
CREATE INDEX deliveries_dead ON deliveries (tenant_id, delivery_id) WHERE state = 'dead';
