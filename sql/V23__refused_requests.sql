-- Why requests that named a key were refused, for the owner of the key (D35), and how many requests each key has made.

-- No foreign keys, so that recording locks no key.
CREATE TABLE refused_requests (
    tenant_id   uuid        NOT NULL,
    request_id  uuid        NOT NULL,
    key_prefix  text        NOT NULL,
    at          timestamptz NOT NULL,
    method      text        NOT NULL,
    route       text        NOT NULL,
    status      integer     NOT NULL,
    reason      text        NOT NULL,
    detail      text,
    signed_at   bigint,
    body_sha256 bytea       CHECK (octet_length(body_sha256) = 32),
    body_bytes  bigint      NOT NULL,
    PRIMARY KEY (tenant_id, request_id)
);
COMMENT ON TABLE  refused_requests IS
    'Refused requests that named an existing key: a sample of at most some a minute for each key. Rows contain no body, no secret and no signature, and nothing that the caller wrote but the timestamp of the signature. They expire, and of each key only the newest ones are kept.';
COMMENT ON COLUMN refused_requests.tenant_id IS 'The tenant of the key.';
COMMENT ON COLUMN refused_requests.request_id IS
    'UUIDv7 of the arrival of the request, as in the response header X-Request-Id: the order of the rows.';
COMMENT ON COLUMN refused_requests.key_prefix IS 'The key that the request named. Whether the key''s user sent the request is unknown unless the signature was valid.';
COMMENT ON COLUMN refused_requests.at IS 'When the request was refused.';
COMMENT ON COLUMN refused_requests.method IS 'The method of the request.';
COMMENT ON COLUMN refused_requests.route IS 'The route with placeholders in braces, without ids and query.';
COMMENT ON COLUMN refused_requests.status IS 'The status of the response.';
COMMENT ON COLUMN refused_requests.reason IS
    'A check that failed, such as stale or mismatch, or the code of the response, such as invalid_request.';
COMMENT ON COLUMN refused_requests.detail IS
    'What exactly, in words of Connect: the header, the seconds, the scope, or the place in the body; null if the reason says everything.';
COMMENT ON COLUMN refused_requests.signed_at IS
    'The timestamp of the signature, in seconds since 1970; null if the request had no readable one.';
COMMENT ON COLUMN refused_requests.body_sha256 IS 'SHA-256 of the body as received; null for a body that was not hashed.';
COMMENT ON COLUMN refused_requests.body_bytes IS 'The size of the body as received.';

-- The tables are new and empty, so that these are built at once. One index for each look-up (V4): the primary key lists those
-- of a tenant, the first index those of a key, and the second one finds what has expired (V15).
CREATE INDEX refused_requests_key ON refused_requests (key_prefix, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX refused_requests_at ON refused_requests (at) WHERE at IS NOT NULL;

CREATE TABLE api_key_requests (
    tenant_id uuid        NOT NULL,
    prefix    text        NOT NULL,
    hour      timestamptz NOT NULL,
    accepted  bigint      NOT NULL,
    refused   bigint      NOT NULL,
    PRIMARY KEY (tenant_id, prefix, hour)
) WITH (fillfactor = 50);
COMMENT ON TABLE  api_key_requests IS
    'How many requests each key has made in each hour. Each ingest adds its counts every few seconds.';
COMMENT ON COLUMN api_key_requests.tenant_id IS 'The tenant.';
COMMENT ON COLUMN api_key_requests.prefix IS 'The key.';
COMMENT ON COLUMN api_key_requests.hour IS 'The first moment of the hour.';
COMMENT ON COLUMN api_key_requests.accepted IS
    'Requests with valid credentials that were not refused. Those that got a status of 500 or above are not counted.';
COMMENT ON COLUMN api_key_requests.refused IS
    'Refused requests that named the key, whether or not they are among refused_requests.';

CREATE INDEX api_key_requests_hour ON api_key_requests (hour) WHERE hour IS NOT NULL;
