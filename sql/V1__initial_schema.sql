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
COMMENT ON COLUMN tenants.tenant_id IS 'UUIDv7. First column of the key of all agency data.';
COMMENT ON COLUMN tenants.slug IS
    'What callers send as X-Connect-Tenant: 1 to 100 lower-case letters, digits and hyphens.';
COMMENT ON COLUMN tenants.name IS 'Name of the agency, up to 200 characters.';
COMMENT ON COLUMN tenants.enquiry_prefix IS
    'First part of an enquiry number, ENQ in ENQ-2026-000001: 1 to 10 upper-case letters or digits.';
COMMENT ON COLUMN tenants.discovery_enabled IS 'Whether Traveller Discovery is on (D15a).';
COMMENT ON COLUMN tenants.monthly_quota IS 'Records writes allowed in a calendar month, UTC; null is no limit (D23).';
COMMENT ON COLUMN tenants.reads_per_second IS 'Records reads allowed per second and key (D23).';
COMMENT ON COLUMN tenants.created_at IS 'When the operator made the agency.';

CREATE TABLE members (
    tenant_id  uuid        NOT NULL REFERENCES tenants,
    email      text        NOT NULL,
    name       text        NOT NULL,
    active     boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, email)
);
COMMENT ON TABLE  members IS 'Advisors of an agency. New enquiries are routed to the active ones in turn (D16).';
COMMENT ON COLUMN members.tenant_id IS 'The agency.';
COMMENT ON COLUMN members.email IS 'Lower case.';
COMMENT ON COLUMN members.name IS 'Full name, up to 200 characters; shown as the owner''s.';
COMMENT ON COLUMN members.active IS 'False once removed: kept, because enquiries name their owner.';
COMMENT ON COLUMN members.created_at IS 'When first added; unchanged when a removed member is added again.';

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
COMMENT ON TABLE  api_keys IS
    'API keys. The prefix is looked up before the agency is known, hence its own unique index.';
COMMENT ON COLUMN api_keys.tenant_id IS 'The agency the key is bound to (Authentication).';
COMMENT ON COLUMN api_keys.prefix IS
    'What callers send as X-Connect-Key: ck_ and 16 lower-case hex digits. Unique across agencies.';
COMMENT ON COLUMN api_keys.name IS 'The operator''s label, up to 200 characters.';
COMMENT ON COLUMN api_keys.secret_sealed IS
    'Nonce and AES-256-GCM ciphertext of the secret, bound to agency and prefix (D5).';
COMMENT ON COLUMN api_keys.scopes IS 'Names of the scopes granted, such as events:ingest (Scopes).';
COMMENT ON COLUMN api_keys.origin IS
    'Emitting system registered for the key, for loop prevention, up to 100 characters; null is none (D24).';
COMMENT ON COLUMN api_keys.created_at IS 'When the operator made the key.';
COMMENT ON COLUMN api_keys.expires_at IS 'From when on the key is refused; null is never.';
COMMENT ON COLUMN api_keys.revoked_at IS 'When it was revoked; null while it is not (D5).';

-- One row, no agency's data: read by every ingest to see whether its cached keys are still good.
CREATE TABLE key_revision (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    revision  bigint  NOT NULL
);
INSERT INTO key_revision (revision) VALUES (0);
COMMENT ON TABLE  key_revision IS
    'Grows with each committed change of a key or an agency. It makes the loss of a notification harmless (D5).';
COMMENT ON COLUMN key_revision.singleton IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN key_revision.revision IS
    'Count of the changes so far. One that differs from what an ingest has seen makes its cached keys stale.';

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
    CHECK ((client_type = 'company') = (company_domain IS NOT NULL)),
    CONSTRAINT clients_company_has_no_identity
        CHECK (client_type = 'individual' OR (email IS NULL AND phone IS NULL AND external_id IS NULL))
);
CREATE UNIQUE INDEX clients_tenant_email_key ON clients (tenant_id, email_key) WHERE email_key IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_external_id_key ON clients (tenant_id, external_id) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_company_domain_key ON clients (tenant_id, company_domain) WHERE company_domain IS NOT NULL;
CREATE INDEX clients_tenant_phone ON clients (tenant_id, phone_digits, created_at, client_id) WHERE phone_digits IS NOT NULL;
COMMENT ON TABLE  clients IS 'Travellers, and company accounts (client_type = company).';
COMMENT ON COLUMN clients.tenant_id IS 'The agency.';
COMMENT ON COLUMN clients.client_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN clients.name IS
    'Full name, up to 200 characters. One sent without is named after its email, else phone, else external_id (D10). Of an account: the company''s name.';
