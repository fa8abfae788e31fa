-- Requests that got no reply from a worker, for the overview of the settings area and for connectctl doctor.

-- Programs of the previous release neither write nor reset the column: until the upgrade has ended, a minute may also count
-- requests of 64 minutes before.
ALTER TABLE activity_minutes ADD COLUMN timed_out bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN activity_minutes.timed_out IS
    'Requests that got 503 processing_timeout: they were published, and no worker replied in time.';
