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
    relayed_at      timestamptz,
    PRIMARY KEY (tenant_id, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  outbox IS
    'Outbound events, written in the transaction of what caused them and relayed to the queue afterwards.';
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
COMMENT ON COLUMN outbox.relayed_at IS
    'When every delivery of it was on record: delivered or failed at its first attempt, in the queue, or parked. Null while it waits, or its first attempts are under way.';

CREATE INDEX outbox_pending ON outbox (event_id) WHERE relayed_at IS NULL;
CREATE INDEX outbox_relayed ON outbox (event_id) WHERE relayed_at IS NOT NULL;

CREATE TABLE deliveries (
    tenant_id       uuid        NOT NULL,
    delivery_id     uuid        NOT NULL,
    event_id        uuid        NOT NULL,
    subscription_id uuid        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
    attempts        smallint    NOT NULL DEFAULT 0,
    attempts_before smallint    NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    next_attempt_at timestamptz,
    parked_at       timestamptz,
    parked_until    timestamptz,
    PRIMARY KEY (tenant_id, delivery_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  deliveries IS 'One outbound event on its way to one subscription.';
COMMENT ON COLUMN deliveries.tenant_id IS 'The tenant.';
COMMENT ON COLUMN deliveries.delivery_id IS
    'X-Connect-Delivery: the same for all attempts and replays (D26). Derived from event and subscription.';
COMMENT ON COLUMN deliveries.event_id IS 'The outbound event.';
COMMENT ON COLUMN deliveries.subscription_id IS 'The subscription it goes to.';
COMMENT ON COLUMN deliveries.state IS
    'pending (attempts to come), delivered (a 2xx), dead (attempts used up, stays until replayed) or dropped (subscription removed) (D24, D26).';
COMMENT ON COLUMN deliveries.attempts IS 'Attempts made so far.';
COMMENT ON COLUMN deliveries.attempts_before IS
    'Of these, the attempts made before the last replay, which restarts the schedule (D26).';
COMMENT ON COLUMN deliveries.created_at IS
    'When the delivery was created: when its first attempt began, or it was queued or parked before that.';
COMMENT ON COLUMN deliveries.next_attempt_at IS 'When the next attempt is due; null where none is scheduled (D26).';
COMMENT ON COLUMN deliveries.parked_at IS
    'Since when it waits here to be put into the queue when it is due: its subscription is paused or its receiver slow, the queue was full, the queue has lost it, or it is replayed. Null while the queue has it, and once it has ended.';
COMMENT ON COLUMN deliveries.parked_until IS
    'Until when its receiver is expected to be busy with others; null unless that is why it waits here (D28).';

-- Deliveries that the queue has, by when they are due: the gauge, and what the queue has lost.
CREATE INDEX deliveries_queued ON deliveries (next_attempt_at) WHERE state = 'pending' AND parked_at IS NULL;
-- Dead-lettered deliveries of a tenant: the gauge, and their replay.
CREATE INDEX deliveries_dead ON deliveries (tenant_id, delivery_id) WHERE state = 'dead';
-- What is put into the queue next. With the tenant as its first column, the primary key and a filter would be a second way.
CREATE INDEX deliveries_parked ON deliveries (subscription_id, next_attempt_at) WHERE parked_at IS NOT NULL;
-- Operators list, find, replay and drop deliveries without reading others. The primary key lists all deliveries of a tenant; the
-- first index finds those of a subscription or in a state, and the second one a delivery that is named without its tenant. Both
-- begin with the bytes of an id, and only look-ups that compare these can use them: parked deliveries are looked up by
-- subscription_id itself. No update loses HOT because of them: each changes state, parked_at or next_attempt_at, on which other
-- indexes depend already.
CREATE INDEX deliveries_subscription ON deliveries (uuid_send(subscription_id), state, delivery_id)
    WHERE subscription_id IS NOT NULL;
CREATE INDEX deliveries_id ON deliveries (uuid_send(delivery_id)) WHERE delivery_id IS NOT NULL;
-- Contains only deliveries that can expire, so that removing them does not depend on how many are unfinished or dead-lettered.
CREATE INDEX deliveries_settled ON deliveries (delivery_id)
    WHERE state IN ('delivered', 'dropped');

CREATE TABLE attempts (
    tenant_id   uuid        NOT NULL,
    delivery_id uuid        NOT NULL,
    attempt     smallint    NOT NULL,
    at          timestamptz NOT NULL,
    status      smallint,
    error       text,
    response    text,
    duration_ms integer     NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id, attempt)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  attempts IS 'Each try of a delivery (D26).';
COMMENT ON COLUMN attempts.tenant_id IS 'The tenant.';
COMMENT ON COLUMN attempts.delivery_id IS 'The delivery that was tried.';
COMMENT ON COLUMN attempts.attempt IS 'Its number within the delivery; grows.';
COMMENT ON COLUMN attempts.at IS 'When it was begun.';
COMMENT ON COLUMN attempts.status IS 'HTTP status of the response; null where none came.';
COMMENT ON COLUMN attempts.error IS
    'Why there is no status, such as a timeout or a refused address; null where there is one.';
COMMENT ON COLUMN attempts.response IS
    'The first few KiB of a failed attempt''s response body; null where none is kept.';
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
    'Replays of many deliveries. The leader of the dispatchers executes them in batches; a batch commits together with last_id.';
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
    'running, stopping (no batch follows, dead letters are removed), completed or stopped.';
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