COMMENT ON COLUMN clients.email IS 'As sent, trimmed, up to 320 characters.';
COMMENT ON COLUMN clients.email_key IS 'The email lower-cased: what is compared (D10).';
COMMENT ON COLUMN clients.phone IS 'As sent, up to 40 characters, with at least one digit (D6).';
COMMENT ON COLUMN clients.phone_digits IS
    'The digits of the phone: what is compared. Not unique, families share phones (D10).';
COMMENT ON COLUMN clients.company IS 'Label, up to 500 characters; the account''s name for its people (D13).';
COMMENT ON COLUMN clients.external_id IS
    'The caller''s own id for the person, up to 200 characters, compared as it is. Unique in the agency (D10).';
COMMENT ON COLUMN clients.marketing_opt_in IS 'Marketing consent; false unless sent.';
COMMENT ON COLUMN clients.client_type IS 'individual (a traveller) or company (a company account) (D13).';
COMMENT ON COLUMN clients.company_domain IS
    'Mail domain of a company account, lower case; null for individuals. Never a free mailbox''s (D13).';
COMMENT ON COLUMN clients.account_id IS
    'The company account this person belongs to: its client_id; null is none (D13).';
COMMENT ON COLUMN clients.created_at IS
    'When the client was made, whole milliseconds. Of those that share a phone the oldest is found (D10).';
COMMENT ON COLUMN clients.updated_at IS
    'Last change, whole milliseconds; strictly grows, the ETag is made from it (D19).';
COMMENT ON CONSTRAINT clients_company_has_no_identity ON clients IS
    'Accounts are found by their domain only and never matched as persons, so they hold nothing to match by (D10, D13).';

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
COMMENT ON TABLE  travelers IS 'The roster of a client, in its order; replaced as a whole.';
COMMENT ON COLUMN travelers.tenant_id IS 'The agency.';
COMMENT ON COLUMN travelers.client_id IS 'The client whose roster it is.';
COMMENT ON COLUMN travelers.position IS 'Place in the roster, from 0; at most 50 travelers (Limits).';
COMMENT ON COLUMN travelers.name IS 'Full name, up to 200 characters.';
COMMENT ON COLUMN travelers.type IS 'adult, child or infant.';
COMMENT ON COLUMN travelers.age IS 'Years; null is unstated.';
COMMENT ON COLUMN travelers.email IS 'As sent, trimmed, up to 320 characters; matches no client.';
COMMENT ON COLUMN travelers.phone IS 'As sent, up to 40 characters; matches no client.';

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
COMMENT ON COLUMN account_contacts.tenant_id IS 'The agency.';
COMMENT ON COLUMN account_contacts.account_id IS 'The company account: a client_id with client_type = company.';
COMMENT ON COLUMN account_contacts.email_key IS 'The email lower-cased: what is compared (D10).';
COMMENT ON COLUMN account_contacts.email IS 'The colleague''s address as first sent, trimmed, up to 320 characters.';
COMMENT ON COLUMN account_contacts.name IS 'Full name, up to 200 characters; null is unknown.';
COMMENT ON COLUMN account_contacts.phone IS 'As sent, up to 40 characters; null is unknown.';
COMMENT ON COLUMN account_contacts.client_id IS
    'The colleague''s own client, where there is one; null for one added by contact.updated (D13).';
COMMENT ON COLUMN account_contacts.created_at IS 'When the entry was made.';
COMMENT ON COLUMN account_contacts.updated_at IS 'Last change of the entry.';

