-- A secret that everybody knows, sealed under the master key that the database was set up with: a program whose master key
-- does not open it holds another one. It is written by the first program or command that has the master key.

CREATE TABLE master_key_canary (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    sealed     bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE  master_key_canary IS 'Tells whether a program holds the master key that the database was set up with; one row at most.';
COMMENT ON COLUMN master_key_canary.only_row IS 'Always true, so that there is one row at most.';
COMMENT ON COLUMN master_key_canary.sealed IS 'Nonce and AES-256-GCM ciphertext of a text that is no secret, bound to this table.';
COMMENT ON COLUMN master_key_canary.created_at IS 'When the master key was first used with this database, or first since this table exists.';

-- A database of the previous release has secrets and no canary. Whoever writes it must open the newest secret in use, which
-- ingest's own role may not read where it is a subscription's: the function runs with the rights of the role that migrates.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION newest_sealed_secret()
        RETURNS TABLE (kind text, tenant_id uuid, name text, secret_sealed bytea)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
            SELECT newest.kind, newest.tenant_id, newest.name, newest.secret_sealed FROM (
                (SELECT 'key' AS kind, k.tenant_id, k.prefix AS name, k.secret_sealed, k.created_at
                 FROM api_keys k WHERE k.revoked_at IS NULL ORDER BY k.created_at DESC LIMIT 1)
                UNION ALL
                (SELECT 'subscription', s.tenant_id, s.subscription_id::text, s.secret_sealed, s.created_at
                 FROM subscriptions s WHERE s.removed_at IS NULL ORDER BY s.created_at DESC LIMIT 1)
            ) AS newest
            ORDER BY newest.created_at DESC LIMIT 1
        $function$
    $sql$, current_schema());
END $do$;

REVOKE ALL ON FUNCTION newest_sealed_secret() FROM PUBLIC;
COMMENT ON FUNCTION newest_sealed_secret() IS
    'The sealed secret of the API key or subscription that was created last, revoked and removed ones excepted.';
