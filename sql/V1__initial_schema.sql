-- The whole schema of Connect at its first version.
--
-- Every table of agency data has tenant_id as the first column of its primary key, so that no query
-- crosses agencies by accident and the schema can be sharded by tenant. Ids are UUIDv7 made by the
-- programs, so that indexes grow at one end. Only indexes that a query in the code needs are here.
-- Times that the API shows (created_at, updated_at) hold whole milliseconds, because an ETag made from
-- them must read back as it was written (D19). No foreign key points at a row that all of an agency's
-- writes would have to share (its tenants row, its members), because each check locks that row.

-- ---------------------------------------------------------------- agencies, members, keys

CREATE TABLE tenants (
    tenant_id         uuid        PRIMARY KEY,
    slug              text        NOT NULL CONSTRAINT tenants_slug_key UNIQUE,
    name              text        NOT NULL,
    enquiry_prefix    text        NOT NULL,
    discovery_enabled boolean     NOT NULL DEFAULT false,
    monthly_quota     bigint      CHECK (monthly_quota >= 0),
    reads_per_second  integer     NOT NULL DEFAULT 100 CHECK (reads_per_second > 0),
    created_at        timestamptz NOT NULL
);
COMMENT ON TABLE  tenants IS 'Agencies. Made by the operator.';
COMMENT ON COLUMN tenants.slug IS 'What callers send as X-Connect-Tenant; lower case.';
COMMENT ON COLUMN tenants.enquiry_prefix IS 'First part of an enquiry number, ENQ in ENQ-2026-000001.';
COMMENT ON COLUMN tenants.discovery_enabled IS 'Whether Traveller Discovery is on (D15a).';
COMMENT ON COLUMN tenants.monthly_quota IS 'Records writes allowed in a calendar month, UTC; null is no limit (D23).';
COMMENT ON COLUMN tenants.reads_per_second IS 'Records reads allowed per second and key (D23).';

CREATE TABLE members (
    tenant_id  uuid        NOT NULL REFERENCES tenants,
    email      text        NOT NULL,
    name       text        NOT NULL,
    active     boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, email)
);
COMMENT ON TABLE  members IS 'Advisors of an agency. New enquiries are routed to the active ones in turn (D16).';
COMMENT ON COLUMN members.email IS 'Lower case.';
COMMENT ON COLUMN members.active IS 'False once removed: kept, because enquiries name their owner.';

CREATE TABLE api_keys (
    tenant_id     uuid        NOT NULL REFERENCES tenants,
    prefix        text        NOT NULL CONSTRAINT api_keys_prefix_key UNIQUE,
    name          text        NOT NULL,
    secret_sealed bytea       NOT NULL,
    scopes        text[]      NOT NULL,
    origin        text,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz,
    revoked_at    timestamptz,
    PRIMARY KEY (tenant_id, prefix)
);
COMMENT ON TABLE  api_keys IS 'API keys. The prefix is looked up before the agency is known, hence its own unique index.';
COMMENT ON COLUMN api_keys.secret_sealed IS 'Nonce and AES-256-GCM ciphertext of the secret, bound to agency and prefix (D5).';
COMMENT ON COLUMN api_keys.origin IS 'Emitting system registered for the key, for loop prevention (D24).';

-- One row, no agency's data: read by every ingest to see whether its cached keys are still good.
CREATE TABLE key_revision (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    revision  bigint  NOT NULL
);
INSERT INTO key_revision (revision) VALUES (0);
COMMENT ON TABLE key_revision IS
    'Grows with each committed change of a key or an agency. It makes the loss of a notification harmless (D5).';

CREATE FUNCTION bump_key_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_revision SET revision = revision + 1;
    PERFORM pg_notify('connect_keys', '');
    RETURN NULL;
END $$;
CREATE TRIGGER api_keys_changed AFTER INSERT OR UPDATE OR DELETE ON api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION bump_key_revision();
CREATE TRIGGER tenants_changed AFTER UPDATE OR DELETE ON tenants
    FOR EACH STATEMENT EXECUTE FUNCTION bump_key_revision();

-- ---------------------------------------------------------------- clients

