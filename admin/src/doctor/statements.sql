-- api_key_requests.add
    WITH counts AS MATERIALIZED (
        SELECT k.tenant_id, c.prefix, c.accepted, c.refused
        FROM unnest($1::text[], $3::bigint[], $4::bigint[]) AS c (prefix, accepted, refused)
        CROSS JOIN LATERAL (SELECT tenant_id FROM api_keys k WHERE k.prefix = c.prefix LIMIT 1) AS k
    ), added AS (
        INSERT INTO api_key_requests AS stored (tenant_id, prefix, hour, accepted, refused)
        SELECT tenant_id, prefix, $2::timestamptz, accepted, refused FROM counts ORDER BY tenant_id, prefix
        ON CONFLICT (tenant_id, prefix, hour)
        DO UPDATE SET accepted = stored.accepted + excluded.accepted, refused = stored.refused + excluded.refused
    )
    SELECT tenant_id, accepted, refused FROM counts
-- ----
-- api_key_uses.record
    INSERT INTO api_key_uses AS stored (tenant_id, prefix, secret_number, last_used_at)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::timestamptz[])
    ON CONFLICT (tenant_id, prefix, secret_number) DO UPDATE SET last_used_at = excluded.last_used_at
    WHERE stored.last_used_at < excluded.last_used_at
-- ----
-- api_keys.find
    SELECT k.tenant_id, t.slug, k.secret_sealed, k.scopes, k.origin, k.expires_at, k.revoked_at IS NOT NULL,
           t.reads_per_second, k.secret_number, k.old_secret_sealed, k.old_secret_until
    FROM api_keys k JOIN tenants t ON t.tenant_id = k.tenant_id
    WHERE k.prefix = $1
-- ----
-- clients.by_ids
    SELECT c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in, c.client_type,
           c.created_at, c.updated_at, r.names, r.types, r.ages, r.emails, r.phones, w.place
        FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, client_id, place)
        CROSS JOIN LATERAL (SELECT * FROM clients c
                            WHERE c.tenant_id = w.tenant_id AND c.client_id = w.client_id LIMIT 1) AS c CROSS JOIN LATERAL (
        SELECT array_agg(v.name) AS names, array_agg(v.type) AS types, array_agg(v.age) AS ages,
               array_agg(v.email) AS emails, array_agg(v.phone) AS phones
        FROM (SELECT t.name, t.type, t.age, t.email, t.phone FROM travelers t
              WHERE t.tenant_id = c.tenant_id AND t.client_id = c.client_id ORDER BY t.position) v) r
-- ----
-- clients.by_email
    SELECT c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in, c.client_type,
           c.created_at, c.updated_at, r.names, r.types, r.ages, r.emails, r.phones FROM clients c CROSS JOIN LATERAL (
        SELECT array_agg(v.name) AS names, array_agg(v.type) AS types, array_agg(v.age) AS ages,
               array_agg(v.email) AS emails, array_agg(v.phone) AS phones
        FROM (SELECT t.name, t.type, t.age, t.email, t.phone FROM travelers t
              WHERE t.tenant_id = c.tenant_id AND t.client_id = c.client_id ORDER BY t.position) v) r WHERE c.email_key = $2 AND c.tenant_id::text = $1::uuid::text
-- ----
-- clients.by_external_id
    SELECT c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in, c.client_type,
           c.created_at, c.updated_at, r.names, r.types, r.ages, r.emails, r.phones FROM clients c CROSS JOIN LATERAL (
        SELECT array_agg(v.name) AS names, array_agg(v.type) AS types, array_agg(v.age) AS ages,
               array_agg(v.email) AS emails, array_agg(v.phone) AS phones
        FROM (SELECT t.name, t.type, t.age, t.email, t.phone FROM travelers t
              WHERE t.tenant_id = c.tenant_id AND t.client_id = c.client_id ORDER BY t.position) v) r WHERE c.external_id = $2 AND c.tenant_id::text = $1::uuid::text
-- ----
-- clients.by_phone
    SELECT c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in, c.client_type,
           c.created_at, c.updated_at, r.names, r.types, r.ages, r.emails, r.phones FROM clients c CROSS JOIN LATERAL (
        SELECT array_agg(v.name) AS names, array_agg(v.type) AS types, array_agg(v.age) AS ages,
               array_agg(v.email) AS emails, array_agg(v.phone) AS phones
        FROM (SELECT t.name, t.type, t.age, t.email, t.phone FROM travelers t
              WHERE t.tenant_id = c.tenant_id AND t.client_id = c.client_id ORDER BY t.position) v) r WHERE c.phone_digits = $2 AND c.tenant_id::text = $1::uuid::text ORDER BY c.created_at, c.client_id LIMIT 1
-- ----
-- intake_pressure.report
    INSERT INTO intake_pressure (tenant_id, queue, ingest_id, waiting, refused, reported_at)
    SELECT tenant_id, $2, $1, waiting, refused, now()
    FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS p (tenant_id, waiting, refused)
    ON CONFLICT (tenant_id, queue, ingest_id) DO UPDATE
    SET waiting = excluded.waiting, refused = excluded.refused, reported_at = excluded.reported_at
-- ----
-- intake_pressure.remove_old
    DELETE FROM intake_pressure WHERE reported_at < now() - interval '1 hour'
-- ----
-- key_revision.read
    SELECT revision FROM key_revision
