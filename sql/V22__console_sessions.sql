-- Sign-in to the settings area: links that work once, and sessions. Neither is a tenant's data: an operator's has no tenant.

CREATE TABLE console_login_links (
    token_hash bytea       PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    role       text        NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
    tenant_id  uuid        REFERENCES tenants,
    person     text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CHECK ((role = 'operator') = (tenant_id IS NULL))
);
COMMENT ON TABLE  console_login_links IS
    'Links that sign in to the settings area once. A link is deleted when it is used, and some time after it has expired.';
COMMENT ON COLUMN console_login_links.token_hash IS 'SHA-256 of the token in the link, which is stored nowhere.';
COMMENT ON COLUMN console_login_links.role IS 'What the session may do: viewer and admin of one tenant, operator of all.';
COMMENT ON COLUMN console_login_links.tenant_id IS 'The tenant that the session is limited to; null for an operator.';
COMMENT ON COLUMN console_login_links.person IS 'Who signs in, as the creator of the link named them; shown in the settings area.';
COMMENT ON COLUMN console_login_links.created_at IS 'When the link was created.';
COMMENT ON COLUMN console_login_links.expires_at IS 'From when on the link is refused.';

CREATE INDEX console_login_links_expires_at ON console_login_links (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE console_sessions (
    token_hash   bytea       PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    role         text        NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
    tenant_id    uuid        REFERENCES tenants,
    person       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    CHECK ((role = 'operator') = (tenant_id IS NULL))
);
COMMENT ON TABLE  console_sessions IS
    'Sessions of the settings area. A session is deleted when it is signed out, and some time after it has expired.';
COMMENT ON COLUMN console_sessions.token_hash IS 'SHA-256 of the token in the cookie, which is stored nowhere.';
COMMENT ON COLUMN console_sessions.role IS 'What the session may do: viewer and admin of one tenant, operator of all.';
COMMENT ON COLUMN console_sessions.tenant_id IS 'The tenant that the session is limited to; null for an operator.';
COMMENT ON COLUMN console_sessions.person IS 'Who signed in.';
COMMENT ON COLUMN console_sessions.created_at IS 'When the session began.';
COMMENT ON COLUMN console_sessions.last_used_at IS
    'When the session was last used, with an error of a minute: from it the idle limit counts.';
COMMENT ON COLUMN console_sessions.expires_at IS 'When the session ends at the latest.';

CREATE INDEX console_sessions_person ON console_sessions (person) WHERE person IS NOT NULL;
COMMENT ON INDEX console_sessions_person IS 'Finds all sessions of a person, to sign them out everywhere.';
CREATE INDEX console_sessions_expires_at ON console_sessions (expires_at) WHERE expires_at IS NOT NULL;
