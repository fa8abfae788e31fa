-- The settings area: sign-in, and what its overview shows.

-- Links and sessions are found by the hash of their token, before the tenant is known.
CREATE TABLE console_login_links (
    token_hash bytea       NOT NULL CHECK (octet_length(token_hash) = 32),
    tenant_id  uuid        NOT NULL,
    role       text        NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
    person     text        NOT NULL,
    method     text        NOT NULL DEFAULT 'link' CHECK (method IN ('link', 'partner-link')),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (token_hash, tenant_id),
    CHECK ((role = 'operator') = (tenant_id = '00000000-0000-0000-0000-000000000000')),
    CHECK (method = 'link' OR role <> 'operator')
);
COMMENT ON TABLE  console_login_links IS
    'Links that sign in to the settings area once. A link is deleted when it is used, and some time after it has expired.';
COMMENT ON COLUMN console_login_links.token_hash IS 'SHA-256 of the token in the link, which is stored nowhere.';
COMMENT ON COLUMN console_login_links.tenant_id IS 'The tenant that the session is limited to; the nil UUID for an operator.';
COMMENT ON COLUMN console_login_links.role IS
    'What the session may do: viewer and admin of one tenant, operator of all.';
COMMENT ON COLUMN console_login_links.person IS
    'Who signs in, as the creator of the link named them; shown in the settings area.';
COMMENT ON COLUMN console_login_links.method IS
    'link if connectctl console login created it, partner-link if it is for a partner of the tenant, who has a quarter of an hour.';
COMMENT ON COLUMN console_login_links.created_at IS 'When the link was created.';
COMMENT ON COLUMN console_login_links.expires_at IS 'From when on the link is refused.';