-- ----
-- leads.by_ids
    SELECT l.lead_id, l.enquiry_number, l.title, l.stage, l.follow_up, l.client_id, t.trip_id, l.external_id,
           l.owner_email, m.name AS owner_name, COALESCE(t.brief, l.brief)::text AS brief, l.created_at, l.updated_at, w.place
        FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, lead_id, place)
        CROSS JOIN LATERAL (SELECT * FROM leads l
                            WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email
-- ----
-- leads.by_external_id
    SELECT l.lead_id, l.enquiry_number, l.title, l.stage, l.follow_up, l.client_id, t.trip_id, l.external_id,
           l.owner_email, m.name AS owner_name, COALESCE(t.brief, l.brief)::text AS brief, l.created_at, l.updated_at FROM leads l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email WHERE l.external_id = $2 AND l.tenant_id::text = $1::uuid::text ORDER BY l.lead_id DESC LIMIT 100
-- ----
-- refused_requests.add
    INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, detail,
                                  signed_at, body_sha256, body_bytes)
    SELECT k.tenant_id, r.request_id, r.key_prefix, r.at, r.method, r.route, r.status, r.reason, r.detail,
           r.signed_at, r.body_sha256, r.body_bytes
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[],
                $9::bigint[], $10::bytea[], $11::bigint[])
        AS r (request_id, key_prefix, at, method, route, status, reason, detail, signed_at, body_sha256, body_bytes)
    CROSS JOIN LATERAL (SELECT tenant_id FROM api_keys k WHERE k.prefix = r.key_prefix LIMIT 1) AS k
-- ----
-- replay_entries.insert
    INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at, idempotency_key)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[], $5::text[])
    ON CONFLICT DO NOTHING
    RETURNING key_prefix, mac
-- ----
-- replay_entries.stored
    SELECT e.key_prefix, e.mac, e.idempotency_key
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) AS w (tenant_id, key_prefix, mac, signed_at)
    JOIN replay_entries e USING (tenant_id, key_prefix, mac, signed_at)
-- ----
-- replay_entries.check
    WITH written AS (
        INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at)
        SELECT '00000000-0000-0000-0000-000000000000', '', '', now()
        WHERE to_regclass('replay_entries_' || (floor(extract(epoch FROM now()) / 600) * 600)::bigint) IS NULL)
    SELECT has_function_privilege('make_replay_partition(bigint)', 'EXECUTE')
-- ----
-- replay_partitions.list
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'replay_entries'::regclass
-- ----
-- replay_partitions.create
    SELECT make_replay_partition($1)
-- ----
-- replay_partitions.drop
    SELECT drop_replay_partition($1)
-- ----
-- replication_heartbeat.beat
    WITH beat AS (
        UPDATE replication_heartbeat SET beat_at = clock_timestamp()
        WHERE beat_at NOT BETWEEN clock_timestamp() - $1::bigint * interval '1 millisecond' AND clock_timestamp()
    )
    SELECT clock_timestamp()
-- ----
-- replication_heartbeat.read
    SELECT beat_at FROM replication_heartbeat
-- ----
-- schema.is_migrated
    SELECT to_regclass('api_keys') IS NOT NULL AND to_regclass('key_revision') IS NOT NULL
       AND to_regclass('replay_entries') IS NOT NULL
-- ----
-- trips.of_leads
    SELECT t.trip_id, l.lead_id, l.enquiry_number, t.title, l.stage, t.brief::text AS brief, l.owner_email,
           m.name AS owner_name, p.status, p.sent_at, t.created_at, t.updated_at, w.place
    FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, lead_id, place)
    CROSS JOIN LATERAL (SELECT * FROM leads l
                        WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email
    LEFT JOIN LATERAL (
        SELECT n.status, n.sent_at FROM proposals n WHERE n.trip_id = t.trip_id AND n.tenant_id IS NOT DISTINCT FROM t.tenant_id
        ORDER BY n.proposal_id DESC LIMIT 1) p ON true
-- ----
-- clients.lock
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    )
    SELECT c.tenant_id, c.client_id FROM clients c JOIN found USING (tenant_id, client_id)
    ORDER BY c.tenant_id, c.client_id
    FOR NO KEY UPDATE OF c
-- ----
-- clients.load
    SELECT CASE WHEN c.client_id IS NULL THEN pg_try_advisory_xact_lock(c.lock) END AS is_free, c.tenant_id, c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in,
           c.company_domain, c.account_id, c.created_at, c.updated_at,
           e.email, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM (
        SELECT w.lock, m.*
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[]) AS w (tenant_id, email_key, external_id, lock)
            LEFT JOIN LATERAL (SELECT * FROM clients
                               WHERE email_key = w.email_key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c ON true
            CROSS JOIN LATERAL (
                SELECT c.*
                UNION ALL
                SELECT * FROM (SELECT * FROM clients
                               WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text LIMIT 1) AS o
                WHERE c.external_id IS DISTINCT FROM w.external_id
            ) AS m
        UNION ALL
        SELECT w.lock, c.*
        FROM unnest($5::uuid[], $6::text[], $7::bigint[]) AS w (tenant_id, external_id, lock)
            LEFT JOIN LATERAL (SELECT * FROM clients
                               WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text
                               LIMIT 1) AS c ON true
        UNION ALL
        SELECT NULL, c.*
        FROM unnest($8::uuid[], $9::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT * FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $10::bigint + 1) AS c
    ) AS c
    LEFT JOIN LATERAL (SELECT * FROM account_contacts e
                       WHERE e.tenant_id = c.tenant_id AND e.account_id = c.account_id AND e.email_key = c.email_key
                       LIMIT 1) AS e ON true