-- ---------------------------------------------------------------- enquiries and trips

CREATE TABLE enquiry_counters (
    tenant_id uuid     NOT NULL,
    year      smallint NOT NULL,
    last      integer  NOT NULL,
    PRIMARY KEY (tenant_id, year)
);
COMMENT ON TABLE  enquiry_counters IS
    'Last enquiry sequence given out. Raised in a transaction of its own, so that no unit of work waits for another; a number may stay unused.';
COMMENT ON COLUMN enquiry_counters.tenant_id IS 'The agency.';
COMMENT ON COLUMN enquiry_counters.year IS 'Calendar year, UTC: the second part of an enquiry number.';
COMMENT ON COLUMN enquiry_counters.last IS 'Highest sequence reserved in that year; the first is 1.';

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
COMMENT ON COLUMN leads.tenant_id IS 'The agency.';
COMMENT ON COLUMN leads.lead_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN leads.client_id IS 'The client whose enquiry it is.';
COMMENT ON COLUMN leads.enquiry_number IS '<enquiry_prefix>-<year>-<six-digit sequence>; unique in the agency (Lead).';
COMMENT ON COLUMN leads.external_id IS
    'The caller''s own id for the enquiry (externalId, payload.externalLeadId), up to 200 characters; may be sent twice (D11).';
COMMENT ON COLUMN leads.title IS 'Title advisors see, up to 200 characters.';
COMMENT ON COLUMN leads.stage IS 'The one stage of the enquiry and of its trip (D11, States and transitions).';
COMMENT ON COLUMN leads.lost_reason IS
    'Why it was lost, at least 5 characters; null at any other stage (States and transitions).';
COMMENT ON COLUMN leads.follow_up IS 'Flagged for follow-up: by booking.abandoned, or a PATCH.';
COMMENT ON COLUMN leads.owner_email IS 'Email of the member it is assigned to, lower case; null is no owner (D16).';
COMMENT ON COLUMN leads.brief IS
    'What the traveller asked for, while there is no trip; afterwards the trip''s brief is the one (D20).';
COMMENT ON COLUMN leads.attribution IS
    'The marketing block: source, medium, campaign, term, content, landingPath, referrer.';
COMMENT ON COLUMN leads.created_at IS 'When the enquiry was opened, whole milliseconds.';
COMMENT ON COLUMN leads.updated_at IS
    'Last change, whole milliseconds; strictly grows, the ETag is made from it. Covers what it shows of its trip (D19).';

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
COMMENT ON COLUMN trips.tenant_id IS 'The agency.';
COMMENT ON COLUMN trips.trip_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN trips.lead_id IS 'The enquiry it belongs to.';
COMMENT ON COLUMN trips.title IS 'Title of the trip, up to 200 characters.';
COMMENT ON COLUMN trips.brief IS
    'JSON object of destination, travelDates, party, budget, guestNationality: shared with the enquiry, what is unstated is left out (D20, D22).';
COMMENT ON COLUMN trips.created_at IS 'When the trip was opened, whole milliseconds.';
COMMENT ON COLUMN trips.updated_at IS
    'Last change, whole milliseconds; strictly grows, the ETag is made from it (D19).';

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
COMMENT ON TABLE  proposals IS 'A trip opens with a draft (D20); the newest one counts.';
COMMENT ON COLUMN proposals.tenant_id IS 'The agency.';
COMMENT ON COLUMN proposals.proposal_id IS 'UUIDv7; the newest of a trip is the one that counts.';
COMMENT ON COLUMN proposals.trip_id IS 'The trip it is for.';
COMMENT ON COLUMN proposals.status IS
    'draft, sent, viewed (opened by the traveller) or discarded (by the advisor) (D20).';
