-- Webhooks: subscriptions, the outbox, and deliveries with their attempts.

CREATE TABLE subscriptions (
    tenant_id              uuid        NOT NULL REFERENCES tenants,
    subscription_id        uuid        NOT NULL,
    key_prefix             text,
    display_url            text        NOT NULL,
    url_sealed             bytea       NOT NULL,
    event_types            text[],
    event_types_changed_at timestamptz,
    secret_sealed          bytea       NOT NULL,
    old_secret_sealed      bytea,
    old_secret_until       timestamptz,
    created_at             timestamptz NOT NULL,
    paused_at              timestamptz,
    removed_at             timestamptz,
    PRIMARY KEY (tenant_id, subscription_id),
    FOREIGN KEY (tenant_id, key_prefix) REFERENCES api_keys
);
COMMENT ON TABLE  subscriptions IS 'Where a tenant''s webhooks go.';
COMMENT ON COLUMN subscriptions.tenant_id IS 'The tenant.';
COMMENT ON COLUMN subscriptions.subscription_id IS
    'UUIDv7, so that no two tenants have the same: the operator names a subscription by it alone.';
COMMENT ON COLUMN subscriptions.key_prefix IS
    'The API key it belongs to: what that key caused is not sent to it; null gets all of the tenant''s events (D24).';
COMMENT ON COLUMN subscriptions.display_url IS
    'Where deliveries are posted, for display: a public HTTPS URL (D27), without the values of its query, which may be tokens.';
COMMENT ON COLUMN subscriptions.url_sealed IS
    'The URL that deliveries are posted to, sealed as described at api_keys.secret_sealed and bound to tenant and subscription (D5).';
COMMENT ON COLUMN subscriptions.event_types IS 'Outbound types wanted; null is all.';
COMMENT ON COLUMN subscriptions.event_types_changed_at IS
    'When an operator last changed event_types; null if never since the creation.';
COMMENT ON COLUMN subscriptions.secret_sealed IS
    'The signing secret, sealed as described at api_keys.secret_sealed and bound to tenant and subscription (D5).';
COMMENT ON COLUMN subscriptions.old_secret_sealed IS
    'The secret before the last change, sealed in the same way; null where there is none.';
COMMENT ON COLUMN subscriptions.old_secret_until IS
    'Until when deliveries are signed with the old secret as well; null where there is none.';
COMMENT ON COLUMN subscriptions.created_at IS 'When the operator created it.';
COMMENT ON COLUMN subscriptions.paused_at IS 'Since when its deliveries wait; null while they go out (D24).';
COMMENT ON COLUMN subscriptions.removed_at IS
    'When it was removed; its deliveries are dropped from then on (D24). Null while it is there.';

CREATE INDEX subscriptions_id ON subscriptions (subscription_id, tenant_id) WHERE subscription_id IS NOT NULL;
CREATE INDEX subscriptions_of_key ON subscriptions (key_prefix, tenant_id) WHERE key_prefix IS NOT NULL AND removed_at IS NULL;
COMMENT ON INDEX subscriptions_of_key IS 'Finds the subscriptions whose feeds a key may read.';