CREATE TABLE clients (
    tenant_id        uuid        NOT NULL,
    client_id        uuid        NOT NULL,
    name             text        NOT NULL,
    email            text,
    email_key        text,
    phone            text,
    phone_digits     text,
    company          text,
    external_id      text,
    marketing_opt_in boolean     NOT NULL DEFAULT false,
    client_type      text        NOT NULL CHECK (client_type IN ('individual', 'company')),
    company_domain   text,
    account_id       uuid,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id),
    CHECK ((client_type = 'company') = (company_domain IS NOT NULL))
);
CREATE UNIQUE INDEX clients_tenant_email_key ON clients (tenant_id, email_key) WHERE email_key IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_external_id_key ON clients (tenant_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_company_domain_key ON clients (tenant_id, company_domain) WHERE company_domain IS NOT NULL;
CREATE INDEX clients_tenant_phone ON clients (tenant_id, phone_digits, created_at, client_id) WHERE phone_digits IS NOT NULL;
COMMENT ON TABLE  clients IS 'Travellers, and company accounts (client_type = company).';
COMMENT ON COLUMN clients.email IS 'As sent, trimmed.';
COMMENT ON COLUMN clients.email_key IS 'The email lower-cased: what is compared (D10).';
COMMENT ON COLUMN clients.phone_digits IS 'The digits of the phone: what is compared. Not unique, families share phones (D10).';
COMMENT ON COLUMN clients.company_domain IS 'Mail domain of a company account, lower case (D13).';
COMMENT ON COLUMN clients.account_id IS 'The company account this person belongs to (D13).';

CREATE TABLE travelers (
    tenant_id uuid     NOT NULL,
    client_id uuid     NOT NULL,
    position  smallint NOT NULL CHECK (position BETWEEN 0 AND 49),
    name      text     NOT NULL,
    type      text     NOT NULL CHECK (type IN ('adult', 'child', 'infant')),
    age       smallint,
    email     text,
    phone     text,
    PRIMARY KEY (tenant_id, client_id, position),
    FOREIGN KEY (tenant_id, client_id) REFERENCES clients
);
COMMENT ON TABLE travelers IS 'The roster of a client, in its order; replaced as a whole.';

CREATE TABLE account_contacts (
    tenant_id  uuid        NOT NULL,
    account_id uuid        NOT NULL,
    email_key  text        NOT NULL,
    email      text        NOT NULL,
    name       text,
    phone      text,
    client_id  uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, account_id, email_key),
    FOREIGN KEY (tenant_id, account_id) REFERENCES clients
);
COMMENT ON TABLE  account_contacts IS 'Colleagues listed on a company account (D13).';
COMMENT ON COLUMN account_contacts.client_id IS 'The colleague''s own client, where there is one.';

-- ---------------------------------------------------------------- enquiries and trips

CREATE TABLE enquiry_counters (
    tenant_id uuid     NOT NULL,
    year      smallint NOT NULL,
    last      integer  NOT NULL,
    PRIMARY KEY (tenant_id, year)
);
COMMENT ON TABLE enquiry_counters IS
    'Last enquiry sequence given out. Raised in a transaction of its own, so that no unit of work waits for another; a number may stay unused.';

CREATE TABLE leads (
    tenant_id       uuid        NOT NULL,
    lead_id         uuid        NOT NULL,
    client_id       uuid        NOT NULL,
    enquiry_number  text        NOT NULL,
    external_id     text,
    title           text        NOT NULL,
    stage           text        NOT NULL CHECK (stage IN ('inquiry', 'follow_up', 'building_proposal', 'negotiation',
                                    'proposal_approved', 'trip_booked', 'travelled', 'lost', 'archived')),
    lost_reason     text,
    follow_up       boolean     NOT NULL DEFAULT false,
    owner_email     text,
    brief           json        NOT NULL,
    attribution     json,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, lead_id),
    CONSTRAINT leads_tenant_enquiry_number_key UNIQUE (tenant_id, enquiry_number),
    FOREIGN KEY (tenant_id, client_id) REFERENCES clients
);
CREATE INDEX leads_tenant_client ON leads (tenant_id, client_id, lead_id);
CREATE INDEX leads_tenant_external_id ON leads (tenant_id, external_id, lead_id) WHERE external_id IS NOT NULL;
COMMENT ON TABLE  leads IS 'Enquiries.';
COMMENT ON COLUMN leads.stage IS 'The one stage of the enquiry and of its trip.';
COMMENT ON COLUMN leads.external_id IS 'The caller''s own id for the enquiry; may be sent twice (D11).';
COMMENT ON COLUMN leads.brief IS 'What the traveller asked for, while there is no trip; afterwards the trip''s brief is the one (D20).';
COMMENT ON COLUMN leads.attribution IS 'The marketing block: source, medium, campaign, term, content, landingPath, referrer.';

