-- A key can have two secrets for a time, the last use of each secret is recorded, and sealed values name their master key.

ALTER TABLE api_keys
    ADD COLUMN secret_number       integer     NOT NULL DEFAULT 1,
    ADD COLUMN secret_created_at   timestamptz,
    ADD COLUMN old_secret_sealed   bytea,
    ADD COLUMN old_secret_until    timestamptz,
    ADD COLUMN uses_recorded_since timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN api_keys.secret_number IS
    'Number of the current secret: 1 for the first one, one more with each rotation. The old secret has the number before it.';
COMMENT ON COLUMN api_keys.secret_created_at IS
    'When the current secret was created; null for the first secret of the key.';
COMMENT ON COLUMN api_keys.old_secret_sealed IS
    'The secret before the last rotation, sealed like secret_sealed; null for none.';
COMMENT ON COLUMN api_keys.old_secret_until IS
    'From when on signatures with the old secret are refused (D33); null without an old secret.';
COMMENT ON COLUMN api_keys.uses_recorded_since IS
    'Since when uses of the key are recorded: its creation, or the migration that created api_key_uses. A key that was not used since then may have been used before.';
COMMENT ON COLUMN api_keys.secret_sealed IS
    'The secret, sealed under the master key and bound to tenant and prefix (D5). A sealed value is: the bytes csv, the version of the format (1), the id of the master key (4 bytes), a nonce (12 bytes), and the AES-256-GCM ciphertext with its tag. Values of earlier releases begin with the nonce.';
COMMENT ON COLUMN subscriptions.secret_sealed IS
    'The signing secret, sealed as described at api_keys.secret_sealed and bound to tenant and subscription (D5).';
COMMENT ON COLUMN subscriptions.url_sealed IS
    'The URL that deliveries are posted to, sealed as described at api_keys.secret_sealed and bound to tenant and subscription (D5); null in rows of a release that did not seal URLs: then url is the whole URL.';
COMMENT ON COLUMN master_key_canary.sealed IS
    'A text that is no secret, sealed as described at api_keys.secret_sealed and bound to this table.';

-- A table of its own: an update of api_keys would make every ingest read its keys again. No foreign key, so that recording a
-- use locks no key.
CREATE TABLE api_key_uses (
    tenant_id     uuid        NOT NULL,
    prefix        text        NOT NULL,
    secret_number integer     NOT NULL,
    last_used_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, prefix, secret_number)
) WITH (fillfactor = 50);
COMMENT ON TABLE  api_key_uses IS
    'When each secret of a key was last used. Each ingest writes a key''s use at most once a minute.';
COMMENT ON COLUMN api_key_uses.tenant_id IS 'The tenant.';
COMMENT ON COLUMN api_key_uses.prefix IS 'The key.';
COMMENT ON COLUMN api_key_uses.secret_number IS 'The secret, as in api_keys.secret_number.';
COMMENT ON COLUMN api_key_uses.last_used_at IS
    'When a request with a valid signature of this secret arrived: the first one of the last minute with such requests.';

-- Counted by the worker, which needs no right to read the values: the function runs with the rights of the role that migrates.
-- It reads every key and subscription, once each, which the programs' sessions would do by an index.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION sealed_value_counts()
        RETURNS TABLE (key_id text, sealed_values bigint)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp SET enable_seqscan = on AS $function$
            SELECT CASE WHEN substring(v.sealed FROM 1 FOR 4) = '\x63737601'
                        THEN encode(substring(v.sealed FROM 5 FOR 4), 'hex') END,
                   count(*)
            FROM (SELECT k.sealed FROM api_keys
                  CROSS JOIN LATERAL (VALUES (secret_sealed), (old_secret_sealed)) AS k (sealed)
                  UNION ALL
                  SELECT s.sealed FROM subscriptions
                  CROSS JOIN LATERAL (VALUES (secret_sealed), (old_secret_sealed), (url_sealed)) AS s (sealed)
                  UNION ALL
                  SELECT sealed FROM master_key_canary) AS v
            WHERE v.sealed IS NOT NULL
            GROUP BY 1
        $function$
    $sql$, current_schema());
END $do$;

REVOKE ALL ON FUNCTION sealed_value_counts() FROM PUBLIC;
COMMENT ON FUNCTION sealed_value_counts() IS
    'The number of sealed values by the id of the master key that they name; null for values of releases that wrote no id.';