CREATE TABLE delivery_numbers (
    tenant_id       uuid   NOT NULL,
    subscription_id uuid   NOT NULL,
    last_number     bigint NOT NULL CHECK (last_number > 0),
    PRIMARY KEY (tenant_id, subscription_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE  delivery_numbers IS
    'The number of the newest delivery of each subscription that has one. Beside subscriptions, because it changes often.';
COMMENT ON COLUMN delivery_numbers.tenant_id IS 'The tenant.';
COMMENT ON COLUMN delivery_numbers.subscription_id IS 'The subscription.';
COMMENT ON COLUMN delivery_numbers.last_number IS
    'Given to a delivery under the lock of this row and in the transaction that inserts it, so that numbers have no holes (D44).';

CREATE TABLE outbox (
    tenant_id       uuid        NOT NULL,
    event_id        uuid        NOT NULL,
    event_type      text        NOT NULL,
    key_prefix      text,
    origin          text        NOT NULL,
    envelope        json        NOT NULL,
    subscription_id uuid,
    request_id      uuid,
    traceparent     text,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  outbox IS
    'Outbound events, written in the transaction of what caused them, together with a row of outbox_pending. Never updated.';
COMMENT ON COLUMN outbox.tenant_id IS 'The tenant.';
COMMENT ON COLUMN outbox.event_id IS
    'eventId of the webhook: the same for all receivers and attempts (Event envelope).';
COMMENT ON COLUMN outbox.event_type IS 'Outbound type, such as lead.assigned (Outbound webhook events).';
COMMENT ON COLUMN outbox.key_prefix IS 'The API key whose call caused it; null for the CRM''s own acts (D16, D24).';
COMMENT ON COLUMN outbox.origin IS
    'Emitting system: crm, the causing event''s, the key''s registered one, or connect-api (D24).';
COMMENT ON COLUMN outbox.envelope IS 'The body of the webhook, kept as text because it is signed byte by byte.';
COMMENT ON COLUMN outbox.subscription_id IS
    'The only subscription that receives the event, whatever its event types; null if all that want the event receive it. Set for test events.';
COMMENT ON COLUMN outbox.request_id IS
    'The request that caused it, as X-Request-Id said; an advisor action''s message. For logs only. Null when that is not known.';
COMMENT ON COLUMN outbox.traceparent IS
    'W3C traceparent of what caused it: its webhooks are sent as part of that trace. Null when that is not known.';
COMMENT ON COLUMN outbox.created_at IS 'When it was written.';

CREATE INDEX outbox_event_id ON outbox (event_id) WHERE created_at IS NOT NULL;
COMMENT ON INDEX outbox_event_id IS
    'Finds expired events. The condition is always true: it keeps look-ups of single events, which use the primary key, from this index.';

-- The slot of a tenant, 0 to 63, is the lowest six bits of its id. Writers need not know it: Postgres computes it.
CREATE TABLE outbox_pending (
    slot       smallint    GENERATED ALWAYS AS (get_byte(uuid_send(tenant_id), 15) & 63) STORED,
    tenant_id  uuid        NOT NULL,
    event_id   uuid        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (slot, tenant_id, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  outbox_pending IS
    'Events of the outbox whose deliveries do not exist yet. The fan-out deletes a row in the transaction that inserts the deliveries.';
COMMENT ON COLUMN outbox_pending.slot IS 'The slot of the tenant: only the dispatcher that holds it fans the event out.';
COMMENT ON COLUMN outbox_pending.tenant_id IS 'The tenant.';
COMMENT ON COLUMN outbox_pending.event_id IS 'The event, in the outbox.';
COMMENT ON COLUMN outbox_pending.created_at IS 'When it was written.';

-- A loose index scan: each step finds the next tenant of any slot that has such an event, and the first of these.
CREATE FUNCTION pending_tenants() RETURNS TABLE (slot smallint, tenant_id uuid, created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    WITH RECURSIVE walk AS (
        (SELECT p.slot, p.tenant_id, p.created_at FROM outbox_pending p
         ORDER BY p.slot, p.tenant_id, p.event_id LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk CROSS JOIN LATERAL (
            SELECT p.slot, p.tenant_id, p.created_at FROM outbox_pending p
            WHERE (p.slot, p.tenant_id) > (walk.slot, walk.tenant_id)
            ORDER BY p.slot, p.tenant_id, p.event_id LIMIT 1
        ) AS next
    )
    SELECT * FROM walk
$$;
COMMENT ON FUNCTION pending_tenants() IS
    'The tenants with events that are not fanned out, each with the time of its first one. It reads a row for each, whatever waits. An id begins with the time of its event, so that the oldest event of all is one of these.';

CREATE TABLE dispatcher_slots (
    slot         smallint    NOT NULL CHECK (slot BETWEEN 0 AND 63),
    holder       uuid,
    epoch        bigint      NOT NULL DEFAULT 0,
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (slot, epoch)
) WITH (fillfactor = 50);
COMMENT ON TABLE  dispatcher_slots IS
    'Leases: only the holder of a slot creates and sends the deliveries of its tenants. Its statements lock the row FOR KEY SHARE, which a renewal does not wait for, but whoever takes the slot does, because the key contains the epoch. A row for each slot; none is added or removed.';
COMMENT ON COLUMN dispatcher_slots.slot IS 'The lowest six bits of a tenant''s id.';
COMMENT ON COLUMN dispatcher_slots.holder IS 'The dispatcher that holds it, a random id for each start of the program; null if none does.';
COMMENT ON COLUMN dispatcher_slots.epoch IS
    'Grows whenever a dispatcher takes the slot. Statements of an earlier epoch write nothing.';
COMMENT ON COLUMN dispatcher_slots.leased_until IS
    'By the clock of the database. Afterwards any dispatcher may take the slot.';
INSERT INTO dispatcher_slots (slot) SELECT generate_series(0, 63);

CREATE TABLE dispatchers (
    dispatcher_id uuid        PRIMARY KEY,
    leased_until  timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE  dispatchers IS 'The dispatchers that run. Each of them holds its share of the slots.';
COMMENT ON COLUMN dispatchers.dispatcher_id IS 'A random id for each start of the program.';
COMMENT ON COLUMN dispatchers.leased_until IS
    'By the clock of the database. Afterwards the dispatcher counts no longer, and another one removes the row.';

CREATE TABLE deliveries (
    subscription_id  uuid        NOT NULL,
    tenant_id        uuid        NOT NULL,
    delivery_id      uuid        NOT NULL,
    event_id         uuid        NOT NULL,
    number           bigint      NOT NULL,
    created_at       timestamptz NOT NULL,
    next_attempt_at  timestamptz,
    last_at          timestamptz,
    last_duration_ms integer,
    slot             smallint    GENERATED ALWAYS AS (get_byte(uuid_send(tenant_id), 15) & 63) STORED,
    attempts         smallint    NOT NULL DEFAULT 0,
    attempts_before  smallint    NOT NULL DEFAULT 0,
    last_status      smallint,
    needs_notice     boolean     NOT NULL DEFAULT false,
    state            text        NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
    last_error       text,
    PRIMARY KEY (subscription_id, number, tenant_id),
    CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL) AND isfinite(next_attempt_at) IS NOT FALSE)
) WITH (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 60);
COMMENT ON TABLE  deliveries IS
    'One outbound event on its way to one subscription. Those of a subscription are a log: numbered 1, 2, 3, ... without holes in the order of fan-out (D44).';
COMMENT ON COLUMN deliveries.subscription_id IS 'The subscription it goes to.';
COMMENT ON COLUMN deliveries.tenant_id IS 'The tenant.';
COMMENT ON COLUMN deliveries.delivery_id IS
    'X-Connect-Delivery: the same for all attempts and replays (D26). Derived from event and subscription; begins with the time of the event.';
COMMENT ON COLUMN deliveries.event_id IS 'The outbound event.';
COMMENT ON COLUMN deliveries.number IS 'Its place in the log of its subscription, which never changes.';
COMMENT ON COLUMN deliveries.created_at IS 'When the event was fanned out.';
COMMENT ON COLUMN deliveries.next_attempt_at IS
    'When the next attempt is due, to the millisecond (D26); null unless it is pending. A paused subscription does not change it.';
COMMENT ON COLUMN deliveries.last_at IS 'When the last attempt began; null before the first one has ended.';
COMMENT ON COLUMN deliveries.last_duration_ms IS 'How long the last attempt took, milliseconds.';
COMMENT ON COLUMN deliveries.slot IS 'The slot of the tenant: only the dispatcher that holds it sends the delivery.';
COMMENT ON COLUMN deliveries.attempts IS 'Attempts made so far.';
COMMENT ON COLUMN deliveries.attempts_before IS
    'Of these, the attempts made before the last replay, which restarts the schedule (D26).';
COMMENT ON COLUMN deliveries.last_status IS 'HTTP status of the last attempt''s response; null where none came.';
COMMENT ON COLUMN deliveries.needs_notice IS
    'Whether its notice in the dead-letter queue is still to be published. A replay sets it to false.';
COMMENT ON COLUMN deliveries.state IS
    'pending (attempts to come), delivered (a 2xx), dead (attempts used up, stays until replayed) or dropped (subscription removed, or a test event that failed) (D24, D26).';
COMMENT ON COLUMN deliveries.last_error IS
    'Why the last attempt had no status, or why the delivery is dead without an attempt; null where there is nothing to say.';

CREATE UNIQUE INDEX deliveries_id ON deliveries (tenant_id, delivery_id);
COMMENT ON INDEX deliveries_id IS 'Finds a delivery by its id, and lists those of a tenant in the order of their events.';
CREATE INDEX deliveries_due ON deliveries (slot, subscription_id, next_attempt_at) WHERE state = 'pending';
COMMENT ON INDEX deliveries_due IS 'Finds the subscriptions of a slot that have something to send, and what is due of each.';
CREATE INDEX deliveries_notices ON deliveries (slot, tenant_id) WHERE needs_notice;
COMMENT ON INDEX deliveries_notices IS 'Finds the tenants with notices that are to be published, and these.';
CREATE INDEX deliveries_dead ON deliveries (tenant_id, delivery_id) WHERE state = 'dead';
COMMENT ON INDEX deliveries_dead IS 'Counts dead-lettered deliveries, and finds those of a tenant.';
CREATE INDEX deliveries_settled ON deliveries (delivery_id) WHERE state IN ('delivered', 'dropped');
COMMENT ON INDEX deliveries_settled IS
    'Contains only deliveries that can expire, so that removing them does not depend on how many are unfinished or dead-lettered.';

-- A loose index scan: each step finds the next subscription of any slot that has a pending delivery, and the first of these.
CREATE FUNCTION pending_subscriptions(after_slot smallint, after_subscription uuid, most bigint)
    RETURNS TABLE (slot smallint, subscription_id uuid, tenant_id uuid, next_attempt_at timestamptz, is_paused boolean)
    LANGUAGE sql STABLE AS $$
    WITH RECURSIVE walk AS (
        (SELECT d.slot, d.subscription_id, d.tenant_id, d.next_attempt_at FROM deliveries d
         WHERE d.state = 'pending' AND (d.slot, d.subscription_id) > (after_slot, after_subscription)
         ORDER BY d.slot, d.subscription_id, d.next_attempt_at LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk CROSS JOIN LATERAL (
            SELECT d.slot, d.subscription_id, d.tenant_id, d.next_attempt_at FROM deliveries d
            WHERE d.state = 'pending' AND (d.slot, d.subscription_id) > (walk.slot, walk.subscription_id)
            ORDER BY d.slot, d.subscription_id, d.next_attempt_at LIMIT 1
        ) AS next
    )
    SELECT page.*, coalesce(s.is_paused, true)
    FROM (SELECT * FROM walk LIMIT most) AS page
    LEFT JOIN LATERAL (
        SELECT paused_at IS NOT NULL AND removed_at IS NULL AS is_paused FROM subscriptions s
        WHERE s.tenant_id = page.tenant_id AND s.subscription_id = page.subscription_id LIMIT 1
    ) AS s ON true
$$;
COMMENT ON FUNCTION pending_subscriptions(smallint, uuid, bigint) IS
    'The next subscriptions after that slot and id which have pending deliveries, at most so many, each with the time of its first one and whether its deliveries wait. It reads two rows for each, whatever waits.';

CREATE TABLE attempts (
    tenant_id        uuid        NOT NULL,
    delivery_id      uuid        NOT NULL,
    attempt          smallint    NOT NULL,
    at               timestamptz NOT NULL,
    status           smallint,
    error            text,
    response         text,
    response_headers text,
    duration_ms      integer     NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  attempts IS
    'Attempts of deliveries (D26): each failed one, and each successful one after another attempt. Of a delivery that succeeded at once only its own row tells the attempt.';
COMMENT ON COLUMN attempts.tenant_id IS 'The tenant.';
COMMENT ON COLUMN attempts.delivery_id IS 'The delivery that was tried.';
COMMENT ON COLUMN attempts.attempt IS 'Its number within the delivery; grows.';
COMMENT ON COLUMN attempts.at IS 'When it was begun.';
COMMENT ON COLUMN attempts.status IS 'HTTP status of the response; null where none came.';
COMMENT ON COLUMN attempts.error IS
    'Why there is no status, such as a timeout or a refused address; null where there is one.';
COMMENT ON COLUMN attempts.response IS
    'The first few KiB of a failed attempt''s response body; null where none is kept.';
COMMENT ON COLUMN attempts.response_headers IS
    'Content-Type, Location, Retry-After and Server of a failed attempt''s response, a line each; null where it had none of them.';
COMMENT ON COLUMN attempts.duration_ms IS 'How long it took, milliseconds.';

CREATE TABLE replay_jobs (
    tenant_id       uuid        NOT NULL REFERENCES tenants,
    job_id          uuid        NOT NULL,
    states          text[]      NOT NULL CHECK (states <@ ARRAY['dead', 'delivered'] AND states <> '{}'),
    event_type      text,
    subscription_id uuid,
    first_id        uuid        NOT NULL,
    end_id          uuid        NOT NULL,
    per_second      integer     NOT NULL CHECK (per_second BETWEEN 1 AND 1000),
    state           text        NOT NULL CHECK (state IN ('running', 'stopping', 'completed', 'stopped')),
    matched         bigint,
    replayed        bigint      NOT NULL DEFAULT 0,
    last_id         uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    batch_at        timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, job_id),
    CHECK ((state IN ('completed', 'stopped')) = (ended_at IS NOT NULL))
);
COMMENT ON TABLE  replay_jobs IS
    'Replays of many deliveries. The holder of the tenant''s slot executes them in batches; a batch commits together with last_id.';
COMMENT ON COLUMN replay_jobs.tenant_id IS 'The tenant whose deliveries are replayed.';
COMMENT ON COLUMN replay_jobs.job_id IS 'UUIDv7 of its creation.';
COMMENT ON COLUMN replay_jobs.states IS 'The states of the deliveries that are replayed: dead, delivered or both.';
COMMENT ON COLUMN replay_jobs.event_type IS 'Only deliveries of events of this type; null for all types.';
COMMENT ON COLUMN replay_jobs.subscription_id IS
    'Only deliveries to this subscription; null for all that are not removed.';
COMMENT ON COLUMN replay_jobs.first_id IS
    'Only deliveries with this id or a higher one. An id begins with the time of its event.';
COMMENT ON COLUMN replay_jobs.end_id IS
    'Only deliveries with a lower id. At most that of the creation of the job, so that it ends while deliveries are added.';
COMMENT ON COLUMN replay_jobs.per_second IS 'Most deliveries that are replayed in a second.';
COMMENT ON COLUMN replay_jobs.state IS
    'running, stopping (no batch follows), completed or stopped.';
COMMENT ON COLUMN replay_jobs.matched IS
    'Deliveries that were selected when the job was created; null if there were more than the settings area counts.';
COMMENT ON COLUMN replay_jobs.replayed IS 'Deliveries that were replayed so far.';
COMMENT ON COLUMN replay_jobs.last_id IS
    'The last delivery that was considered. Batches ascend by the id of the delivery, so a job replays none twice.';
COMMENT ON COLUMN replay_jobs.batch_at IS
    'When the last batch was replayed, from which the rate is counted; the creation of the job before the first one.';
COMMENT ON COLUMN replay_jobs.created_at IS 'When an operator created the job.';
COMMENT ON COLUMN replay_jobs.ended_at IS
    'When the job was completed or stopped; null before. Ended jobs expire by it.';

CREATE INDEX replay_jobs_open ON replay_jobs (job_id) WHERE state IN ('running', 'stopping');
COMMENT ON INDEX replay_jobs_open IS 'Finds the jobs that the dispatcher executes.';
CREATE INDEX replay_jobs_id ON replay_jobs (uuid_send(job_id)) WHERE job_id IS NOT NULL;
COMMENT ON INDEX replay_jobs_id IS 'Finds a job that an operator names without its tenant.';
CREATE INDEX replay_jobs_ended_at ON replay_jobs (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX replay_jobs_ended_at IS 'Finds expired jobs.';
