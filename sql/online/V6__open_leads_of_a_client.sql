-- outside a transaction
-- V6 for a database in use: its index is built concurrently.
DROP INDEX CONCURRENTLY IF EXISTS leads_open;

CREATE INDEX CONCURRENTLY leads_open ON leads ((client_id::text), lead_id)
    WHERE stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled');