COMMENT ON COLUMN proposals.title IS 'Title; payload.title of proposal.sent (D25).';
COMMENT ON COLUMN proposals.url IS 'Link to the hosted proposal; payload.proposalUrl of proposal.sent (D25).';
COMMENT ON COLUMN proposals.channel IS 'How it was sent; payload.channel of proposal.sent (D25).';
COMMENT ON COLUMN proposals.created_at IS 'When it was made.';
COMMENT ON COLUMN proposals.sent_at IS 'When it was sent; null before (Trip).';
COMMENT ON COLUMN proposals.viewed_at IS 'When the traveller opened it; null before.';

CREATE TABLE itineraries (
    tenant_id   uuid        NOT NULL,
    proposal_id uuid        NOT NULL,
    snapshot    json        NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, proposal_id),
    FOREIGN KEY (tenant_id, proposal_id) REFERENCES proposals
);
COMMENT ON TABLE  itineraries IS
    'The itinerary snapshot that a proposal holds, as sent. Apart from proposals because it may be large and is seldom read.';
COMMENT ON COLUMN itineraries.tenant_id IS 'The agency.';
COMMENT ON COLUMN itineraries.proposal_id IS 'The proposal that holds it.';
COMMENT ON COLUMN itineraries.snapshot IS
    '{title, days: [{title, items: [{title, ...}]}]}, as sent, hence json; up to 256 KiB (D21a, D21b).';
COMMENT ON COLUMN itineraries.updated_at IS 'When this snapshot was stored.';

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
COMMENT ON COLUMN invoices.tenant_id IS 'The agency.';
COMMENT ON COLUMN invoices.booking_ref IS 'Identifies the booking in the agency: payload.bookingRef, trimmed (D12).';
COMMENT ON COLUMN invoices.lead_id IS 'The enquiry that was booked.';
COMMENT ON COLUMN invoices.trip_id IS 'Its trip; null where it had none.';
COMMENT ON COLUMN invoices.client_id IS 'The enquiry''s client.';
COMMENT ON COLUMN invoices.amount IS 'Booking amount, major units; null is unstated.';
COMMENT ON COLUMN invoices.currency IS 'ISO 4217 code of all amounts here; null is unstated.';
COMMENT ON COLUMN invoices.credit_used IS
    'Corporate credit that the invoice counted as paid, major units; null is none stated.';
COMMENT ON COLUMN invoices.credit_applied IS
    'What was really taken, major units, once booking.credit_applied said so; null before (D15b).';
COMMENT ON COLUMN invoices.credit_state IS
    'none (no credit used), pending (used, not confirmed yet) or confirmed (by booking.credit_applied).';
COMMENT ON COLUMN invoices.balance_due IS
    'Reopened difference, major units: credit_used less credit_applied, never below zero.';
COMMENT ON COLUMN invoices.cancelled_at IS 'When an advisor cancelled the booking; null while it stands (D25).';
COMMENT ON COLUMN invoices.created_at IS
    'When the booking was confirmed. A trip alone names its newest invoice (D15b).';
COMMENT ON COLUMN invoices.updated_at IS 'Last change of the invoice.';

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
COMMENT ON COLUMN timeline.tenant_id IS 'The agency.';
COMMENT ON COLUMN timeline.client_id IS 'The client whose timeline it is on.';
COMMENT ON COLUMN timeline.entry_id IS 'UUIDv7: grows with time.';
COMMENT ON COLUMN timeline.event_id IS
    'eventId of the event, up to 100 characters; connect-api:<request id> for a POST /leads (D17).';
COMMENT ON COLUMN timeline.event_type IS 'Type of the event; enquiry.submitted for a POST /leads.';
COMMENT ON COLUMN timeline.occurred_at IS
    'The event''s occurredAt, as an instant; when the write was applied for a POST /leads.';
COMMENT ON COLUMN timeline.origin IS
    'Emitting system, as the event says it, up to 100 characters; for a POST /leads as in D24.';
COMMENT ON COLUMN timeline.payload IS
    'As sent, hence json and not jsonb; null where the event had none. The body of a POST /leads.';

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
COMMENT ON COLUMN inbox_messages.tenant_id IS 'The agency.';
COMMENT ON COLUMN inbox_messages.lead_id IS 'The enquiry whose thread it is in.';
COMMENT ON COLUMN inbox_messages.message_id IS 'UUIDv7: the order of the thread.';
COMMENT ON COLUMN inbox_messages.at IS
    'When it was said or changed: the causing event''s occurredAt, or when the write was applied.';
