-- Webhooks carry the trace of what caused them, and their log lines its request. Nullable: the release before writes neither.

ALTER TABLE outbox
    ADD COLUMN traceparent text,
    ADD COLUMN request_id  uuid;
COMMENT ON COLUMN outbox.traceparent IS
    'W3C traceparent of what caused it: its webhooks are sent as part of that trace. Null when that isn''t known.';
COMMENT ON COLUMN outbox.request_id IS
    'The request that caused it, as X-Request-Id said; an advisor action''s message. For logs only. Null when that isn''t known.';