-- ----
-- clients.load_named
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    )
    SELECT NULL::boolean AS is_free, c.tenant_id, c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in,
           c.company_domain, c.account_id, c.created_at, c.updated_at,
           e.email, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM clients c
                        WHERE c.tenant_id = found.tenant_id AND c.client_id = found.client_id LIMIT 1) AS c
    LEFT JOIN LATERAL (SELECT * FROM account_contacts e
                       WHERE e.tenant_id = c.tenant_id AND e.account_id = c.account_id AND e.email_key = c.email_key
                       LIMIT 1) AS e ON true
-- ----
-- clients.insert
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
                         marketing_opt_in, client_type, account_id, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::boolean[], $11::text[], $12::uuid[], $13::timestamptz[],
                         $14::timestamptz[])
-- ----
-- clients.update
    WITH held AS (
        SELECT n.*
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                    $9::text[], $10::boolean[], $11::uuid[], $12::timestamptz[], $13::timestamptz[])
             AS n (tenant_id, client_id, name, email, email_key, phone, phone_digits, company, external_id,
                   marketing_opt_in, account_id, updated_at, version)
        CROSS JOIN LATERAL (SELECT FROM clients c
                            WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id AND c.updated_at = n.version
                            FOR NO KEY UPDATE SKIP LOCKED) AS c
    ),
    changed AS (
        UPDATE clients c
        SET name = n.name, email = n.email, email_key = n.email_key, phone = n.phone, phone_digits = n.phone_digits,
            company = n.company, external_id = n.external_id, marketing_opt_in = n.marketing_opt_in,
            account_id = n.account_id, updated_at = n.updated_at
        FROM held AS n
        WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id
        RETURNING 1
    )
    SELECT require_unchanged((SELECT count(*) FROM changed), cardinality($2::uuid[]))
-- ----
-- clients.free
    WITH held AS (
        SELECT n.* FROM unnest($1::uuid[], $2::uuid[]) AS n (tenant_id, client_id)
        CROSS JOIN LATERAL (SELECT FROM clients c
                            WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id
                            FOR NO KEY UPDATE SKIP LOCKED) AS c
    )
    UPDATE clients c SET email = NULL, email_key = NULL, external_id = NULL
    FROM held AS n
    WHERE c.tenant_id = n.tenant_id AND c.client_id = n.client_id
-- ----
-- company.load
    SELECT w.tenant_id, a.client_id, a.name, a.company_domain, a.created_at, a.updated_at,
           e.email, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (tenant_id, email_key, domain)
    CROSS JOIN LATERAL (SELECT * FROM clients
                        WHERE company_domain = w.domain AND tenant_id::text = w.tenant_id::text LIMIT 1) AS a
    LEFT JOIN LATERAL (SELECT * FROM account_contacts e
                       WHERE e.tenant_id = w.tenant_id AND e.account_id = a.client_id AND e.email_key = w.email_key
                       LIMIT 1) AS e ON true
-- ----
-- company.load_moved
    WITH accounts (tenant_id, account_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.account_id FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
        CROSS JOIN LATERAL (SELECT account_id FROM clients
                            WHERE tenant_id = w.tenant_id AND client_id = w.client_id LIMIT 1) AS c
        WHERE c.account_id IS NOT NULL
        UNION
        SELECT w.tenant_id, a.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, domain)
        CROSS JOIN LATERAL (SELECT client_id FROM clients
                            WHERE company_domain = w.domain AND tenant_id::text = w.tenant_id::text LIMIT 1) AS a
    )
    SELECT a.tenant_id, a.account_id, e.email, e.name, e.phone, e.client_id, e.created_at, e.updated_at
    FROM accounts a
    JOIN unnest($5::uuid[], $6::text[]) AS w (tenant_id, email_key) ON w.tenant_id = a.tenant_id
    CROSS JOIN LATERAL (SELECT * FROM account_contacts e
                        WHERE e.tenant_id = a.tenant_id AND e.account_id = a.account_id AND e.email_key = w.email_key
                        LIMIT 1) AS e
-- ----
-- company.insert
    INSERT INTO account_contacts (tenant_id, account_id, email_key, email, name, phone, client_id, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[],
                         $8::timestamptz[], $9::timestamptz[])
-- ----
-- company.update
    WITH changed AS (
        UPDATE account_contacts e
        SET name = n.name, phone = n.phone, client_id = n.client_id, updated_at = n.updated_at
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::timestamptz[],
                    $8::timestamptz[])
             AS n (tenant_id, account_id, email_key, name, phone, client_id, updated_at, version)
        WHERE e.tenant_id = n.tenant_id AND e.account_id = n.account_id AND e.email_key = n.email_key
          AND e.updated_at = n.version
        RETURNING 1
    )
    SELECT require_unchanged((SELECT count(*) FROM changed), cardinality($2::uuid[]))
-- ----
-- counters.reserve
    INSERT INTO enquiry_counters AS c (tenant_id, year, last)
    SELECT tenant_id, $3, wanted FROM unnest($1::uuid[], $2::integer[]) AS w (tenant_id, wanted) ORDER BY tenant_id
    ON CONFLICT (tenant_id, year) DO UPDATE SET last = c.last + excluded.last
    RETURNING tenant_id, last
-- ----
-- credits.load
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    )
    SELECT r.tenant_id, r.client_id, r.as_of, r.membership_id, r.corporate_name, r.available_paise, r.granted_paise,
           r.redeemable_percent
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM client_credits r
                        WHERE r.tenant_id = found.tenant_id AND r.client_id = found.client_id LIMIT 1) AS r
-- ----
-- credits.upsert
    INSERT INTO client_credits (tenant_id, client_id, as_of, membership_id, corporate_name, available_paise,
                                granted_paise, redeemable_percent)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::bigint[],
                         $7::bigint[], $8::float8[])
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET as_of = excluded.as_of, membership_id = excluded.membership_id, corporate_name = excluded.corporate_name,
        available_paise = excluded.available_paise, granted_paise = excluded.granted_paise,
        redeemable_percent = excluded.redeemable_percent
