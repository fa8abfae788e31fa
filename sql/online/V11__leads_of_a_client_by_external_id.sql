-- outside a transaction
-- V11 for a database in use: its index is built concurrently.
DROP INDEX CONCURRENTLY IF EXISTS leads_client_external_id;

CREATE INDEX CONCURRENTLY leads_client_external_id ON leads ((client_id::text || ':' || external_id), lead_id)
    WHERE external_id IS NOT NULL;
