-- What makes each event and write apply once, and what ingest counts, limits and refuses.

CREATE TABLE event_ledger (
    tenant_id    uuid        NOT NULL,
    event_id     text        NOT NULL,
    event_type   text        NOT NULL,
    key_prefix   text        NOT NULL,
    request_id   uuid        NOT NULL,
    trace_id     uuid,
    ordinal      smallint    NOT NULL,
    applied_at   timestamptz NOT NULL,
    client_id    uuid,
    lead_id      uuid,
    trip_id      uuid,
    discovery_id uuid,
    warnings     text[]      NOT NULL,
    PRIMARY KEY (tenant_id, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  event_ledger IS
    'Every event and records write that was applied: the truth about what is a duplicate (D7, D17).';
COMMENT ON COLUMN event_ledger.tenant_id IS 'The tenant; event ids are unique in it (D7).';
COMMENT ON COLUMN event_ledger.event_id IS
    'eventId, up to 100 characters; connect-api:<request id> for a records write (D17).';
COMMENT ON COLUMN event_ledger.event_type IS
    'Type of the event; client.created, client.changed, lead.opened, lead.changed or trip.changed for a records write.';
COMMENT ON COLUMN event_ledger.key_prefix IS 'The API key that sent it.';
COMMENT ON COLUMN event_ledger.request_id IS
    'The message that applied it. A redelivery of that message gets the result accepted again, any other one duplicate.';
COMMENT ON COLUMN event_ledger.trace_id IS
    'The trace id (W3C) of the request, as 16 bytes. Null if it is request_id: the caller has sent none, and the request was not bundled with others.';
COMMENT ON COLUMN event_ledger.ordinal IS 'Place in that message''s batch, from 0; 0 for a records write.';
COMMENT ON COLUMN event_ledger.applied_at IS 'When it was applied.';
COMMENT ON COLUMN event_ledger.client_id IS 'First result: the client, repeated to a duplicate (D7).';
COMMENT ON COLUMN event_ledger.lead_id IS 'First result: the enquiry; null where there was none.';
COMMENT ON COLUMN event_ledger.trip_id IS 'First result: the trip; null where there was none.';
COMMENT ON COLUMN event_ledger.discovery_id IS 'First result: the discovery record; null where there was none.';
COMMENT ON COLUMN event_ledger.warnings IS 'First result: the warnings in their order; empty where there were none.';

CREATE INDEX event_ledger_applied_at ON event_ledger (applied_at) WHERE applied_at IS NOT NULL;
-- An event whose caller has sent no trace id has no entry.
CREATE INDEX event_ledger_trace ON event_ledger (trace_id, tenant_id, applied_at) WHERE trace_id IS NOT NULL;

-- Advisor actions are taken from their queue, which has one order for all tenants, so that tenants can take turns.
CREATE TABLE advisor_actions (
    tenant_id   uuid        NOT NULL,
    number      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    received_at timestamptz NOT NULL,
    attempts    smallint    NOT NULL DEFAULT 0,
    properties  text        NOT NULL,
    body        bytea       NOT NULL,
    PRIMARY KEY (tenant_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  advisor_actions IS
    'Advisor actions that wait to be applied. The transaction that applies one removes it.';
COMMENT ON COLUMN advisor_actions.tenant_id IS 'The tenant that the action names.';
COMMENT ON COLUMN advisor_actions.number IS
    'The order in which the actions of a tenant are applied, which is that of the queue; it has gaps.';
COMMENT ON COLUMN advisor_actions.received_at IS 'When it was taken from the queue.';
COMMENT ON COLUMN advisor_actions.attempts IS
    'How many workers have begun with it as the first action of its tenant, most often because others were killed with it.';
COMMENT ON COLUMN advisor_actions.properties IS
    'The AMQP properties of the message, JSON as text: it is replied to, or dead-lettered as it was sent.';
COMMENT ON COLUMN advisor_actions.body IS 'The body of the message: the action as the CRM published it.';

CREATE TABLE idempotency_keys (
    tenant_id       uuid        NOT NULL,
    key_prefix      text        NOT NULL,
    idempotency_key text        NOT NULL,
    request_hash    bytea       NOT NULL,
    status          smallint    NOT NULL,
    etag            text        NOT NULL,
    body            json        NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_prefix, idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  idempotency_keys IS 'Answers of successful records writes, repeated to a retry (D17).';
COMMENT ON COLUMN idempotency_keys.tenant_id IS 'The tenant.';
COMMENT ON COLUMN idempotency_keys.key_prefix IS 'The API key: an Idempotency-Key holds for that key only (D17).';
COMMENT ON COLUMN idempotency_keys.idempotency_key IS 'The header as sent: 1 to 200 printable characters.';
COMMENT ON COLUMN idempotency_keys.request_hash IS
    'SHA-256 over path, a zero byte and canonical JSON of the body: 32 bytes (D17).';
COMMENT ON COLUMN idempotency_keys.status IS 'HTTP status of the answer.';
COMMENT ON COLUMN idempotency_keys.etag IS 'ETag of the answer, with its quotes.';
COMMENT ON COLUMN idempotency_keys.body IS 'Body of the answer, kept as text because a replay repeats it.';
COMMENT ON COLUMN idempotency_keys.created_at IS 'When the write succeeded.';

CREATE INDEX idempotency_keys_created_at ON idempotency_keys (created_at) WHERE created_at IS NOT NULL;

CREATE TABLE usage_counters (
    tenant_id uuid   NOT NULL,
    month     date   NOT NULL,
    writes    bigint NOT NULL,
    PRIMARY KEY (tenant_id, month)
);
COMMENT ON TABLE  usage_counters IS 'Metered records writes of a calendar month, UTC (D23).';
COMMENT ON COLUMN usage_counters.tenant_id IS 'The tenant.';
COMMENT ON COLUMN usage_counters.month IS 'First day of the month, UTC.';
COMMENT ON COLUMN usage_counters.writes IS
    'Successful writes so far; replays, reads and failures are not among them (D23).';

-- A unit of work writes in the same round trip as it commits. What it may only do on a condition is checked by these functions,
-- whose error rolls it back.

CREATE FUNCTION require_unchanged(changed bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF changed <> expected THEN
        RAISE EXCEPTION 'a record has changed since it was read' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
COMMENT ON FUNCTION require_unchanged IS
    'Fails with serialization_failure unless as many rows were changed as the caller had read: the unit of work is run again.';

-- A unit of work may hold several records writes of one tenant. They are counted by one statement, so that the tenant's row is
-- written once and held only from there to the commit.
CREATE FUNCTION count_writes(tenant uuid, in_month date, more bigint, deadline timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_counters AS u (tenant_id, month, writes)
    SELECT t.tenant_id, in_month, more FROM tenants t
    WHERE t.tenant_id = tenant AND coalesce(t.monthly_quota, more) >= more
    ON CONFLICT (tenant_id, month) DO UPDATE SET writes = u.writes + more
    WHERE u.writes + more <= coalesce((SELECT monthly_quota FROM tenants t WHERE t.tenant_id = tenant), u.writes + more);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the monthly quota of writes is used up' USING ERRCODE = 'W1001';
    END IF;
    IF clock_timestamp() >= deadline THEN
        RAISE EXCEPTION 'the deadline of the write has passed' USING ERRCODE = 'W1002';
    END IF;
END $$;
COMMENT ON FUNCTION count_writes IS
    'Counts records writes against the quota of the month (D23). Fails with W1001 when the quota does not suffice for all of them and with W1002 when the server''s clock has reached the deadline. The last statement of a unit of writes: the row is one for the whole tenant.';

CREATE TABLE replay_entries (
    tenant_id       uuid        NOT NULL,
    key_prefix      text        NOT NULL,
    mac             bytea       NOT NULL,
    signed_at       timestamptz NOT NULL,
    idempotency_key text,
    PRIMARY KEY (tenant_id, key_prefix, mac, signed_at)
) PARTITION BY RANGE (signed_at);
COMMENT ON TABLE  replay_entries IS
    'Signatures that were used (D2). Partitions of ten minutes are created ahead and dropped by ingest once no signature in them can be fresh.';
COMMENT ON COLUMN replay_entries.tenant_id IS 'The tenant.';
COMMENT ON COLUMN replay_entries.key_prefix IS 'The API key that signed.';
COMMENT ON COLUMN replay_entries.mac IS 'The 32 decoded bytes of the HMAC-SHA256, never the header''s text (D2).';
COMMENT ON COLUMN replay_entries.signed_at IS 'The t of the signature, whole seconds.';
COMMENT ON COLUMN replay_entries.idempotency_key IS
    'What a POST came with, so that only its own retry passes; null for all else (D3).';

-- The partitions of used signatures are created and dropped by functions that run with the rights of the role that migrates:
-- ingest's own role needs no right to change the schema. What they can be asked for is bounded, and their search path is
-- fixed, so that no object of another schema is used instead.

DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION make_replay_partition(start_at bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        DECLARE
            name text := 'replay_entries_' || start_at;
            now_at bigint := floor(extract(epoch FROM now()));
        BEGIN
            IF start_at IS NULL OR start_at %% 600 <> 0 OR abs(start_at - now_at) > 86400 THEN
                RAISE EXCEPTION 'no partition of used signatures begins at %%', start_at
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            -- Created on its own and attached: inserts go on meanwhile, which PARTITION OF would block. Without
            -- autovacuum: it is dropped before vacuuming it could pay, and must not be held by it then.
            EXECUTE format('CREATE TABLE %%I (LIKE replay_entries INCLUDING DEFAULTS INCLUDING INDEXES)'
                || ' WITH (autovacuum_enabled = false)', name);
            EXECUTE format('ALTER TABLE replay_entries ATTACH PARTITION %%I FOR VALUES FROM (%%L) TO (%%L)',
                name, to_timestamp(start_at), to_timestamp(start_at + 600));
        END $function$
    $sql$, current_schema());

    EXECUTE format($sql$
        CREATE FUNCTION drop_replay_partition(start_at bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        DECLARE
            name text := 'replay_entries_' || start_at;
        BEGIN
            -- 600 s that it covers, 300 s for which what was signed last is fresh.
            IF start_at IS NULL OR start_at + 900 >= extract(epoch FROM now()) THEN
                RAISE EXCEPTION 'signatures of the partition that begins at %% may be fresh', start_at
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            -- Its own lock first, so that inserts into other partitions do not wait for whoever holds it.
            EXECUTE format('LOCK TABLE ONLY %%I IN ACCESS EXCLUSIVE MODE', name);
            EXECUTE format('DROP TABLE %%I', name);
        END $function$
    $sql$, current_schema());
END $do$;

REVOKE ALL ON FUNCTION make_replay_partition(bigint), drop_replay_partition(bigint) FROM PUBLIC;
COMMENT ON FUNCTION make_replay_partition(bigint) IS
    'Creates the partition of replay_entries for the ten minutes from that second since the epoch on.';
COMMENT ON FUNCTION drop_replay_partition(bigint) IS
    'Drops the partition of replay_entries that begins at that second since the epoch, once nothing in it can be fresh.';

-- Which tenants are held to their share of what may wait to be applied. No metric may name a tenant, so the operator asks here.
CREATE TABLE intake_pressure (
    tenant_id   uuid        NOT NULL,
    queue       text        NOT NULL,
    ingest_id   uuid        NOT NULL,
    waiting     bigint      NOT NULL,
    refused     bigint      NOT NULL,
    reported_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, queue, ingest_id)
);
COMMENT ON TABLE  intake_pressure IS
    'Agencies whose requests ingest refuses because too much of their work waits: the last report of each ingest, removed after an hour.';
COMMENT ON COLUMN intake_pressure.tenant_id IS 'The tenant.';
COMMENT ON COLUMN intake_pressure.queue IS 'What waits: events or records.';
COMMENT ON COLUMN intake_pressure.ingest_id IS 'The process that reports: a new id at each start.';
COMMENT ON COLUMN intake_pressure.waiting IS
    'Units of the tenant that waited when it was reported: events or writes, or 4 KiB of body where that is more.';
COMMENT ON COLUMN intake_pressure.refused IS 'Requests of the tenant that were refused since the report before.';
COMMENT ON COLUMN intake_pressure.reported_at IS 'When it was reported.';

-- Why requests that named a key were refused, for the owner of the key (D35). No foreign keys, so that recording locks no key.
CREATE TABLE refused_requests (
    tenant_id   uuid        NOT NULL,
    request_id  uuid        NOT NULL,
    key_prefix  text        NOT NULL,
    at          timestamptz NOT NULL,
    method      text        NOT NULL,
    route       text        NOT NULL,
    status      integer     NOT NULL,
    reason      text        NOT NULL,
    detail      text,
    signed_at   bigint,
    body_sha256 bytea       CHECK (octet_length(body_sha256) = 32),
    body_bytes  bigint      NOT NULL,
    dry_run     boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, request_id)
);
COMMENT ON TABLE  refused_requests IS
    'Refused requests that named an existing key: a sample of at most some a minute for each key. Rows contain no body, no secret and no signature, and nothing that the caller wrote but the timestamp of the signature. They expire, and of each key only the newest ones are kept.';
COMMENT ON COLUMN refused_requests.tenant_id IS 'The tenant of the key.';
COMMENT ON COLUMN refused_requests.request_id IS
    'UUIDv7 of the arrival of the request, as in the response header X-Request-Id: the order of the rows.';
COMMENT ON COLUMN refused_requests.key_prefix IS
    'The key that the request named. Whether the key''s user sent the request is unknown unless the signature was valid.';
COMMENT ON COLUMN refused_requests.at IS 'When the request was refused.';
COMMENT ON COLUMN refused_requests.method IS 'The method of the request.';
COMMENT ON COLUMN refused_requests.route IS 'The route with placeholders in braces, without ids and query.';
COMMENT ON COLUMN refused_requests.status IS 'The status of the response.';
COMMENT ON COLUMN refused_requests.reason IS
    'A check that failed, such as stale or mismatch, or the code of the response, such as invalid_request.';
COMMENT ON COLUMN refused_requests.detail IS
    'What exactly, in words of Connect: the header, the seconds, the scope, or the place in the body; null if the reason says everything.';
COMMENT ON COLUMN refused_requests.signed_at IS
    'The timestamp of the signature, in seconds since 1970; null if the request had no readable one.';
COMMENT ON COLUMN refused_requests.body_sha256 IS
    'SHA-256 of the body as received; null for a body that was not hashed.';
COMMENT ON COLUMN refused_requests.body_bytes IS 'The size of the body as received.';
COMMENT ON COLUMN refused_requests.dry_run IS 'Whether it was a dry run, which is neither counted nor needs attention.';

-- The primary key lists those of a tenant, the first index those of a key, and the second one finds what has expired.
CREATE INDEX refused_requests_key ON refused_requests (key_prefix, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX refused_requests_at ON refused_requests (at) WHERE at IS NOT NULL;

CREATE TABLE api_key_requests (
    tenant_id uuid        NOT NULL,
    prefix    text        NOT NULL,
    hour      timestamptz NOT NULL,
    accepted  bigint      NOT NULL,
    refused   bigint      NOT NULL,
    PRIMARY KEY (tenant_id, prefix, hour)
) WITH (fillfactor = 50);
COMMENT ON TABLE  api_key_requests IS
    'How many requests each key has made in each hour, without dry runs. Each ingest adds its counts every few seconds.';
COMMENT ON COLUMN api_key_requests.tenant_id IS 'The tenant.';
COMMENT ON COLUMN api_key_requests.prefix IS 'The key.';
COMMENT ON COLUMN api_key_requests.hour IS 'The first moment of the hour.';
COMMENT ON COLUMN api_key_requests.accepted IS
    'Requests with valid credentials that were not refused. Those that got a status of 500 or above are not counted.';
COMMENT ON COLUMN api_key_requests.refused IS
    'Refused requests that named the key, whether or not they are among refused_requests.';

CREATE INDEX api_key_requests_hour ON api_key_requests (hour) WHERE hour IS NOT NULL;