-- ----
-- discoveries.load_named
    SELECT d.tenant_id, d.lead_id, d.discovery_id, d.client_id, d.discovery::text, d.created_at, d.updated_at
    FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, discovery_id)
    CROSS JOIN LATERAL (SELECT * FROM discoveries d
                        WHERE d.tenant_id = w.tenant_id AND d.discovery_id = w.discovery_id LIMIT 1) AS d
-- ----
-- profiles.load
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    )
    SELECT p.tenant_id, p.client_id, p.profile::text, p.essence, p.updated_at
    FROM found
    CROSS JOIN LATERAL (SELECT * FROM traveller_profiles p
                        WHERE p.tenant_id = found.tenant_id AND p.client_id = found.client_id LIMIT 1) AS p
-- ----
-- discoveries.upsert
    INSERT INTO discoveries (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
    SELECT tenant_id, discovery_id, client_id, lead_id, discovery::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[])
         AS new (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
    ON CONFLICT (tenant_id, discovery_id) DO UPDATE
    SET discovery = excluded.discovery, updated_at = excluded.updated_at
-- ----
-- profiles.upsert
    INSERT INTO traveller_profiles (tenant_id, client_id, profile, essence, updated_at)
    SELECT tenant_id, client_id, profile::json, essence, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         AS new (tenant_id, client_id, profile, essence, updated_at)
    ON CONFLICT (tenant_id, client_id) DO UPDATE
    SET profile = excluded.profile, essence = excluded.essence, updated_at = excluded.updated_at
-- ----
-- erased_identities.load
    SELECT e.tenant_id, e.identity_hash, e.erased_at
    FROM unnest($1::uuid[], $2::bytea[]) AS w (tenant_id, identity_hash)
    CROSS JOIN LATERAL (SELECT * FROM erased_identities e
                        WHERE e.tenant_id = w.tenant_id AND e.identity_hash = w.identity_hash LIMIT 1) AS e
-- ----
-- idempotency.lock
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key
-- ----
-- idempotency.find
    SELECT i.* FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (tenant_id, key_prefix, key)
        CROSS JOIN LATERAL (SELECT tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body::text
                            FROM idempotency_keys
                            WHERE tenant_id = w.tenant_id AND key_prefix = w.key_prefix AND idempotency_key = w.key
                            LIMIT 1) AS i
-- ----
-- idempotency.insert
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
    SELECT tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body::json, $8
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::smallint[], $6::text[], $7::text[])
        AS r (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body)
-- ----
-- invoices.load
    WITH found (tenant_id, booking_ref) AS MATERIALIZED (
        SELECT * FROM unnest($1::uuid[], $2::text[])
        UNION
        SELECT w.tenant_id, i.booking_ref FROM unnest($3::uuid[], $4::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT booking_ref FROM invoices
                                WHERE trip_id = w.trip_id AND tenant_id IS NOT DISTINCT FROM w.tenant_id
                                ORDER BY created_at DESC, booking_ref DESC LIMIT 1) AS i
    )
    SELECT i.tenant_id, i.booking_ref, i.lead_id, i.trip_id, i.client_id, (i.amount * 100)::bigint, i.currency,
           (i.credit_used * 100)::bigint, (i.credit_applied * 100)::bigint, i.credit_state,
           (i.balance_due * 100)::bigint, i.cancelled_at, i.created_at, i.updated_at
    FROM invoices i JOIN found USING (tenant_id, booking_ref)
    ORDER BY i.tenant_id, i.booking_ref
    FOR NO KEY UPDATE OF i
-- ----
-- invoices.insert
    INSERT INTO invoices (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used,
                          credit_applied, credit_state, balance_due, cancelled_at, created_at, updated_at)
    SELECT tenant_id, booking_ref, lead_id, trip_id, client_id, amount / 100.0, currency, credit_used / 100.0,
           credit_applied / 100.0, credit_state, balance_due / 100.0, cancelled_at, created_at, updated_at
    FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[], $7::text[], $8::bigint[],
                $9::bigint[], $10::text[], $11::bigint[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[])
         AS new (tenant_id, booking_ref, lead_id, trip_id, client_id, amount, currency, credit_used, credit_applied,
                 credit_state, balance_due, cancelled_at, created_at, updated_at)
-- ----
-- invoices.update
    UPDATE invoices i
    SET credit_applied = n.credit_applied / 100.0, credit_state = n.credit_state, balance_due = n.balance_due / 100.0,
        cancelled_at = n.cancelled_at, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::timestamptz[], $7::timestamptz[])
         AS n (tenant_id, booking_ref, credit_applied, credit_state, balance_due, cancelled_at, updated_at)
    WHERE i.tenant_id = n.tenant_id AND i.booking_ref = n.booking_ref
