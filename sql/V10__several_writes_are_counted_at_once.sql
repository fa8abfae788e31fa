-- A unit of work may hold several records writes of one tenant. They are counted by one statement, so that the tenant's
-- row is written once and held only from there to the commit.
-- The previous release goes on calling count_write.

CREATE FUNCTION count_writes(tenant uuid, in_month date, more bigint, deadline timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_counters AS u (tenant_id, month, writes)
    SELECT t.tenant_id, in_month, more FROM tenants t
    WHERE t.tenant_id = tenant AND coalesce(t.monthly_quota, more) >= more
    ON CONFLICT (tenant_id, month) DO UPDATE SET writes = u.writes + more
    WHERE u.writes + more <= coalesce((SELECT monthly_quota FROM tenants t WHERE t.tenant_id = tenant), u.writes + more);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the monthly quota of writes is used up' USING ERRCODE = 'W1001';
    END IF;
    IF clock_timestamp() >= deadline THEN
        RAISE EXCEPTION 'the deadline of the write has passed' USING ERRCODE = 'W1002';
    END IF;
END $$;
COMMENT ON FUNCTION count_writes IS
    'Counts records writes against the quota of the month (D23). Fails with W1001 when the quota does not suffice for all of them and with W1002 when the server''s clock has reached the deadline. The last statement of a unit of writes: the row is one for the whole tenant.';
