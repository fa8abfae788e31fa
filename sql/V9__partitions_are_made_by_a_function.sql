-- The partitions of used signatures are made and dropped by functions that run with the rights of the role that migrates:
-- ingest's own role needs no right to change the schema. What they can be asked for is bounded, and their search path is
-- fixed, so that nobody else's objects are taken for the ones meant.

DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION make_replay_partition(start_at bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        DECLARE
            name text := 'replay_entries_' || start_at;
            now_at bigint := floor(extract(epoch FROM now()));
        BEGIN
            IF start_at IS NULL OR start_at %% 600 <> 0 OR abs(start_at - now_at) > 86400 THEN
                RAISE EXCEPTION 'no partition of used signatures begins at %%', start_at
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            -- Made apart and attached, because attaching lets inserts go on, where PARTITION OF would stop them. Without
            -- autovacuum: it is dropped before vacuuming it could pay, and must not be held by it then.
            EXECUTE format('CREATE TABLE %%I (LIKE replay_entries INCLUDING DEFAULTS INCLUDING INDEXES)'
                || ' WITH (autovacuum_enabled = false)', name);
            EXECUTE format('ALTER TABLE replay_entries ATTACH PARTITION %%I FOR VALUES FROM (%%L) TO (%%L)',
                name, to_timestamp(start_at), to_timestamp(start_at + 600));
        END $function$
    $sql$, current_schema());

    EXECUTE format($sql$
        CREATE FUNCTION drop_replay_partition(start_at bigint) RETURNS void
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        DECLARE
            name text := 'replay_entries_' || start_at;
        BEGIN
            -- 600 s that it covers, 300 s for which what was signed last is fresh.
            IF start_at IS NULL OR start_at + 900 >= extract(epoch FROM now()) THEN
                RAISE EXCEPTION 'signatures of the partition that begins at %% may be fresh', start_at
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            -- Its own lock first: whoever still holds that one, inserts into the others don't wait for it.
            EXECUTE format('LOCK TABLE ONLY %%I IN ACCESS EXCLUSIVE MODE', name);
            EXECUTE format('DROP TABLE %%I', name);
        END $function$
    $sql$, current_schema());
END $do$;

REVOKE ALL ON FUNCTION make_replay_partition(bigint), drop_replay_partition(bigint) FROM PUBLIC;
COMMENT ON FUNCTION make_replay_partition(bigint) IS
    'Makes the partition of replay_entries for the ten minutes from that second since the epoch on.';
COMMENT ON FUNCTION drop_replay_partition(bigint) IS
    'Drops the partition of replay_entries that begins at that second since the epoch, once nothing in it can be fresh.';