CREATE TABLE trips (
    tenant_id  uuid        NOT NULL,
    trip_id    uuid        NOT NULL,
    lead_id    uuid        NOT NULL,
    title      text        NOT NULL,
    brief      json        NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, trip_id),
    CONSTRAINT trips_tenant_lead_key UNIQUE (tenant_id, lead_id),
    FOREIGN KEY (tenant_id, lead_id) REFERENCES leads
);
COMMENT ON TABLE  trips IS 'Trip workspaces, at most one for an enquiry.';
COMMENT ON COLUMN trips.brief IS 'destination, travelDates, party, budget, guestNationality: shared with the enquiry (D20).';

CREATE TABLE proposals (
    tenant_id   uuid        NOT NULL,
    proposal_id uuid        NOT NULL,
    trip_id     uuid        NOT NULL,
    status      text        NOT NULL CHECK (status IN ('draft', 'sent', 'viewed', 'discarded')),
    title       text,
    url         text,
    channel     text,
    created_at  timestamptz NOT NULL,
    sent_at     timestamptz,
    viewed_at   timestamptz,
    PRIMARY KEY (tenant_id, proposal_id),
    FOREIGN KEY (tenant_id, trip_id) REFERENCES trips
);
CREATE INDEX proposals_tenant_trip ON proposals (tenant_id, trip_id, proposal_id);
COMMENT ON TABLE proposals IS 'A trip opens with a draft (D20); the newest one counts.';

CREATE TABLE itineraries (
    tenant_id   uuid        NOT NULL,
    proposal_id uuid        NOT NULL,
    snapshot    json        NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, proposal_id),
    FOREIGN KEY (tenant_id, proposal_id) REFERENCES proposals
);
COMMENT ON TABLE itineraries IS
    'The itinerary snapshot that a proposal holds, as sent. Apart from proposals because it may be large and is seldom read.';

CREATE TABLE invoices (
    tenant_id      uuid           NOT NULL,
    booking_ref    text           NOT NULL,
    lead_id        uuid           NOT NULL,
    trip_id        uuid,
    client_id      uuid           NOT NULL,
    amount         numeric(15, 2),
    currency       text,
    credit_used    numeric(15, 2),
    credit_applied numeric(15, 2),
    credit_state   text           NOT NULL CHECK (credit_state IN ('none', 'pending', 'confirmed')),
    balance_due    numeric(15, 2) NOT NULL DEFAULT 0,
    cancelled_at   timestamptz,
    created_at     timestamptz    NOT NULL,
    updated_at     timestamptz    NOT NULL,
    PRIMARY KEY (tenant_id, booking_ref),
    FOREIGN KEY (tenant_id, lead_id) REFERENCES leads
);
CREATE INDEX invoices_tenant_lead ON invoices (tenant_id, lead_id);
CREATE INDEX invoices_tenant_trip ON invoices (tenant_id, trip_id);
COMMENT ON TABLE  invoices IS 'Bookings and what is owed for them; one for a booking reference.';
COMMENT ON COLUMN invoices.credit_used IS 'Corporate credit that the invoice counted as paid, major units.';
COMMENT ON COLUMN invoices.credit_applied IS 'What was really taken, once booking.credit_applied said so.';
COMMENT ON COLUMN invoices.balance_due IS 'Reopened difference: credit_used less credit_applied, never below zero.';

-- ---------------------------------------------------------------- what people read

CREATE TABLE timeline (
    tenant_id   uuid        NOT NULL,
    client_id   uuid        NOT NULL,
    entry_id    uuid        NOT NULL,
    event_id    text        NOT NULL,
    event_type  text        NOT NULL,
    occurred_at timestamptz NOT NULL,
    origin      text        NOT NULL,
    payload     json,
    PRIMARY KEY (tenant_id, client_id, entry_id)
);
COMMENT ON TABLE  timeline IS 'One entry for every accepted event, on its client (D14). In the order of entry_id.';
COMMENT ON COLUMN timeline.payload IS 'As sent, hence json and not jsonb.';