-- ----
-- leads.load
    WITH found (tenant_id, client_id) AS MATERIALIZED (
        SELECT w.tenant_id, c.client_id FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($3::uuid[], $4::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c
        UNION
        SELECT w.tenant_id, c.client_id FROM unnest($5::uuid[], $6::text[]) AS w (tenant_id, key)
            CROSS JOIN LATERAL (SELECT client_id FROM clients
                                WHERE phone_digits = w.key AND tenant_id::text = w.tenant_id::text
                                ORDER BY created_at, client_id LIMIT $7::bigint + 1) AS c
        UNION
        SELECT * FROM unnest($8::uuid[], $9::uuid[])
        UNION
        SELECT w.tenant_id, l.client_id FROM unnest($10::uuid[], $11::uuid[]) AS w (tenant_id, lead_id)
            CROSS JOIN LATERAL (SELECT client_id FROM leads
                                WHERE tenant_id = w.tenant_id AND lead_id = w.lead_id LIMIT 1) AS l
        UNION
        SELECT w.tenant_id, i.client_id FROM unnest($12::uuid[], $13::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT client_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
    ),
    shared (tenant_id, external_id) AS MATERIALIZED (
        SELECT w.tenant_id, w.external_id FROM unnest($15::uuid[], $16::text[]) AS w (tenant_id, external_id)
            CROSS JOIN LATERAL (SELECT FROM leads
                                WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text
                                OFFSET 8 LIMIT 1) AS l
    ),
    wanted (tenant_id, lead_id) AS MATERIALIZED (
        SELECT found.tenant_id, l.lead_id FROM found
            CROSS JOIN LATERAL (SELECT lead_id FROM leads
                                WHERE client_id::text = found.client_id::text AND tenant_id IS NOT DISTINCT FROM found.tenant_id
                                  AND stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled')
                                ORDER BY lead_id DESC LIMIT $14::bigint + 1) AS l
        UNION
        SELECT found.tenant_id, l.lead_id FROM found
            CROSS JOIN LATERAL (SELECT client_id, lead_id FROM leads
                                WHERE client_id IS NOT NULL
                                  AND (client_id, lead_id) <= (found.client_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                                ORDER BY client_id DESC, lead_id DESC LIMIT 1) AS l
            WHERE l.client_id = found.client_id
        UNION
        SELECT w.tenant_id, l.lead_id FROM unnest($15::uuid[], $16::text[]) AS w (tenant_id, external_id)
            CROSS JOIN LATERAL (SELECT lead_id, client_id FROM leads
                                WHERE external_id = w.external_id AND tenant_id::text = w.tenant_id::text LIMIT 8) AS l
            JOIN found ON found.tenant_id = w.tenant_id AND found.client_id = l.client_id
        UNION
        SELECT found.tenant_id, l.lead_id FROM shared JOIN found ON found.tenant_id = shared.tenant_id
            CROSS JOIN LATERAL (SELECT client_id, external_id, lead_id FROM leads
                                WHERE external_id IS NOT NULL
                                  AND (client_id::text || ':' || external_id, lead_id)
                                      <= (found.client_id::text || ':' || shared.external_id,
                                          'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                                ORDER BY client_id::text || ':' || external_id DESC, lead_id DESC LIMIT 1) AS l
            WHERE l.client_id = found.client_id AND l.external_id = shared.external_id
        UNION
        SELECT * FROM unnest($17::uuid[], $18::uuid[])
        UNION
        SELECT w.tenant_id, t.lead_id FROM unnest($19::uuid[], $20::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT lead_id FROM trips
                                WHERE tenant_id = w.tenant_id AND trip_id = w.trip_id LIMIT 1) AS t
        UNION
        SELECT w.tenant_id, i.lead_id FROM unnest($21::uuid[], $22::text[]) AS w (tenant_id, booking_ref)
            CROSS JOIN LATERAL (SELECT lead_id FROM invoices
                                WHERE tenant_id = w.tenant_id AND booking_ref = w.booking_ref LIMIT 1) AS i
        UNION
        SELECT w.tenant_id, i.lead_id FROM unnest($23::uuid[], $24::uuid[]) AS w (tenant_id, trip_id)
            CROSS JOIN LATERAL (SELECT lead_id FROM invoices
                                WHERE trip_id = w.trip_id AND tenant_id IS NOT DISTINCT FROM w.tenant_id
                                ORDER BY created_at DESC, booking_ref DESC LIMIT 1) AS i
    )
    SELECT l.tenant_id, l.lead_id, l.client_id, l.enquiry_number, l.external_id, l.title, l.stage, l.lost_reason,
           l.follow_up, l.owner_email, l.brief::text, l.attribution::text, l.created_at, l.updated_at,
           t.trip_id, t.title, t.brief::text, t.created_at, t.updated_at,
           p.proposal_id, p.status, p.title, p.url, p.channel, p.created_at, p.sent_at, p.viewed_at,
           d.discovery_id, d.client_id, d.discovery::text, d.created_at, d.updated_at
    FROM wanted AS w
    CROSS JOIN LATERAL (SELECT * FROM leads l
                        WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = w.lead_id AND t.tenant_id::text = w.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN LATERAL (SELECT * FROM proposals p
                       WHERE $25::boolean AND p.trip_id = t.trip_id AND p.tenant_id IS NOT DISTINCT FROM w.tenant_id
                       ORDER BY p.proposal_id DESC LIMIT 1) AS p ON true
    LEFT JOIN LATERAL (SELECT * FROM discoveries d
                       WHERE $26::boolean AND d.lead_id = w.lead_id AND d.tenant_id::text = w.tenant_id::text
                       LIMIT 1) AS d ON true
-- ----
-- leads.insert
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason,
                       follow_up, owner_email, brief, attribution, created_at, updated_at)
    SELECT tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason, follow_up,
           owner_email, brief::json, attribution::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::boolean[], $10::text[], $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[])
         AS new (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, lost_reason, follow_up,
                 owner_email, brief, attribution, created_at, updated_at)
-- ----
-- leads.update
    UPDATE leads l
    SET title = n.title, stage = n.stage, lost_reason = n.lost_reason, follow_up = n.follow_up,
        owner_email = n.owner_email, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[],
                $9::timestamptz[])
         AS n (tenant_id, lead_id, title, stage, lost_reason, follow_up, owner_email, brief, updated_at)
    WHERE l.tenant_id = n.tenant_id AND l.lead_id = n.lead_id
-- ----
-- ledger.load
    SELECT w.tenant_id, w.event_id, l.event_type, l.key_prefix, l.request_id, l.ordinal, l.client_id, l.lead_id,
           l.trip_id, l.discovery_id, l.warnings
    FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, event_id)
    CROSS JOIN LATERAL (SELECT * FROM event_ledger l
                        WHERE l.tenant_id = w.tenant_id AND l.event_id = w.event_id LIMIT 1) AS l
-- ----
-- ledger.insert
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id,
                              trip_id, discovery_id, warnings, trace_id, applied_at)
    SELECT tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id, discovery_id,
           coalesce(string_to_array(warnings, E'\n'), '{}'), trace_id, $13
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::smallint[], $7::uuid[], $8::uuid[],
                $9::uuid[], $10::uuid[], $11::text[], $12::uuid[])
         AS new (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id, lead_id, trip_id,
                 discovery_id, warnings, trace_id)
    ORDER BY tenant_id, event_id