COMMENT ON COLUMN inbox_messages.kind IS
    'message (the customer''s words), change, correction (of the travel dates) (PATCH /leads/{leadId}/trip).';
COMMENT ON COLUMN inbox_messages.text IS
    'The words of a message, up to 10,000 characters; else the changeSummary, up to 500; null where none was sent (D21a).';
COMMENT ON COLUMN inbox_messages.changes IS
    'JSON object: before and after of each field that changed; null for a message, and where only a changeSummary was sent.';

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
COMMENT ON COLUMN notifications.tenant_id IS 'The agency.';
COMMENT ON COLUMN notifications.notification_id IS 'UUIDv7: grows with time.';
COMMENT ON COLUMN notifications.at IS 'When the member was told.';
COMMENT ON COLUMN notifications.recipient IS 'Email of the member, lower case.';
COMMENT ON COLUMN notifications.kind IS 'lead_assigned, trip_changed, credit_shortfall.';
COMMENT ON COLUMN notifications.lead_id IS 'The enquiry it is about; null where it is about none.';
COMMENT ON COLUMN notifications.text IS 'One sentence; no person''s data beyond the enquiry number.';

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
COMMENT ON TABLE  discoveries IS 'Trip discovery: what a traveller said they look for, one record for a trip.';
COMMENT ON COLUMN discoveries.tenant_id IS 'The agency.';
COMMENT ON COLUMN discoveries.discovery_id IS
    'UUIDv7. Told as travellerDiscovery.discoveryId, sent back as hosTripDiscoveryId (Inbound event types).';
COMMENT ON COLUMN discoveries.client_id IS 'The traveller.';
COMMENT ON COLUMN discoveries.lead_id IS 'The enquiry it is about; one record for an enquiry.';
COMMENT ON COLUMN discoveries.discovery IS
    'JSON object of the known fields that passed their checks: destinationInterest, dateRange, pax, tripNotes. Later ones replace field by field.';
COMMENT ON COLUMN discoveries.created_at IS 'When the record was made.';
COMMENT ON COLUMN discoveries.updated_at IS 'Last change of the record.';

