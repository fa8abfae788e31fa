-- Sign-in to the settings area by OpenID Connect, by the header of a proxy, and by links for partners.

-- The previous release ignores the columns: its links and sessions are those of connectctl. A link for a partner that is opened
-- at a console of the previous release begins a session as if connectctl had made the link.
ALTER TABLE console_login_links ADD COLUMN method text NOT NULL DEFAULT 'link' CHECK (method IN ('link', 'partner-link'));
COMMENT ON COLUMN console_login_links.method IS
    'link if connectctl console login created it, partner-link if it is for a partner of the tenant, who has a quarter of an hour.';
ALTER TABLE console_login_links ADD CHECK (method = 'link' OR role <> 'operator');

CREATE INDEX console_login_links_partners ON console_login_links (tenant_id) WHERE method = 'partner-link';
COMMENT ON INDEX console_login_links_partners IS 'Finds the links for partners of a tenant, to revoke them.';

ALTER TABLE console_sessions ADD COLUMN method text NOT NULL DEFAULT 'link'
    CHECK (method IN ('link', 'partner-link', 'openid-connect', 'proxy'));
COMMENT ON COLUMN console_sessions.method IS
    'How the person signed in. A session of a partner cannot create links, and a session of a proxy ends when the proxy names somebody else.';

CREATE INDEX console_sessions_partners ON console_sessions (tenant_id) WHERE method = 'partner-link';
COMMENT ON INDEX console_sessions_partners IS 'Finds the sessions of partners of a tenant, to revoke them.';

CREATE TABLE console_spent_sign_ins (
    state_hash bytea       PRIMARY KEY CHECK (octet_length(state_hash) = 32),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE  console_spent_sign_ins IS
    'Sign-ins by OpenID Connect that began a session: none begins a second one. A row is deleted some time after it has expired.';
COMMENT ON COLUMN console_spent_sign_ins.state_hash IS 'SHA-256 of the state of the sign-in, which is stored nowhere.';
COMMENT ON COLUMN console_spent_sign_ins.expires_at IS 'From when on the sign-in is refused because of its age.';

CREATE INDEX console_spent_sign_ins_expires_at ON console_spent_sign_ins (expires_at) WHERE expires_at IS NOT NULL;