-- ----
-- locks.take
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key
-- ----
-- proposals.insert
    INSERT INTO proposals (tenant_id, proposal_id, trip_id, status, created_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[])
-- ----
-- proposals.update
    UPDATE proposals p
    SET status = n.status, title = n.title, url = n.url, channel = n.channel, sent_at = n.sent_at,
        viewed_at = n.viewed_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
                $8::timestamptz[])
         AS n (tenant_id, proposal_id, status, title, url, channel, sent_at, viewed_at)
    WHERE p.tenant_id = n.tenant_id AND p.proposal_id = n.proposal_id
-- ----
-- itineraries.insert
    INSERT INTO itineraries (tenant_id, proposal_id, snapshot, updated_at)
    SELECT tenant_id, proposal_id, snapshot::json, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[])
         AS new (tenant_id, proposal_id, snapshot, updated_at)
    ON CONFLICT (tenant_id, proposal_id) DO UPDATE
    SET snapshot = excluded.snapshot, updated_at = excluded.updated_at
-- ----
-- rosters.load
    SELECT t.tenant_id, t.client_id, t.name, t.type, t.age, t.email, t.phone
    FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
    CROSS JOIN LATERAL (SELECT * FROM travelers t
                        WHERE t.tenant_id = w.tenant_id AND t.client_id = w.client_id
                        ORDER BY t.position LIMIT 50) AS t
    ORDER BY t.tenant_id, t.client_id, t.position
-- ----
-- rosters.delete
    DELETE FROM travelers t USING unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, client_id)
    WHERE t.tenant_id = w.tenant_id AND t.client_id = w.client_id
-- ----
-- rosters.insert
    INSERT INTO travelers (tenant_id, client_id, position, name, type, age, email, phone)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::smallint[], $7::text[],
                         $8::text[])
-- ----
-- sealed_values.of_worker
    SELECT key_id, sealed_values FROM sealed_value_counts()
-- ----
-- timeline.insert
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
    SELECT tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload::json
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::text[])
         AS new (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
-- ----
-- inbox.insert
    INSERT INTO inbox_messages (tenant_id, lead_id, message_id, at, kind, text, changes)
    SELECT tenant_id, lead_id, message_id, at, kind, text, changes::json
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[])
         AS new (tenant_id, lead_id, message_id, at, kind, text, changes)
-- ----
-- notifications.insert
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, lead_id, text)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::uuid[], $7::text[])
-- ----
-- outbox.insert
    INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id, created_at)
    SELECT tenant_id, event_id, event_type, key_prefix, origin, envelope::json, traceparent, request_id, $9
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[])
         AS new (tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id)
-- ----
-- tenants.load
    SELECT t.tenant_id, t.slug, t.enquiry_prefix, t.discovery_enabled,
           EXISTS (SELECT FROM subscriptions s WHERE s.tenant_id = t.tenant_id AND s.removed_at IS NULL),
           clock_timestamp(), e.last_erasure_at, e.sealed_key
    FROM unnest($1::uuid[]) AS w (tenant_id)
    CROSS JOIN LATERAL share_erasure_lock(w.tenant_id) AS e
    CROSS JOIN LATERAL (SELECT * FROM tenants t WHERE t.tenant_id = w.tenant_id LIMIT 1) AS t
-- ----
-- tenants.of_slug
    SELECT tenant_id FROM tenants WHERE slug = $1
-- ----
-- members.load
    SELECT m.tenant_id, m.email, m.name, m.active
    FROM unnest($1::uuid[]) AS w (tenant_id)
    CROSS JOIN LATERAL (SELECT * FROM members m WHERE m.tenant_id = w.tenant_id OFFSET 0) AS m
    ORDER BY m.tenant_id, m.created_at, m.email