CREATE TABLE traveller_profiles (
    tenant_id  uuid        NOT NULL,
    client_id  uuid        NOT NULL,
    profile    json        NOT NULL,
    essence    text,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE  traveller_profiles IS 'What holds for a traveller beyond one trip.';
COMMENT ON COLUMN traveller_profiles.tenant_id IS 'The agency.';
COMMENT ON COLUMN traveller_profiles.client_id IS 'The traveller.';
COMMENT ON COLUMN traveller_profiles.profile IS
    'JSON object of constraints and styleDefaults, from payload.profilePatch (Inbound event types).';
COMMENT ON COLUMN traveller_profiles.essence IS
    'payload.essence: free text, up to 10,000 characters; null is unstated.';
COMMENT ON COLUMN traveller_profiles.updated_at IS 'Last change of the profile.';

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
COMMENT ON TABLE  client_credits IS
    'Corporate credit shown on a client''s open enquiries and trips: the newest as_of (D15b).';
COMMENT ON COLUMN client_credits.tenant_id IS 'The agency.';
COMMENT ON COLUMN client_credits.client_id IS 'The employee.';
COMMENT ON COLUMN client_credits.as_of IS
    'The instant the balance holds for; an event that is not newer changes nothing (D15b).';
COMMENT ON COLUMN client_credits.membership_id IS 'payload.membershipId, up to 200 characters; null is unstated.';
COMMENT ON COLUMN client_credits.corporate_name IS 'The employer, up to 200 characters; null is unstated.';
COMMENT ON COLUMN client_credits.available_paise IS 'Credit left, in paise (hundredths of a rupee); null is unstated.';
COMMENT ON COLUMN client_credits.granted_paise IS 'Credit granted, in paise (hundredths of a rupee); null is unstated.';
COMMENT ON COLUMN client_credits.redeemable_percent IS 'Percent, 0 to 100; null is unstated.';

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
COMMENT ON TABLE  event_ledger IS
    'Every event and records write that was applied: the truth about what is a duplicate (D7, D17).';
COMMENT ON COLUMN event_ledger.tenant_id IS 'The agency; event ids are unique in it (D7).';
COMMENT ON COLUMN event_ledger.event_id IS
    'eventId, up to 100 characters; connect-api:<request id> for a records write (D17).';
COMMENT ON COLUMN event_ledger.event_type IS
    'Type of the event; client.created, client.changed, lead.opened, lead.changed or trip.changed for a records write.';
COMMENT ON COLUMN event_ledger.key_prefix IS 'The API key that sent it.';
COMMENT ON COLUMN event_ledger.request_id IS
    'The message that applied it. A redelivery of that message answers accepted again, any other one duplicate.';
COMMENT ON COLUMN event_ledger.ordinal IS 'Place in that message''s batch, from 0; 0 for a records write.';
COMMENT ON COLUMN event_ledger.applied_at IS 'When it was applied.';
COMMENT ON COLUMN event_ledger.client_id IS 'First result: the client, repeated to a duplicate (D7).';
COMMENT ON COLUMN event_ledger.lead_id IS 'First result: the enquiry; null where there was none.';
COMMENT ON COLUMN event_ledger.trip_id IS 'First result: the trip; null where there was none.';
COMMENT ON COLUMN event_ledger.discovery_id IS 'First result: the discovery record; null where there was none.';
COMMENT ON COLUMN event_ledger.warnings IS 'First result: the warnings in their order; empty where there were none.';

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
COMMENT ON COLUMN replay_entries.tenant_id IS 'The agency.';
COMMENT ON COLUMN replay_entries.key_prefix IS 'The API key that signed.';
COMMENT ON COLUMN replay_entries.mac IS 'The 32 decoded bytes of the HMAC-SHA256, never the header''s text (D2).';
COMMENT ON COLUMN replay_entries.signed_at IS 'The t of the signature, whole seconds.';
COMMENT ON COLUMN replay_entries.idempotency_key IS
    'What a POST came with, so that only its own retry passes; null for all else (D3).';

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
COMMENT ON COLUMN idempotency_keys.tenant_id IS 'The agency.';
COMMENT ON COLUMN idempotency_keys.key_prefix IS 'The API key: an Idempotency-Key holds for that key only (D17).';
COMMENT ON COLUMN idempotency_keys.idempotency_key IS 'The header as sent: 1 to 200 printable characters.';
COMMENT ON COLUMN idempotency_keys.request_hash IS
    'SHA-256 over path, a zero byte and canonical JSON of the body: 32 bytes (D17).';
COMMENT ON COLUMN idempotency_keys.status IS 'HTTP status of the answer.';
COMMENT ON COLUMN idempotency_keys.etag IS 'ETag of the answer, with its quotes.';
COMMENT ON COLUMN idempotency_keys.body IS 'Body of the answer, kept as text because a replay repeats it.';
COMMENT ON COLUMN idempotency_keys.created_at IS 'When the write succeeded.';

CREATE TABLE usage_counters (
    tenant_id uuid   NOT NULL,
    month     date   NOT NULL,
    writes    bigint NOT NULL,
    PRIMARY KEY (tenant_id, month)
);
COMMENT ON TABLE  usage_counters IS 'Metered records writes of a calendar month, UTC (D23).';
COMMENT ON COLUMN usage_counters.tenant_id IS 'The agency.';
COMMENT ON COLUMN usage_counters.month IS 'First day of the month, UTC.';
COMMENT ON COLUMN usage_counters.writes IS
    'Successful writes so far; replays, reads and failures are not among them (D23).';

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
COMMENT ON COLUMN subscriptions.tenant_id IS 'The agency.';
COMMENT ON COLUMN subscriptions.subscription_id IS
    'UUIDv7. Unique across agencies: the operator names a subscription by it alone.';
COMMENT ON COLUMN subscriptions.key_prefix IS
    'The API key it belongs to: what that key caused isn''t sent to it; null gets all of the agency''s events (D24).';
COMMENT ON COLUMN subscriptions.url IS 'Where deliveries are posted: a public HTTPS URL (D27).';
COMMENT ON COLUMN subscriptions.event_types IS 'Outbound types wanted; null is all.';
COMMENT ON COLUMN subscriptions.secret_sealed IS
    'Nonce and AES-256-GCM ciphertext of the signing secret, bound to agency and subscription (D5).';
COMMENT ON COLUMN subscriptions.old_secret_sealed IS
    'The secret before the last change, sealed alike; null where there is none.';
COMMENT ON COLUMN subscriptions.old_secret_until IS
    'Until when the old secret is still of use; null where there is none.';
COMMENT ON COLUMN subscriptions.created_at IS 'When the operator made it.';
COMMENT ON COLUMN subscriptions.paused_at IS 'Since when its deliveries wait; null while they go out (D24).';
COMMENT ON COLUMN subscriptions.removed_at IS
    'When it was removed; its deliveries are dropped from then on (D24). Null while it is there.';

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
COMMENT ON TABLE  outbox IS
    'Outbound events, written in the transaction of what caused them and relayed to the queue afterwards.';
COMMENT ON COLUMN outbox.tenant_id IS 'The agency.';
COMMENT ON COLUMN outbox.event_id IS
    'eventId of the webhook: the same for all receivers and attempts (Event envelope).';
COMMENT ON COLUMN outbox.event_type IS 'Outbound type, such as lead.assigned (Outbound webhook events).';
COMMENT ON COLUMN outbox.key_prefix IS 'The API key whose call caused it; null for the CRM''s own acts (D16, D24).';
COMMENT ON COLUMN outbox.origin IS
    'Emitting system: crm, the causing event''s, the key''s registered one, or connect-api (D24).';
COMMENT ON COLUMN outbox.envelope IS 'The body of the webhook, kept as text because it is signed byte by byte.';
COMMENT ON COLUMN outbox.created_at IS 'When it was written.';
COMMENT ON COLUMN outbox.relayed_at IS 'When it was handed to the queue; null while it waits.';

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
COMMENT ON TABLE  deliveries IS 'One outbound event on its way to one subscription.';
COMMENT ON COLUMN deliveries.tenant_id IS 'The agency.';
COMMENT ON COLUMN deliveries.delivery_id IS 'X-Connect-Delivery: the same for all attempts and replays (D26).';
COMMENT ON COLUMN deliveries.event_id IS 'The outbound event.';
COMMENT ON COLUMN deliveries.subscription_id IS 'The subscription it goes to.';
COMMENT ON COLUMN deliveries.state IS
    'pending (attempts to come), delivered (a 2xx), dead (attempts used up, stays until replayed) or dropped (subscription removed) (D24, D26).';
COMMENT ON COLUMN deliveries.created_at IS 'When the delivery was made.';
COMMENT ON COLUMN deliveries.next_attempt_at IS 'When the next attempt is due; null where none is scheduled (D26).';

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
COMMENT ON COLUMN attempts.tenant_id IS 'The agency.';
COMMENT ON COLUMN attempts.delivery_id IS 'The delivery that was tried.';
COMMENT ON COLUMN attempts.attempt IS 'Its number within the delivery; grows.';
COMMENT ON COLUMN attempts.at IS 'When it was begun.';
COMMENT ON COLUMN attempts.status IS 'HTTP status of the response; null where none came.';
COMMENT ON COLUMN attempts.error IS
    'Why there is no status, such as a timeout or a refused address; null where there is one.';
COMMENT ON COLUMN attempts.response IS
    'The first few KiB of a failed attempt''s response body; null where none is kept.';
COMMENT ON COLUMN attempts.duration_ms IS 'How long it took, milliseconds.';