CREATE INDEX console_login_links_expires_at ON console_login_links (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX console_login_links_partners ON console_login_links (tenant_id) WHERE method = 'partner-link';
COMMENT ON INDEX console_login_links_partners IS 'Finds the links for partners of a tenant, to revoke them.';

CREATE TABLE console_sessions (
    token_hash   bytea       NOT NULL CHECK (octet_length(token_hash) = 32),
    tenant_id    uuid        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
    person       text        NOT NULL,
    method       text        NOT NULL DEFAULT 'link' CHECK (method IN ('link', 'partner-link', 'openid-connect', 'proxy')),
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (token_hash, tenant_id),
    CHECK ((role = 'operator') = (tenant_id = '00000000-0000-0000-0000-000000000000'))
);
COMMENT ON TABLE  console_sessions IS
    'Sessions of the settings area. A session is deleted when it is signed out, and some time after it has expired.';
COMMENT ON COLUMN console_sessions.token_hash IS 'SHA-256 of the token in the cookie, which is stored nowhere.';
COMMENT ON COLUMN console_sessions.tenant_id IS 'The tenant that the session is limited to; the nil UUID for an operator.';
COMMENT ON COLUMN console_sessions.role IS
    'What the session may do: viewer and admin of one tenant, operator of all.';
COMMENT ON COLUMN console_sessions.person IS 'Who signed in.';
COMMENT ON COLUMN console_sessions.method IS
    'How the person signed in. A session of a partner cannot create links, and a session of a proxy ends when the proxy names somebody else.';
COMMENT ON COLUMN console_sessions.created_at IS 'When the session began.';
COMMENT ON COLUMN console_sessions.last_used_at IS
    'When the session was last used, with an error of a minute: from it the idle limit counts.';
COMMENT ON COLUMN console_sessions.expires_at IS 'When the session ends at the latest.';

CREATE INDEX console_sessions_person ON console_sessions (person) WHERE person IS NOT NULL;
COMMENT ON INDEX console_sessions_person IS 'Finds all sessions of a person, to sign them out everywhere.';
CREATE INDEX console_sessions_expires_at ON console_sessions (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX console_sessions_partners ON console_sessions (tenant_id) WHERE method = 'partner-link';
COMMENT ON INDEX console_sessions_partners IS 'Finds the sessions of partners of a tenant, to revoke them.';

CREATE TABLE console_spent_sign_ins (
    state_hash bytea       PRIMARY KEY CHECK (octet_length(state_hash) = 32),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE  console_spent_sign_ins IS
    'Sign-ins by OpenID Connect that began a session: none begins a second one. A row is deleted some time after it has expired.';
COMMENT ON COLUMN console_spent_sign_ins.state_hash IS
    'SHA-256 of the state of the sign-in, which is stored nowhere.';
COMMENT ON COLUMN console_spent_sign_ins.expires_at IS 'From when on the sign-in is refused because of its age.';

CREATE INDEX console_spent_sign_ins_expires_at ON console_spent_sign_ins (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE console_spent_forms (
    tenant_id    uuid        NOT NULL,
    form_id      uuid        NOT NULL,
    content_hash bytea       NOT NULL CHECK (octet_length(content_hash) = 32),
    page         text        NOT NULL,
    heading      text,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, form_id)
);
COMMENT ON TABLE  console_spent_forms IS
    'Forms of the settings area that have changed something: a form that is sent again changes nothing, and shows the same page (D41). A row is added in the transaction of the change, and deleted some time after the session of the form has expired.';
COMMENT ON COLUMN console_spent_forms.tenant_id IS 'The tenant that the session is limited to; the nil UUID for an operator.';
COMMENT ON COLUMN console_spent_forms.form_id IS 'UUIDv7. The form also has a MAC of it under the token of the session.';
COMMENT ON COLUMN console_spent_forms.content_hash IS 'SHA-256 of the path and the fields: the same form with others is refused.';
COMMENT ON COLUMN console_spent_forms.page IS 'The path of the page that the change has led to.';
COMMENT ON COLUMN console_spent_forms.heading IS
    'The heading of the page that has shown a secret, which is not stored; null if the change has shown none.';
COMMENT ON COLUMN console_spent_forms.expires_at IS 'When the session of the form has ended at the latest.';

CREATE INDEX console_spent_forms_expires_at ON console_spent_forms (expires_at) WHERE expires_at IS NOT NULL;

-- All tables of minutes are rings: a minute replaces the one of 64 (or 16) minutes before, and an hour the one of 192 hours before, so their
-- size is bounded without retention, and an update of an existing row is HOT. Programs add their counts every few seconds, never in the transaction of
-- what they count.
CREATE TABLE activity_minutes (
    tenant_id   uuid        NOT NULL,
    slot        smallint    NOT NULL CHECK (slot BETWEEN 0 AND 255),
    minute      timestamptz NOT NULL,
    accepted    bigint      NOT NULL DEFAULT 0,
    refused     bigint      NOT NULL DEFAULT 0,
    applied     bigint      NOT NULL DEFAULT 0,
    failed      bigint      NOT NULL DEFAULT 0,
    delivered   bigint      NOT NULL DEFAULT 0,
    undelivered bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50);
COMMENT ON TABLE  activity_minutes IS
    'How many requests, events and attempts at webhooks there were in each of the last minutes and hours, for each tenant and for all together. A ring of 64 minutes and one of 192 hours: rows are replaced, and never removed.';
COMMENT ON COLUMN activity_minutes.tenant_id IS 'The tenant; the nil UUID for all tenants together.';
COMMENT ON COLUMN activity_minutes.slot IS
    'Of a minute, its number since 1970, modulo 64. Of an hour, 64 and its number since 1970, modulo 192.';
COMMENT ON COLUMN activity_minutes.minute IS
    'The first moment of the minute or hour in which the counts were added, by the clock of the program.';
COMMENT ON COLUMN activity_minutes.accepted IS
    'Requests with valid credentials that were not refused, as in api_key_requests.';
COMMENT ON COLUMN activity_minutes.refused IS 'Refused requests that named an existing key, as in api_key_requests.';
COMMENT ON COLUMN activity_minutes.applied IS 'Events that were applied; duplicates are not among them.';
COMMENT ON COLUMN activity_minutes.failed IS 'Events that were failed.';
COMMENT ON COLUMN activity_minutes.delivered IS 'Attempts at webhooks that got a 2xx status.';
COMMENT ON COLUMN activity_minutes.undelivered IS 'Attempts at webhooks that got another status or none.';

CREATE TABLE failure_minutes (
    tenant_id  uuid        NOT NULL,
    cause      text        NOT NULL,
    slot       smallint    NOT NULL CHECK (slot BETWEEN 0 AND 15),
    minute     timestamptz NOT NULL,
    failed     bigint      NOT NULL,
    succeeded  bigint      NOT NULL,
    last_error text,
    PRIMARY KEY (tenant_id, cause, slot)
) WITH (fillfactor = 50);
COMMENT ON TABLE  failure_minutes IS
    'What failed in each of the last minutes, by its cause. A ring of 16 minutes: rows are replaced, or removed when the URL of their receiver changes; of each subscription and error there are at most 16.';
COMMENT ON COLUMN failure_minutes.tenant_id IS 'The tenant; the nil UUID for all tenants together, which have no receivers.';
COMMENT ON COLUMN failure_minutes.cause IS
    'receiver: and the id of a subscription, event: and the error of a failed event, or response: and the code of a response with a status from 500 on.';
COMMENT ON COLUMN failure_minutes.slot IS 'The number of the minute since 1970, modulo 16.';
COMMENT ON COLUMN failure_minutes.minute IS
    'The first moment of the minute in which the counts were added, by the clock of the program.';
COMMENT ON COLUMN failure_minutes.failed IS
    'Attempts at the receiver that got no 2xx status, those of test events excepted; failed events; responses.';
COMMENT ON COLUMN failure_minutes.succeeded IS 'Attempts at the receiver that got a 2xx status; 0 for other causes.';
COMMENT ON COLUMN failure_minutes.last_error IS
    'Status or error of the last failed attempt of the minute, as in attempts; null for other causes and if none failed.';

-- A copy of the console claims what it sends by these rows, so that one copy sends a mail, and none repeats it after a restart.
CREATE TABLE attention_mails (
    tenant_id     uuid        NOT NULL,
    cause         text        NOT NULL,
    text          text        NOT NULL,
    is_open       boolean     NOT NULL DEFAULT false,
    told_at       timestamptz NOT NULL DEFAULT '-infinity',
    claimed_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, cause)
) WITH (fillfactor = 50);
COMMENT ON TABLE  attention_mails IS
    'What the agencies were told by mail. A row is removed an hour after its recovery was told, and all rows of a tenant when its address changes.';
COMMENT ON COLUMN attention_mails.tenant_id IS 'The tenant.';
COMMENT ON COLUMN attention_mails.cause IS 'What needs attention: the same name as long as it lasts, whatever its size.';
COMMENT ON COLUMN attention_mails.text IS 'The line of the last mail about it; nothing of a person.';
COMMENT ON COLUMN attention_mails.is_open IS 'Whether the last mail said that it needs attention; false if it has recovered, or none was sent.';
COMMENT ON COLUMN attention_mails.told_at IS 'When the last mail about it was sent: the next one follows an hour later at the earliest.';
COMMENT ON COLUMN attention_mails.claimed_until IS 'Until when a console may be sending a mail about it. Afterwards any may.';

CREATE TABLE queue_minutes (
    queue  text        NOT NULL,
    slot   smallint    NOT NULL CHECK (slot BETWEEN 0 AND 63),
    minute timestamptz NOT NULL,
    ready  bigint      NOT NULL,
    PRIMARY KEY (queue, slot)
) WITH (fillfactor = 50);
COMMENT ON TABLE  queue_minutes IS
    'The length of each queue in the last minutes. A ring of 64 minutes: rows are replaced, and never removed.';
COMMENT ON COLUMN queue_minutes.queue IS 'The queue, without the prefix.';
COMMENT ON COLUMN queue_minutes.slot IS 'The number of the minute since 1970, modulo 64.';
COMMENT ON COLUMN queue_minutes.minute IS 'The first moment of the minute.';
COMMENT ON COLUMN queue_minutes.ready IS 'Most messages that a program saw waiting in the minute.';

CREATE TABLE queue_states (
    queue       text        PRIMARY KEY,
    observed_at timestamptz NOT NULL,
    ready       bigint      NOT NULL,
    consumers   bigint      NOT NULL,
    dead        bigint      NOT NULL,
    empty_at    timestamptz,
    taken_of    timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE  queue_states IS 'What the programs saw of each queue last.';
COMMENT ON COLUMN queue_states.queue IS 'The queue, without the prefix.';
COMMENT ON COLUMN queue_states.observed_at IS
    'When a program looked at the queue last. It writes what it saw every few seconds while messages wait, and every half minute otherwise.';
COMMENT ON COLUMN queue_states.ready IS 'Messages that waited then.';
COMMENT ON COLUMN queue_states.consumers IS 'Consumers that the broker knew then.';
COMMENT ON COLUMN queue_states.dead IS 'Messages of its dead-letter queue then.';
COMMENT ON COLUMN queue_states.empty_at IS
    'When a program saw the queue empty last: what waits was published later. Null if no program has.';
COMMENT ON COLUMN queue_states.taken_of IS
    'When the newest message that a worker has handled was published. Queues are processed in order, so what waits was published later, unless it was requeued. Null if none was handled yet.';
