-- Which agencies are held to their share of what may wait to be applied. No metric may name an agency, so the operator
-- asks here.

CREATE TABLE intake_pressure (
    tenant_id   uuid        NOT NULL,
    queue       text        NOT NULL,
    ingest_id   uuid        NOT NULL,
    waiting     bigint      NOT NULL,
    refused     bigint      NOT NULL,
    reported_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, queue, ingest_id)
);
COMMENT ON TABLE intake_pressure IS
    'Agencies whose requests ingest refuses because too much of their work waits: the last report of each ingest, removed after an hour.';
COMMENT ON COLUMN intake_pressure.tenant_id IS 'The agency.';
COMMENT ON COLUMN intake_pressure.queue IS 'What waits: events or records.';
COMMENT ON COLUMN intake_pressure.ingest_id IS 'The process that reports: a new id at each start.';
COMMENT ON COLUMN intake_pressure.waiting IS
    'Units of the agency that waited when it was reported: events or writes, or 4 KiB of body where that is more.';
COMMENT ON COLUMN intake_pressure.refused IS 'Requests of the agency that were refused since the report before.';
COMMENT ON COLUMN intake_pressure.reported_at IS 'When it was reported.';