-- ----
-- trips.insert
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
    SELECT tenant_id, trip_id, lead_id, title, brief::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
         AS new (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
-- ----
-- trips.update
    UPDATE trips t SET title = n.title, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         AS n (tenant_id, trip_id, title, brief, updated_at)
    WHERE t.tenant_id = n.tenant_id AND t.trip_id = n.trip_id
-- ----
-- usage.count
    SELECT count_writes(tenant, $2, writes, $4) FROM unnest($1::uuid[], $3::bigint[]) AS w (tenant, writes)
-- ----
-- attempts.insert
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
    SELECT tenant_id, delivery_id, attempt, at, status, error,
           CASE WHEN response IS NOT NULL THEN
               (SELECT new.response FROM deliveries d
                WHERE d.tenant_id = new.tenant_id AND d.delivery_id = new.delivery_id AND d.state <> 'dropped' LIMIT 1)
           END, duration_ms
    FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::timestamptz[], $5::smallint[], $6::text[], $7::text[],
                $8::integer[])
         AS new (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
    ON CONFLICT DO NOTHING
-- ----
-- deliveries.known
    SELECT d.delivery_id, d.state, d.attempts, d.attempts_before
    FROM unnest($1::uuid[], $2::uuid[]) AS asked (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.tenant_id = asked.tenant_id AND d.delivery_id = asked.delivery_id LIMIT 1
    ) AS d
-- ----
-- deliveries.record
    INSERT INTO deliveries AS d (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at,
                                 parked_at, parked_until, created_at)
    SELECT tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at, parked_until,
           created_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::smallint[], $7::timestamptz[],
                $8::timestamptz[], $9::timestamptz[], $10::timestamptz[])
         AS new (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at,
                 parked_until, created_at)
    ORDER BY tenant_id, delivery_id
    ON CONFLICT (tenant_id, delivery_id) DO UPDATE
    SET state = excluded.state, attempts = greatest(d.attempts, excluded.attempts),
        next_attempt_at = excluded.next_attempt_at, parked_at = excluded.parked_at, parked_until = excluded.parked_until
    WHERE excluded.state = 'delivered'
       OR d.state = 'pending' AND (excluded.attempts > d.attempts
                                   OR excluded.attempts = d.attempts
                                      AND (excluded.state = 'dropped' OR excluded.parked_at IS NOT NULL))
-- ----
-- deliveries.parked
    WITH RECURSIVE waiting AS (
        (SELECT subscription_id FROM deliveries WHERE parked_at IS NOT NULL AND subscription_id > $6
         ORDER BY subscription_id LIMIT 1)
        UNION ALL
        SELECT next.subscription_id FROM waiting CROSS JOIN LATERAL (
            SELECT d.subscription_id FROM deliveries d
            WHERE d.parked_at IS NOT NULL AND d.subscription_id > waiting.subscription_id
            ORDER BY d.subscription_id LIMIT 1
        ) AS next
    )
    SELECT d.tenant_id, d.delivery_id, d.event_id, d.subscription_id, d.attempts, d.parked_at, o.event_type,
           o.envelope::text, o.traceparent, o.request_id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT * FROM subscriptions s WHERE s.subscription_id = waiting.subscription_id LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.subscription_id = s.subscription_id AND d.tenant_id IS NOT DISTINCT FROM s.tenant_id
          AND d.parked_at IS NOT NULL AND d.next_attempt_at <= $1
          AND (d.parked_until <= $1 OR d.parked_until IS NULL OR $7::boolean OR s.subscription_id = ANY($5::uuid[]))
        ORDER BY d.next_attempt_at LIMIT $3::bigint
    ) AS d
    CROSS JOIN LATERAL (
        SELECT * FROM outbox o WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
    ) AS o
    WHERE s.subscription_id <> ALL($2::uuid[])
      AND (s.paused_at IS NULL AND s.removed_at IS NULL OR s.removed_at > $1 - interval '1 hour')
    ORDER BY s.subscription_id
    LIMIT $4::bigint
-- ----
-- deliveries.unpark
    UPDATE deliveries SET parked_at = NULL, parked_until = NULL
    WHERE ctid = ANY(ARRAY(
        SELECT found.place
        FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS done (tenant_id, delivery_id, parked_at)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d
            WHERE d.tenant_id = done.tenant_id AND d.delivery_id = done.delivery_id
              AND d.parked_at IS NOT DISTINCT FROM done.parked_at
            LIMIT 1 FOR UPDATE
        ) AS found
    ))
-- ----
-- deliveries.rescue
    UPDATE deliveries SET parked_at = $1, next_attempt_at = $1
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM deliveries
        WHERE state = 'pending' AND next_attempt_at < $2 AND parked_at IS NULL
        ORDER BY next_attempt_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
    ))
-- ----
-- deliveries.open
    SELECT (SELECT count(*) FROM deliveries WHERE state = 'pending' AND parked_at IS NULL)
           + (SELECT count(*) FROM deliveries WHERE parked_at IS NOT NULL),
           (SELECT count(*) FROM deliveries WHERE state = 'dead')
-- ----
-- deliveries.ended
    SELECT count(*) FILTER (WHERE state = 'delivered'), count(*) FILTER (WHERE state = 'dropped') FROM deliveries
-- ----
-- outbox.pending
    WITH pending AS MATERIALIZED (
        SELECT tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id, subscription_id
        FROM outbox WHERE relayed_at IS NULL AND event_id <> ALL($2::uuid[])
        ORDER BY event_id LIMIT $1::bigint
    )
    SELECT tenant_id, event_id, key_prefix, origin, event_type, envelope::text, traceparent, request_id,
           NULL::text[] AS event_types, NULL::bytea AS secret_sealed, NULL::bytea AS old_secret_sealed,
           false AS is_paused, NULL::bytea AS url_sealed, subscription_id AS only_for
    FROM pending
    UNION ALL
    SELECT p.tenant_id, NULL, s.key_prefix, k.origin, t.slug, s.url, NULL, s.subscription_id,
           s.event_types, s.secret_sealed, s.old_secret_sealed, s.is_paused, s.url_sealed, NULL
    FROM (SELECT DISTINCT tenant_id FROM pending) AS p
    CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = p.tenant_id LIMIT 1) AS t
    CROSS JOIN LATERAL (
        SELECT s.subscription_id, s.key_prefix, s.event_types, s.url, s.secret_sealed,
               CASE WHEN s.old_secret_until > $3::timestamptz THEN s.old_secret_sealed END AS old_secret_sealed,
               s.paused_at IS NOT NULL AS is_paused, s.url_sealed
        FROM subscriptions s WHERE s.tenant_id = p.tenant_id AND s.removed_at IS NULL OFFSET 0
    ) AS s
    LEFT JOIN LATERAL (
        SELECT k.origin FROM api_keys k
        WHERE k.prefix = s.key_prefix AND k.tenant_id IS NOT DISTINCT FROM p.tenant_id LIMIT 1
    ) AS k ON true