CREATE TABLE inbox_messages (
    tenant_id  uuid        NOT NULL,
    lead_id    uuid        NOT NULL,
    message_id uuid        NOT NULL,
    at         timestamptz NOT NULL,
    kind       text        NOT NULL,
    text       text,
    changes    json,
    PRIMARY KEY (tenant_id, lead_id, message_id)
);
COMMENT ON TABLE  inbox_messages IS 'The inbox thread of an enquiry.';
COMMENT ON COLUMN inbox_messages.kind IS 'message (the customer''s words), change, correction.';
COMMENT ON COLUMN inbox_messages.changes IS 'Before and after of each field that changed.';

CREATE TABLE notifications (
    tenant_id       uuid        NOT NULL,
    notification_id uuid        NOT NULL,
    at              timestamptz NOT NULL,
    recipient       text        NOT NULL,
    kind            text        NOT NULL,
    lead_id         uuid,
    text            text        NOT NULL,
    PRIMARY KEY (tenant_id, notification_id)
);
COMMENT ON TABLE  notifications IS 'What members were told.';
COMMENT ON COLUMN notifications.recipient IS 'Email of the member.';

CREATE TABLE discoveries (
    tenant_id    uuid        NOT NULL,
    discovery_id uuid        NOT NULL,
    client_id    uuid        NOT NULL,
    lead_id      uuid        NOT NULL,
    discovery    json        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, discovery_id),
    CONSTRAINT discoveries_tenant_lead_key UNIQUE (tenant_id, lead_id)
);
CREATE INDEX discoveries_tenant_client ON discoveries (tenant_id, client_id, discovery_id);
COMMENT ON TABLE discoveries IS 'Trip discovery: what a traveller said they look for, one record for a trip.';

