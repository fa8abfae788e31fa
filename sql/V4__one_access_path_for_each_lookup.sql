-- Every look-up of the programs has exactly one index that can serve it, whatever the planner knows of the tables.
--
-- A prepared statement is planned once, perhaps while its tables are nearly empty, and keeps that plan. With several
-- indexes that begin with tenant_id, "read all of the agency by the primary key and filter" then costs as little as
-- the right index, and stays when the table has grown. Two rules exclude that:
-- 1. A primary key is looked up with all of its columns, and every other index is partial on its own leading column
--    (IS NOT NULL): a look-up that does not name that column cannot use it.
-- 2. A look-up through another index names the index's leading columns, and the agency in a form that no primary key
--    can serve: tenant_id::text where the index contains that expression, tenant_id IS NOT DISTINCT FROM where the
--    other columns are unique across agencies (UUIDv7).
-- Programs of the previous release find their rows through the leading columns of the new indexes.

DROP INDEX clients_tenant_email_key, clients_tenant_external_id_key, clients_tenant_company_domain_key,
           clients_tenant_phone;
CREATE UNIQUE INDEX clients_tenant_email_key ON clients (email_key, (tenant_id::text))
    WHERE email_key IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_external_id_key ON clients (external_id, (tenant_id::text))
    WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_company_domain_key ON clients (company_domain, (tenant_id::text))
    WHERE company_domain IS NOT NULL;
CREATE INDEX clients_phone ON clients (phone_digits, (tenant_id::text), created_at, client_id)
    WHERE phone_digits IS NOT NULL;

ALTER TABLE leads DROP CONSTRAINT leads_tenant_enquiry_number_key;
CREATE UNIQUE INDEX leads_tenant_enquiry_number_key ON leads (enquiry_number, (tenant_id::text))
    WHERE enquiry_number IS NOT NULL;
DROP INDEX leads_tenant_client, leads_tenant_external_id;
CREATE INDEX leads_client ON leads (client_id, lead_id) WHERE client_id IS NOT NULL;
CREATE INDEX leads_external_id ON leads (external_id, (tenant_id::text), lead_id) WHERE external_id IS NOT NULL;

ALTER TABLE trips DROP CONSTRAINT trips_tenant_lead_key;
CREATE UNIQUE INDEX trips_tenant_lead_key ON trips (lead_id, (tenant_id::text)) WHERE lead_id IS NOT NULL;

DROP INDEX proposals_tenant_trip;
CREATE INDEX proposals_trip ON proposals (trip_id, proposal_id) WHERE trip_id IS NOT NULL;

DROP INDEX invoices_tenant_lead, invoices_tenant_trip;
CREATE INDEX invoices_lead ON invoices (lead_id, booking_ref) WHERE lead_id IS NOT NULL;
CREATE INDEX invoices_trip ON invoices (trip_id, created_at, booking_ref) WHERE trip_id IS NOT NULL;

ALTER TABLE discoveries DROP CONSTRAINT discoveries_tenant_lead_key;
CREATE UNIQUE INDEX discoveries_tenant_lead_key ON discoveries (lead_id, (tenant_id::text))
    WHERE lead_id IS NOT NULL;
DROP INDEX discoveries_tenant_client;
CREATE INDEX discoveries_client ON discoveries (client_id, discovery_id) WHERE client_id IS NOT NULL;

-- A unit of work writes in the same flight as it commits. What it may only do on a condition is checked by these
-- functions, whose error rolls it back.

CREATE FUNCTION require_unchanged(changed bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF changed <> expected THEN
        RAISE EXCEPTION 'a record has changed since it was read' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
COMMENT ON FUNCTION require_unchanged IS
    'Fails with serialization_failure unless as many rows were changed as the caller had read: the unit of work is run again.';

CREATE FUNCTION count_write(tenant uuid, in_month date, deadline timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_counters AS u (tenant_id, month, writes)
    SELECT t.tenant_id, in_month, 1 FROM tenants t WHERE t.tenant_id = tenant AND coalesce(t.monthly_quota, 1) > 0
    ON CONFLICT (tenant_id, month) DO UPDATE SET writes = u.writes + 1
    WHERE u.writes < coalesce((SELECT monthly_quota FROM tenants t WHERE t.tenant_id = tenant), u.writes + 1);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the monthly quota of writes is used up' USING ERRCODE = 'W1001';
    END IF;
    IF clock_timestamp() >= deadline THEN
        RAISE EXCEPTION 'the deadline of the write has passed' USING ERRCODE = 'W1002';
    END IF;
END $$;
COMMENT ON FUNCTION count_write IS
    'Counts one records write against the quota of the month (D23). Fails with W1001 when the quota is used up and with W1002 when the server''s clock has reached the deadline. The last statement of a write: the row is one for the whole agency.';