-- ----
-- outbox.relayed
    UPDATE outbox SET relayed_at = $2 WHERE relayed_at IS NULL AND event_id = ANY($1::uuid[])
-- ----
-- outbox.waiting
    SELECT count(*), min(created_at) FROM (
        SELECT created_at FROM outbox WHERE relayed_at IS NULL ORDER BY event_id LIMIT 100000
    ) AS waiting
-- ----
-- outbox.relayed_page
    WITH page AS MATERIALIZED (
        SELECT tenant_id, event_id, event_type, key_prefix, origin, created_at, subscription_id
        FROM outbox WHERE relayed_at IS NOT NULL AND event_id > $1 ORDER BY event_id LIMIT $2::bigint
    )
    SELECT tenant_id, event_id, key_prefix, origin, created_at, event_type, subscription_id,
           NULL::text[] AS event_types
    FROM page
    UNION ALL
    SELECT p.tenant_id, NULL, s.key_prefix, k.origin, s.wants_since, NULL, s.subscription_id, s.event_types
    FROM (SELECT DISTINCT tenant_id FROM page) AS p
    CROSS JOIN LATERAL (
        SELECT s.subscription_id, s.key_prefix, s.event_types,
               GREATEST(s.created_at, s.event_types_changed_at) AS wants_since
        FROM subscriptions s WHERE s.tenant_id = p.tenant_id AND s.removed_at IS NULL OFFSET 0
    ) AS s
    LEFT JOIN LATERAL (
        SELECT k.origin FROM api_keys k
        WHERE k.prefix = s.key_prefix AND k.tenant_id IS NOT DISTINCT FROM p.tenant_id LIMIT 1
    ) AS k ON true
-- ----
-- deliveries.of_relayed
    SELECT d.delivery_id
    FROM unnest($1::uuid[], $2::uuid[]) AS expected (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM deliveries d
        WHERE d.tenant_id = expected.tenant_id AND d.delivery_id = expected.delivery_id LIMIT 1
    ) AS d
-- ----
-- replay_jobs.open
    SELECT tenant_id, job_id, 'dead' = ANY(states), state = 'stopping'
    FROM replay_jobs WHERE state IN ('running', 'stopping') ORDER BY job_id LIMIT $1::bigint
-- ----
-- replay_jobs.hold
    SELECT states, event_type, subscription_id, last_id, end_id, per_second, batch_at, state = 'running'
    FROM replay_jobs WHERE tenant_id = $1 AND job_id = $2 FOR UPDATE SKIP LOCKED
-- ----
-- deliveries.next_to_replay
    SELECT d.delivery_id, o.event_type
    FROM (
        SELECT d.delivery_id, d.event_id
        FROM (
            SELECT subscription_id FROM subscriptions
            WHERE tenant_id = $1 AND removed_at IS NULL AND ($2::uuid IS NULL OR subscription_id = $2) OFFSET 0
        ) AS s
        CROSS JOIN unnest($3::text[]) AS w (state)
        CROSS JOIN LATERAL (
            SELECT d.delivery_id, d.event_id FROM deliveries d
            WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state
              AND d.delivery_id > $4 AND d.delivery_id < $5 AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.delivery_id LIMIT $6::bigint
        ) AS d
        ORDER BY d.delivery_id LIMIT $6::bigint
    ) AS d
    LEFT JOIN LATERAL (
        SELECT event_type FROM outbox o WHERE $7::boolean AND o.tenant_id = $1 AND o.event_id = d.event_id LIMIT 1
    ) AS o ON true
    ORDER BY d.delivery_id
-- ----
-- deliveries.replay_batch
    UPDATE deliveries SET state = 'pending', attempts_before = attempts, parked_at = $4, next_attempt_at = $4
    WHERE ctid = ANY(ARRAY(
        SELECT found.place
        FROM unnest($2::uuid[]) AS wanted (delivery_id)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d
            WHERE d.tenant_id = $1 AND d.delivery_id = wanted.delivery_id AND d.state = ANY($3::text[])
            LIMIT 1 FOR UPDATE
        ) AS found
    ))
-- ----
-- replay_jobs.advance
    UPDATE replay_jobs SET last_id = $3, replayed = replayed + $4,
        batch_at = CASE WHEN $4 > 0 THEN $5 ELSE batch_at END
    WHERE tenant_id = $1 AND job_id = $2
-- ----
-- replay_jobs.end
    UPDATE replay_jobs SET state = CASE state WHEN 'running' THEN 'completed' ELSE 'stopped' END, ended_at = $3
    WHERE tenant_id = $1 AND job_id = $2 AND state NOT IN ('completed', 'stopped')
-- ----
-- subscriptions.targets
    SELECT s.subscription_id, s.tenant_id, t.slug, s.url, s.secret_sealed,
           CASE WHEN s.old_secret_until > $2::timestamptz THEN s.old_secret_sealed END,
           s.paused_at IS NOT NULL, s.removed_at IS NOT NULL, s.url_sealed
    FROM unnest($1::uuid[]) AS wanted (subscription_id)
    CROSS JOIN LATERAL (SELECT * FROM subscriptions s WHERE s.subscription_id = wanted.subscription_id LIMIT 1) AS s
    CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = s.tenant_id LIMIT 1) AS t