CREATE TABLE traveller_profiles (
    tenant_id  uuid        NOT NULL,
    client_id  uuid        NOT NULL,
    profile    json        NOT NULL,
    essence    text,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE  traveller_profiles IS 'What holds for a traveller beyond one trip.';
COMMENT ON COLUMN traveller_profiles.profile IS 'constraints and styleDefaults.';

CREATE TABLE client_credits (
    tenant_id          uuid        NOT NULL,
    client_id          uuid        NOT NULL,
    as_of              timestamptz NOT NULL,
    membership_id      text,
    corporate_name     text,
    available_paise    bigint,
    granted_paise      bigint,
    redeemable_percent double precision,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE client_credits IS 'Corporate credit shown on a client''s open enquiries and trips: the newest as_of (D15b).';

-- ---------------------------------------------------------------- exactly once

CREATE TABLE event_ledger (
    tenant_id    uuid        NOT NULL,
    event_id     text        NOT NULL,
    event_type   text        NOT NULL,
    key_prefix   text        NOT NULL,
    request_id   uuid        NOT NULL,
    ordinal      smallint    NOT NULL,
    applied_at   timestamptz NOT NULL,
    client_id    uuid,
    lead_id      uuid,
    trip_id      uuid,
    discovery_id uuid,
    warnings     text[]      NOT NULL,
    CONSTRAINT event_ledger_pkey PRIMARY KEY (tenant_id, event_id)
);
COMMENT ON TABLE  event_ledger IS 'Every event and records write that was applied: the truth about what is a duplicate (D7, D17).';
COMMENT ON COLUMN event_ledger.request_id IS
    'The message that applied it. A redelivery of that message answers accepted again, any other one duplicate.';
COMMENT ON COLUMN event_ledger.ordinal IS 'Place in that message''s batch.';

CREATE TABLE replay_entries (
    tenant_id       uuid        NOT NULL,
    key_prefix      text        NOT NULL,
    mac             bytea       NOT NULL,
    signed_at       timestamptz NOT NULL,
    idempotency_key text,
    PRIMARY KEY (tenant_id, key_prefix, mac, signed_at)
) PARTITION BY RANGE (signed_at);
COMMENT ON TABLE  replay_entries IS
    'Signatures that were used (D2). Partitions of ten minutes are made ahead and dropped by ingest once no signature in them can be fresh.';
COMMENT ON COLUMN replay_entries.signed_at IS 'The t of the signature.';
COMMENT ON COLUMN replay_entries.idempotency_key IS 'What a POST came with, so that only its own retry passes (D3).';

CREATE TABLE idempotency_keys (
    tenant_id       uuid        NOT NULL,
    key_prefix      text        NOT NULL,
    idempotency_key text        NOT NULL,
    request_hash    bytea       NOT NULL,
    status          smallint    NOT NULL,
    etag            text,
    body            json        NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key_prefix, idempotency_key)
);
COMMENT ON TABLE  idempotency_keys IS 'Answers of successful records writes, repeated to a retry (D17).';
COMMENT ON COLUMN idempotency_keys.request_hash IS 'SHA-256 over path and canonical JSON of the body.';

CREATE TABLE usage_counters (
    tenant_id uuid   NOT NULL,
    month     date   NOT NULL,
    writes    bigint NOT NULL,
    PRIMARY KEY (tenant_id, month)
);
COMMENT ON TABLE usage_counters IS 'Metered records writes of a calendar month, UTC (D23).';

-- ---------------------------------------------------------------- outbound

CREATE TABLE subscriptions (
    tenant_id           uuid        NOT NULL REFERENCES tenants,
    subscription_id     uuid        NOT NULL CONSTRAINT subscriptions_id_key UNIQUE,
    key_prefix          text,
    url                 text        NOT NULL,
    event_types         text[],
    secret_sealed       bytea       NOT NULL,
    old_secret_sealed   bytea,
    old_secret_until    timestamptz,
    created_at          timestamptz NOT NULL,
    paused_at           timestamptz,
    removed_at          timestamptz,
    PRIMARY KEY (tenant_id, subscription_id),
    FOREIGN KEY (tenant_id, key_prefix) REFERENCES api_keys
);
COMMENT ON TABLE  subscriptions IS 'Where an agency''s webhooks go.';
COMMENT ON COLUMN subscriptions.key_prefix IS 'The API key it belongs to: what that key caused isn''t sent to it (D24).';
COMMENT ON COLUMN subscriptions.event_types IS 'Types wanted; null is all.';

CREATE TABLE outbox (
    tenant_id  uuid        NOT NULL,
    event_id   uuid        NOT NULL,
    event_type text        NOT NULL,
    key_prefix text,
    origin     text        NOT NULL,
    envelope   json        NOT NULL,
    created_at timestamptz NOT NULL,
    relayed_at timestamptz,
    PRIMARY KEY (tenant_id, event_id)
);
CREATE INDEX outbox_pending ON outbox (event_id) WHERE relayed_at IS NULL;
COMMENT ON TABLE  outbox IS 'Outbound events, written in the transaction of what caused them and relayed to the queue afterwards.';
COMMENT ON COLUMN outbox.key_prefix IS 'The API key whose call caused it; null for the CRM''s own acts (D16, D24).';
COMMENT ON COLUMN outbox.envelope IS 'The body of the webhook, kept as text because it is signed byte by byte.';

CREATE TABLE deliveries (
    tenant_id       uuid        NOT NULL,
    delivery_id     uuid        NOT NULL,
    event_id        uuid        NOT NULL,
    subscription_id uuid        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
    created_at      timestamptz NOT NULL,
    next_attempt_at timestamptz,
    PRIMARY KEY (tenant_id, delivery_id),
    CONSTRAINT deliveries_event_subscription_key UNIQUE (tenant_id, event_id, subscription_id)
);
COMMENT ON TABLE deliveries IS 'One outbound event on its way to one subscription.';

CREATE TABLE attempts (
    tenant_id   uuid        NOT NULL,
    delivery_id uuid        NOT NULL,
    attempt     smallint    NOT NULL,
    at          timestamptz NOT NULL,
    status      smallint,
    error       text,
    response    text,
    duration_ms integer     NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id, attempt)
);
COMMENT ON TABLE  attempts IS 'Each try of a delivery (D26).';
COMMENT ON COLUMN attempts.response IS 'The first few KiB of a failed attempt''s response body.';
