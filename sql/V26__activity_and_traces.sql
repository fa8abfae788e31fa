-- outside a transaction
-- What happened in each minute of the last hour, what the programs know of the queues, and the traces of applied events.
--
-- Both tables of minutes are rings: a minute replaces the one of 64 minutes before, so their size is bounded without retention,
-- and every update after the first 64 minutes is HOT. Programs add their counts every few seconds, never in the transaction of
-- what they count.
CREATE TABLE IF NOT EXISTS activity_minutes (
    tenant_id   uuid        NOT NULL,
    slot        smallint    NOT NULL CHECK (slot BETWEEN 0 AND 63),
    minute      timestamptz NOT NULL,
    accepted    bigint      NOT NULL DEFAULT 0,
    refused     bigint      NOT NULL DEFAULT 0,
    applied     bigint      NOT NULL DEFAULT 0,
    failed      bigint      NOT NULL DEFAULT 0,
    delivered   bigint      NOT NULL DEFAULT 0,
    undelivered bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50);

COMMENT ON TABLE  activity_minutes IS
    'How many requests, events and attempts at webhooks there were in each of the last minutes, for each tenant and for all together. A ring of 64 minutes: rows are replaced, and never removed.';

COMMENT ON COLUMN activity_minutes.tenant_id IS 'The tenant; the nil UUID for all tenants together.';
COMMENT ON COLUMN activity_minutes.slot IS 'The number of the minute since 1970, modulo 64.';
COMMENT ON COLUMN activity_minutes.minute IS 'The first moment of the minute in which the counts were added, by the clock of the program.';
COMMENT ON COLUMN activity_minutes.accepted IS 'Requests with valid credentials that were not refused, as in api_key_requests.';
COMMENT ON COLUMN activity_minutes.refused IS 'Refused requests that named an existing key, as in api_key_requests.';
COMMENT ON COLUMN activity_minutes.applied IS 'Events that were applied; duplicates are not among them.';
COMMENT ON COLUMN activity_minutes.failed IS 'Events that were failed.';
COMMENT ON COLUMN activity_minutes.delivered IS 'Attempts at webhooks that got a 2xx status.';
COMMENT ON COLUMN activity_minutes.undelivered IS 'Attempts at webhooks that got another status or none.';

CREATE TABLE IF NOT EXISTS queue_minutes (
    queue  text        NOT NULL,
    slot   smallint    NOT NULL CHECK (slot BETWEEN 0 AND 63),
    minute timestamptz NOT NULL,
    ready  bigint      NOT NULL,
    PRIMARY KEY (queue, slot)
) WITH (fillfactor = 50);

COMMENT ON TABLE  queue_minutes IS 'The length of each queue in the last minutes. A ring of 64 minutes: rows are replaced, and never removed.';
COMMENT ON COLUMN queue_minutes.queue IS 'The queue, without the prefix.';
COMMENT ON COLUMN queue_minutes.slot IS 'The number of the minute since 1970, modulo 64.';
COMMENT ON COLUMN queue_minutes.minute IS 'The first moment of the minute.';
COMMENT ON COLUMN queue_minutes.ready IS 'Most messages that a program saw waiting in the minute.';

CREATE TABLE IF NOT EXISTS queue_states (
    queue       text        PRIMARY KEY,
    observed_at timestamptz NOT NULL,
    ready       bigint      NOT NULL,
    consumers   bigint      NOT NULL,
    dead        bigint      NOT NULL,
    empty_at    timestamptz,
    taken_of    timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE  queue_states IS 'What the programs saw of each queue last.';
COMMENT ON COLUMN queue_states.queue IS 'The queue, without the prefix.';
COMMENT ON COLUMN queue_states.observed_at IS 'When a program looked at the queue last. It writes what it saw every few seconds while messages wait, and every half minute otherwise.';
COMMENT ON COLUMN queue_states.ready IS 'Messages that waited then.';
COMMENT ON COLUMN queue_states.consumers IS 'Consumers that the broker knew then.';
COMMENT ON COLUMN queue_states.dead IS 'Messages of its dead-letter queue then.';
COMMENT ON COLUMN queue_states.empty_at IS 'When a program saw the queue empty last: what waits was published later. Null if no program has.';
COMMENT ON COLUMN queue_states.taken_of IS
    'When the newest message that a worker has handled was published. Queues are processed in order, so what waits was published later, unless it was requeued. Null if none was handled yet.';

-- Nullable: the trace id of a request whose caller has sent none is its request id.
ALTER TABLE event_ledger ADD COLUMN IF NOT EXISTS trace_id uuid;

COMMENT ON COLUMN event_ledger.trace_id IS
    'The trace id (W3C) of the request, as 16 bytes. Null if it is request_id: the caller has sent none, and the request was not bundled with others.';

-- Cost of an event with a trace id of its own: 16 bytes in its row, and an entry of 56 bytes in the index, beside those of
-- the same trace. Other events cost nothing: their rows have a bitmap of null columns already.
DROP INDEX CONCURRENTLY IF EXISTS event_ledger_trace;

CREATE INDEX CONCURRENTLY event_ledger_trace ON event_ledger (trace_id, tenant_id, applied_at) WHERE trace_id IS NOT NULL;
