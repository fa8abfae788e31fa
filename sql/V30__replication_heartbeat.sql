-- How far a read replica lags behind: ingest compares the replica's row with the primary's clock (CONNECT_READ_MAX_LAG).

CREATE TABLE replication_heartbeat (
    singleton boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    beat_at   timestamptz NOT NULL
);
INSERT INTO replication_heartbeat (beat_at) VALUES (now());
COMMENT ON TABLE  replication_heartbeat IS
    'The heartbeat of the primary, written by every ingest that reads records from a replica. A replica that shows it has everything that was committed before.';
COMMENT ON COLUMN replication_heartbeat.singleton IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN replication_heartbeat.beat_at IS 'The primary''s clock when it was written last.';
