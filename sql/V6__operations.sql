-- Erasing a person (D32), the count of the values that are sealed under the master key, and the heartbeat of replication.

CREATE TABLE erasures (
    tenant_id       uuid        NOT NULL,
    client_id       uuid        NOT NULL,
    erased_at       timestamptz NOT NULL,
    removed         json        NOT NULL,
    record_ids      uuid[]      NOT NULL,
    identity_hashes bytea[]     NOT NULL,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE  erasures IS
    'Receipts of erased people (D32). They hold ids and counts, and nothing that the person or a partner wrote.';
COMMENT ON COLUMN erasures.tenant_id IS 'The tenant.';
COMMENT ON COLUMN erasures.client_id IS 'The id that the client had.';
COMMENT ON COLUMN erasures.erased_at IS 'When, in whole milliseconds, by the clock of the database.';
COMMENT ON COLUMN erasures.removed IS
    'JSON object: the number of removed rows of each table, and of removed dead letters.';
COMMENT ON COLUMN erasures.record_ids IS
    'Ids that the client''s leads, trips and deliveries had, by which later dead letters are recognized.';
COMMENT ON COLUMN erasures.identity_hashes IS
    'The hashes of the client''s identities in erased_identities.';

CREATE TABLE erased_identities (
    tenant_id     uuid        NOT NULL,
    identity_hash bytea       NOT NULL,
    erased_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, identity_hash)
);
COMMENT ON TABLE  erased_identities IS 'Identities of erased people, as keyed hashes (D32).';
COMMENT ON COLUMN erased_identities.tenant_id IS 'The tenant.';
COMMENT ON COLUMN erased_identities.identity_hash IS
    'HMAC-SHA-256 of tenant, kind (email, phone or external) and identity, under the key in erasure_key: 32 bytes.';
COMMENT ON COLUMN erased_identities.erased_at IS
    'Events that name the identity and did not occur later are refused with contact_erased. When the person was erased; of an identity that another client had by then, when the person lost it.';

CREATE TABLE erasure_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    sealed   bytea   NOT NULL
);
COMMENT ON TABLE  erasure_key IS
    'The key of the hashes in erased_identities; one row at most, written by the first erasure.';
COMMENT ON COLUMN erasure_key.only_row IS 'Always true, so that there is one row at most.';
COMMENT ON COLUMN erasure_key.sealed IS
    '32 random bytes in hexadecimal, sealed as described at api_keys.secret_sealed and bound to this table.';

CREATE FUNCTION erasure_lock(tenant uuid) RETURNS bigint LANGUAGE sql IMMUTABLE
    RETURN hashtextextended(tenant::text, 7165066952596222980);
COMMENT ON FUNCTION erasure_lock(uuid) IS
    'The advisory lock of a tenant that units of work hold shared, and an erasure exclusively, until their transactions end.';

-- A function, because each of its statements has a snapshot of its own: it sees an erasure that has just ended, which the
-- statement that calls it might not.
CREATE FUNCTION share_erasure_lock(tenant uuid, OUT last_erasure_at timestamptz, OUT sealed_key bytea) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(erasure_lock(tenant)) THEN
        RAISE lock_not_available USING MESSAGE = 'a person of the tenant is being erased';
    END IF;
    SELECT t.last_erasure_at INTO share_erasure_lock.last_erasure_at FROM tenants t WHERE t.tenant_id = tenant;
    IF share_erasure_lock.last_erasure_at IS NOT NULL THEN
        SELECT k.sealed INTO sealed_key FROM erasure_key k WHERE k.only_row;
    END IF;
END $$;
COMMENT ON FUNCTION share_erasure_lock(uuid) IS
    'Fails with lock_not_available while an erasure is under way, and keeps others from beginning until the transaction ends. Returns when a person was erased last, and the sealed key of the hashes if anybody was.';

-- Counted by the worker, which needs no right to read the values: the function runs with the rights of the role that migrates.
-- It reads every key and subscription, once each, which the programs' sessions would do by an index.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION sealed_value_counts()
        RETURNS TABLE (key_id text, sealed_values bigint)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp SET enable_seqscan = on AS $function$
            SELECT encode(substring(v.sealed FROM 5 FOR 4), 'hex'), count(*)
            FROM (SELECT k.sealed FROM api_keys
                  CROSS JOIN LATERAL (VALUES (secret_sealed), (old_secret_sealed)) AS k (sealed)
                  UNION ALL
                  SELECT s.sealed FROM subscriptions
                  CROSS JOIN LATERAL (VALUES (secret_sealed), (old_secret_sealed), (url_sealed)) AS s (sealed)
                  UNION ALL
                  SELECT sealed FROM erasure_key
                  UNION ALL
                  SELECT sealed FROM master_key_canary) AS v
            WHERE v.sealed IS NOT NULL
            GROUP BY 1
        $function$
    $sql$, current_schema());
END $do$;
REVOKE ALL ON FUNCTION sealed_value_counts() FROM PUBLIC;
COMMENT ON FUNCTION sealed_value_counts() IS 'The number of sealed values by the id of the master key that they name.';

CREATE TABLE replication_heartbeat (
    singleton boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    beat_at   timestamptz NOT NULL
);
COMMENT ON TABLE  replication_heartbeat IS
    'The heartbeat of the primary, written by every ingest that reads records from a replica. A replica that shows it has everything that was committed before.';
COMMENT ON COLUMN replication_heartbeat.singleton IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN replication_heartbeat.beat_at IS 'The primary''s clock when it was written last.';
INSERT INTO replication_heartbeat (beat_at) VALUES (now());
