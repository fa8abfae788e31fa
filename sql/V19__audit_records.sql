-- What operators did: a record of each action, written in the transaction that performs it, and never changed.

CREATE TABLE audit_records (
    tenant_id uuid        NOT NULL,
    audit_id  uuid        NOT NULL,
    at        timestamptz NOT NULL,
    who       text        NOT NULL,
    interface text        NOT NULL CHECK (interface IN ('connectctl', 'console')),
    action    text        NOT NULL,
    target    text        NOT NULL,
    PRIMARY KEY (tenant_id, audit_id)
);
COMMENT ON TABLE  audit_records IS
    'Actions of operators. Rows are only added; expire_audit_records alone removes them, when they have expired. They contain no secret, and nothing of a client but ids.';
COMMENT ON COLUMN audit_records.tenant_id IS
    'The tenant whose object it was; the nil UUID for actions on all tenants, such as migrations.';
COMMENT ON COLUMN audit_records.audit_id IS 'UUIDv7 of the time of the action: the order of the records.';
COMMENT ON COLUMN audit_records.at IS
    'When, in whole milliseconds, by the clock of the machine on which the operator worked.';
COMMENT ON COLUMN audit_records.who IS
    'The user of the operating system, for connectctl; the administrator who was signed in, for the console.';
COMMENT ON COLUMN audit_records.interface IS 'What they used: connectctl or console.';
COMMENT ON COLUMN audit_records.action IS 'Noun and verb, such as key.revoke.';
COMMENT ON COLUMN audit_records.target IS
    'What it was done to: an id, a key prefix, a slug, a member''s email, or a queue.';

-- The table is new and empty, so that these are built at once. One index for each look-up (V4): the primary key lists those
-- of a tenant, the first index those of all tenants, and the second one finds what has expired (V15).
CREATE INDEX audit_records_id ON audit_records (uuid_send(audit_id)) WHERE audit_id IS NOT NULL;
CREATE INDEX audit_records_at ON audit_records (at) WHERE at IS NOT NULL;

-- Refused for everybody, the owner of the table included, except in expire_audit_records.
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('connect.expires_audit_records', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'audit records cannot be changed or removed' USING ERRCODE = 'insufficient_privilege';
END $$;
COMMENT ON FUNCTION refuse_audit_change() IS
    'Fails, so that audit records can only be added. Removing those that have expired is the exception.';
CREATE TRIGGER audit_records_are_only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_records
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION expire_audit_records(before timestamptz, since timestamptz, most bigint,
            OUT removed bigint, OUT last timestamptz)
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp SET connect.expires_audit_records = 'on' AS $function$
        BEGIN
            -- An hour less than the shortest period, for clocks that differ.
            IF before IS NULL OR before > now() - interval '23 hours' THEN
                RAISE EXCEPTION 'audit records since %% have not expired', before USING ERRCODE = 'invalid_parameter_value';
            END IF;
            WITH expired AS (
                DELETE FROM audit_records WHERE ctid = ANY(ARRAY(
                    SELECT a.ctid FROM audit_records a WHERE a.at >= since AND a.at < before ORDER BY a.at LIMIT most
                )) RETURNING at
            )
            SELECT count(*), max(e.at) INTO removed, last FROM expired e;
        END $function$
    $sql$, current_schema());
END $do$;

REVOKE ALL ON FUNCTION expire_audit_records(timestamptz, timestamptz, bigint) FROM PUBLIC;
COMMENT ON FUNCTION expire_audit_records(timestamptz, timestamptz, bigint) IS
    'Removes at most that many of the audit records from one time on and before another, the oldest first. Returns their number, and the time of the last one.';
