-- Identities that clients had before they were changed, so that an erasure finds what is stored under them (D32).

-- Identities that were replaced before this migration are not known.
CREATE TABLE former_identities (
    tenant_id   uuid        NOT NULL,
    client_id   uuid        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('email', 'phone', 'external_id')),
    identity    text        NOT NULL,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id, kind, identity)
);
COMMENT ON TABLE  former_identities IS
    'Emails, phones and external ids that a client does not have any more. Kept until the client is erased.';
COMMENT ON COLUMN former_identities.tenant_id IS 'The tenant.';
COMMENT ON COLUMN former_identities.client_id IS 'The client who had the identity.';
COMMENT ON COLUMN former_identities.kind IS 'email, phone or external_id.';
COMMENT ON COLUMN former_identities.identity IS
    'In the form that is compared (D10), as in clients: email_key, phone_digits or external_id.';
COMMENT ON COLUMN former_identities.replaced_at IS 'When the client lost it last, in whole milliseconds.';

-- A trigger, so that changes by programs that know V28 and not V29 are recorded as well. It runs with the rights of the
-- schema's owner: no program needs a right to the table.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION record_former_identities() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        BEGIN
            -- Units clear identities before they set them, so that two clients can exchange theirs.
            DELETE FROM former_identities f
            USING (VALUES ('email', NEW.email_key), ('phone', NEW.phone_digits), ('external_id', NEW.external_id))
                  AS v (kind, after)
            WHERE f.tenant_id = NEW.tenant_id AND f.client_id = NEW.client_id AND f.kind = v.kind AND f.identity = v.after;
            INSERT INTO former_identities (tenant_id, client_id, kind, identity, replaced_at)
            SELECT OLD.tenant_id, OLD.client_id, v.kind, v.before, date_trunc('milliseconds', clock_timestamp())
            FROM (VALUES ('email', OLD.email_key, NEW.email_key),
                         ('phone', OLD.phone_digits, NEW.phone_digits),
                         ('external_id', OLD.external_id, NEW.external_id)) AS v (kind, before, after)
            WHERE v.before <> v.after OR (v.before IS NOT NULL AND v.after IS NULL)
            ON CONFLICT (tenant_id, client_id, kind, identity) DO UPDATE SET replaced_at = excluded.replaced_at;
            RETURN NULL;
        END
        $function$
    $sql$, current_schema());
END $do$;
REVOKE ALL ON FUNCTION record_former_identities() FROM PUBLIC;
COMMENT ON FUNCTION record_former_identities() IS
    'Trigger of clients: adds the identities that an UPDATE replaces to former_identities, and removes those that it sets.';

CREATE TRIGGER clients_record_former_identities AFTER UPDATE ON clients FOR EACH ROW
    WHEN (OLD.email_key IS DISTINCT FROM NEW.email_key
          OR OLD.phone_digits IS DISTINCT FROM NEW.phone_digits
          OR OLD.external_id IS DISTINCT FROM NEW.external_id)
    EXECUTE FUNCTION record_former_identities();

ALTER TABLE erasures ADD COLUMN identity_hashes bytea[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN erasures.identity_hashes IS
    'The hashes of the client''s identities in erased_identities; empty if an earlier release erased them.';
COMMENT ON COLUMN erased_identities.erased_at IS
    'Events that name the identity and did not occur later are refused with contact_erased. When the person was erased; of an identity that another client had by then, when the person lost it.';
