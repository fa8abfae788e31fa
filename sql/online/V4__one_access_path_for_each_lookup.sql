-- outside a transaction
-- V4 for a database in use: its indexes are built concurrently under other names, which then replace the old ones in an instant. So
-- writes go on, and identities stay unique meanwhile.

DROP INDEX CONCURRENTLY IF EXISTS clients_email_building;

CREATE UNIQUE INDEX CONCURRENTLY clients_email_building ON clients (email_key, (tenant_id::text))
    WHERE email_key IS NOT NULL;

DO $do$ BEGIN IF to_regclass('clients_email_building') IS NOT NULL THEN DROP INDEX IF EXISTS clients_tenant_email_key; ALTER INDEX clients_email_building RENAME TO clients_tenant_email_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS clients_external_id_building;

CREATE UNIQUE INDEX CONCURRENTLY clients_external_id_building ON clients (external_id, (tenant_id::text))
    WHERE external_id IS NOT NULL;

DO $do$ BEGIN IF to_regclass('clients_external_id_building') IS NOT NULL THEN DROP INDEX IF EXISTS clients_tenant_external_id_key; ALTER INDEX clients_external_id_building RENAME TO clients_tenant_external_id_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS clients_company_domain_building;

CREATE UNIQUE INDEX CONCURRENTLY clients_company_domain_building ON clients (company_domain, (tenant_id::text))
    WHERE company_domain IS NOT NULL;

DO $do$ BEGIN IF to_regclass('clients_company_domain_building') IS NOT NULL THEN DROP INDEX IF EXISTS clients_tenant_company_domain_key; ALTER INDEX clients_company_domain_building RENAME TO clients_tenant_company_domain_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS clients_phone;

CREATE INDEX CONCURRENTLY clients_phone ON clients (phone_digits, (tenant_id::text), created_at, client_id)
    WHERE phone_digits IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS clients_tenant_phone;

DROP INDEX CONCURRENTLY IF EXISTS leads_enquiry_number_building;

CREATE UNIQUE INDEX CONCURRENTLY leads_enquiry_number_building ON leads (enquiry_number, (tenant_id::text))
    WHERE enquiry_number IS NOT NULL;

DO $do$ BEGIN IF to_regclass('leads_enquiry_number_building') IS NOT NULL THEN ALTER TABLE leads DROP CONSTRAINT IF EXISTS leads_tenant_enquiry_number_key; ALTER INDEX leads_enquiry_number_building RENAME TO leads_tenant_enquiry_number_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS leads_client;

CREATE INDEX CONCURRENTLY leads_client ON leads (client_id, lead_id)
    WHERE client_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS leads_external_id;

CREATE INDEX CONCURRENTLY leads_external_id ON leads (external_id, (tenant_id::text), lead_id)
    WHERE external_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS leads_tenant_client;

DROP INDEX CONCURRENTLY IF EXISTS leads_tenant_external_id;

DROP INDEX CONCURRENTLY IF EXISTS trips_lead_building;

CREATE UNIQUE INDEX CONCURRENTLY trips_lead_building ON trips (lead_id, (tenant_id::text))
    WHERE lead_id IS NOT NULL;

DO $do$ BEGIN IF to_regclass('trips_lead_building') IS NOT NULL THEN ALTER TABLE trips DROP CONSTRAINT IF EXISTS trips_tenant_lead_key; ALTER INDEX trips_lead_building RENAME TO trips_tenant_lead_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS proposals_trip;

CREATE INDEX CONCURRENTLY proposals_trip ON proposals (trip_id, proposal_id)
    WHERE trip_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS proposals_tenant_trip;

DROP INDEX CONCURRENTLY IF EXISTS invoices_lead;

CREATE INDEX CONCURRENTLY invoices_lead ON invoices (lead_id, booking_ref)
    WHERE lead_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS invoices_trip;

CREATE INDEX CONCURRENTLY invoices_trip ON invoices (trip_id, created_at, booking_ref)
    WHERE trip_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS invoices_tenant_lead;

DROP INDEX CONCURRENTLY IF EXISTS invoices_tenant_trip;

DROP INDEX CONCURRENTLY IF EXISTS discoveries_lead_building;

CREATE UNIQUE INDEX CONCURRENTLY discoveries_lead_building ON discoveries (lead_id, (tenant_id::text))
    WHERE lead_id IS NOT NULL;

DO $do$ BEGIN IF to_regclass('discoveries_lead_building') IS NOT NULL THEN ALTER TABLE discoveries DROP CONSTRAINT IF EXISTS discoveries_tenant_lead_key; ALTER INDEX discoveries_lead_building RENAME TO discoveries_tenant_lead_key; END IF; END $do$;

DROP INDEX CONCURRENTLY IF EXISTS discoveries_client;

CREATE INDEX CONCURRENTLY discoveries_client ON discoveries (client_id, discovery_id)
    WHERE client_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS discoveries_tenant_client;

-- in the transaction that records the migration
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
