-- Requests that got no reply in time, for the overview of the settings area and for connectctl doctor.

-- Programs that know V26 and not V27 neither write nor reset the column: until none of them runs, and for 64 minutes after, a
-- minute may also count requests of an earlier round of the ring.
ALTER TABLE activity_minutes ADD COLUMN timed_out bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN activity_minutes.timed_out IS
    'Requests that got 503 processing_timeout. A batch was, or may have been, published; a records write was not begun.';
