-- What the programs know of clients: their records, leads, trips and bookings, and what advisors read of them.

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
    CONSTRAINT clients_company_has_no_identity CHECK (client_type = 'individual' OR email IS NULL AND phone IS NULL AND external_id IS NULL)
);
COMMENT ON TABLE  clients IS 'Travellers, and company accounts (client_type = company).';
COMMENT ON COLUMN clients.tenant_id IS 'The tenant.';
COMMENT ON COLUMN clients.client_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN clients.name IS
    'Full name, up to 200 characters. One sent without is named after its email, else phone, else external_id (D10). Of an account: the company''s name.';
COMMENT ON COLUMN clients.email IS 'As sent, trimmed, up to 320 characters.';
COMMENT ON COLUMN clients.email_key IS 'The email as it is compared (D10, D37).';
COMMENT ON COLUMN clients.phone IS 'As sent, up to 40 characters, with at least one digit (D6).';
COMMENT ON COLUMN clients.phone_digits IS
    'The digits of the phone: what is compared. Not unique, families share phones (D10).';
COMMENT ON COLUMN clients.company IS 'Label, up to 500 characters; the account''s name for its people (D13).';
COMMENT ON COLUMN clients.external_id IS
    'The caller''s own id for the person, up to 200 characters, compared as it is. Unique in the tenant (D10).';
COMMENT ON COLUMN clients.marketing_opt_in IS 'Marketing consent; false unless sent.';
COMMENT ON COLUMN clients.client_type IS 'individual (a traveller) or company (a company account) (D13).';
COMMENT ON COLUMN clients.company_domain IS
    'Mail domain of a company account in its ASCII form (D37); null for individuals. Never a free mailbox''s (D13).';
COMMENT ON COLUMN clients.account_id IS
    'The company account this person belongs to: its client_id; null is none (D13).';
COMMENT ON COLUMN clients.created_at IS
    'When the client was created, whole milliseconds. Of those that share a phone the oldest is found (D10).';
COMMENT ON COLUMN clients.updated_at IS
    'Last change, whole milliseconds; strictly grows, the ETag is computed from it (D19).';
COMMENT ON CONSTRAINT clients_company_has_no_identity ON clients IS
    'Accounts are found by their domain only and never matched as persons, so they hold nothing to match by (D10, D13).';

-- tenant_id::text is what look-ups compare, so that no other index can serve them; tenant_id makes the index unique for each tenant
-- even where the table is distributed by tenant. sql/README.md explains both.
CREATE UNIQUE INDEX clients_tenant_email_key ON clients (email_key, (tenant_id::text), tenant_id)
    WHERE email_key IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_external_id_key ON clients (external_id, (tenant_id::text), tenant_id)
    WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX clients_tenant_company_domain_key ON clients (company_domain, (tenant_id::text), tenant_id)
    WHERE company_domain IS NOT NULL;
CREATE INDEX clients_phone ON clients (phone_digits, (tenant_id::text), created_at, client_id)
    WHERE phone_digits IS NOT NULL;

CREATE TABLE former_identities (
    tenant_id   uuid        NOT NULL,
    client_id   uuid        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('email', 'phone', 'external_id')),
    identity    text        NOT NULL,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id, kind, identity)
);
COMMENT ON TABLE  former_identities IS
    'Emails, phones and external ids that a client does not have any more. Kept until the client is erased.';
COMMENT ON COLUMN former_identities.tenant_id IS 'The tenant.';
COMMENT ON COLUMN former_identities.client_id IS 'The client who had the identity.';
COMMENT ON COLUMN former_identities.kind IS 'email, phone or external_id.';
COMMENT ON COLUMN former_identities.identity IS
    'In the form that is compared (D10), as in clients: email_key, phone_digits or external_id.';
COMMENT ON COLUMN former_identities.replaced_at IS 'When the client lost it last, in whole milliseconds.';

-- A trigger, so that no statement that changes an identity can leave it out. It runs with the rights of the schema's owner: no
-- program needs a right to the table.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION record_former_identities() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = %1$I, pg_temp AS $function$
        BEGIN
            -- Units clear identities before they set them, so that two clients can exchange theirs.
            DELETE FROM former_identities f
            USING (VALUES ('email', NEW.email_key), ('phone', NEW.phone_digits), ('external_id', NEW.external_id))
                  AS v (kind, after)
            WHERE f.tenant_id = NEW.tenant_id AND f.client_id = NEW.client_id AND f.kind = v.kind AND f.identity = v.after;
            INSERT INTO former_identities (tenant_id, client_id, kind, identity, replaced_at)
            SELECT OLD.tenant_id, OLD.client_id, v.kind, v.before, date_trunc('milliseconds', clock_timestamp())
            FROM (VALUES ('email', OLD.email_key, NEW.email_key),
                         ('phone', OLD.phone_digits, NEW.phone_digits),
                         ('external_id', OLD.external_id, NEW.external_id)) AS v (kind, before, after)
            WHERE v.before <> v.after OR (v.before IS NOT NULL AND v.after IS NULL)
            ON CONFLICT (tenant_id, client_id, kind, identity) DO UPDATE SET replaced_at = excluded.replaced_at;
            RETURN NULL;
        END
        $function$
    $sql$, current_schema());
END $do$;
REVOKE ALL ON FUNCTION record_former_identities() FROM PUBLIC;
COMMENT ON FUNCTION record_former_identities() IS
    'Trigger of clients: adds the identities that an UPDATE replaces to former_identities, and removes those that it sets.';

CREATE TRIGGER clients_record_former_identities AFTER UPDATE ON clients FOR EACH ROW
    WHEN (OLD.email_key IS DISTINCT FROM NEW.email_key
          OR OLD.phone_digits IS DISTINCT FROM NEW.phone_digits
          OR OLD.external_id IS DISTINCT FROM NEW.external_id)
    EXECUTE FUNCTION record_former_identities();

CREATE TABLE travelers (
    tenant_id uuid     NOT NULL,
    client_id uuid     NOT NULL,
    position  smallint NOT NULL CHECK ("position" >= 0 AND "position" <= 49),
    name      text     NOT NULL,
    type      text     NOT NULL CHECK (type IN ('adult', 'child', 'infant')),
    age       smallint,
    email     text,
    phone     text,
    PRIMARY KEY (tenant_id, client_id, "position"),
    FOREIGN KEY (tenant_id, client_id) REFERENCES clients
);
COMMENT ON TABLE  travelers IS 'The roster of a client, in its order; replaced as a whole.';
COMMENT ON COLUMN travelers.tenant_id IS 'The tenant.';
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
COMMENT ON COLUMN account_contacts.tenant_id IS 'The tenant.';
COMMENT ON COLUMN account_contacts.account_id IS 'The company account: a client_id with client_type = company.';
COMMENT ON COLUMN account_contacts.email_key IS 'The email as it is compared (D10, D37).';
COMMENT ON COLUMN account_contacts.email IS 'The colleague''s address as first sent, trimmed, up to 320 characters.';
COMMENT ON COLUMN account_contacts.name IS 'Full name, up to 200 characters; null is unknown.';
COMMENT ON COLUMN account_contacts.phone IS 'As sent, up to 40 characters; null is unknown.';
COMMENT ON COLUMN account_contacts.client_id IS
    'The colleague''s own client, where there is one; null for one added by contact.updated (D13).';
COMMENT ON COLUMN account_contacts.created_at IS 'When the entry was created.';
COMMENT ON COLUMN account_contacts.updated_at IS 'Last change of the entry.';

CREATE TABLE enquiry_counters (
    tenant_id uuid     NOT NULL,
    year      smallint NOT NULL,
    last      integer  NOT NULL,
    PRIMARY KEY (tenant_id, year)
);
COMMENT ON TABLE  enquiry_counters IS
    'Last enquiry sequence given out. Raised in a transaction of its own, so that no unit of work waits for another; a number may stay unused.';
COMMENT ON COLUMN enquiry_counters.tenant_id IS 'The tenant.';
COMMENT ON COLUMN enquiry_counters.year IS 'Calendar year, UTC: the second part of an enquiry number.';
COMMENT ON COLUMN enquiry_counters.last IS 'Highest sequence reserved in that year; the first is 1.';

CREATE TABLE leads (
    tenant_id      uuid        NOT NULL,
    lead_id        uuid        NOT NULL,
    client_id      uuid        NOT NULL,
    enquiry_number text        NOT NULL,
    external_id    text,
    title          text        NOT NULL,
    stage          text        NOT NULL CHECK (stage IN ('inquiry', 'follow_up', 'building_proposal', 'negotiation', 'proposal_approved', 'trip_booked', 'travelled', 'lost', 'archived')),
    lost_reason    text,
    follow_up      boolean     NOT NULL DEFAULT false,
    owner_email    text,
    brief          json        NOT NULL,
    attribution    json,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, lead_id),
    FOREIGN KEY (tenant_id, client_id) REFERENCES clients
);
COMMENT ON TABLE  leads IS 'Enquiries.';
COMMENT ON COLUMN leads.tenant_id IS 'The tenant.';
COMMENT ON COLUMN leads.lead_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN leads.client_id IS 'The client whose enquiry it is.';
COMMENT ON COLUMN leads.enquiry_number IS
    '<enquiry_prefix>-<year>-<six-digit sequence>; unique in the tenant (Lead).';
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
    'Last change, whole milliseconds; strictly grows, the ETag is computed from it. Covers what it shows of its trip (D19).';

CREATE UNIQUE INDEX leads_tenant_enquiry_number_key ON leads (enquiry_number, (tenant_id::text), tenant_id)
    WHERE enquiry_number IS NOT NULL;
CREATE INDEX leads_client ON leads (client_id, lead_id) WHERE client_id IS NOT NULL;
CREATE INDEX leads_external_id ON leads (external_id, (tenant_id::text), lead_id) WHERE external_id IS NOT NULL;
-- The newest open leads of a client are found without reading its closed ones, of which a client can have thousands.
CREATE INDEX leads_open ON leads ((client_id::text), lead_id)
    WHERE stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled');
-- A lead that a booking names by the caller's own id is found among the leads of its client, however many leads of the tenant
-- share that id. A client's id has a fixed length.
CREATE INDEX leads_client_external_id ON leads ((client_id::text || ':' || external_id), lead_id)
    WHERE external_id IS NOT NULL;

CREATE TABLE trips (
    tenant_id  uuid        NOT NULL,
    trip_id    uuid        NOT NULL,
    lead_id    uuid        NOT NULL,
    title      text        NOT NULL,
    brief      json        NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, trip_id),
    FOREIGN KEY (tenant_id, lead_id) REFERENCES leads
);
COMMENT ON TABLE  trips IS 'Trip workspaces, at most one for an enquiry.';
COMMENT ON COLUMN trips.tenant_id IS 'The tenant.';
COMMENT ON COLUMN trips.trip_id IS 'UUIDv7 (D18).';
COMMENT ON COLUMN trips.lead_id IS 'The enquiry it belongs to.';
COMMENT ON COLUMN trips.title IS 'Title of the trip, up to 200 characters.';
COMMENT ON COLUMN trips.brief IS
    'JSON object of destination, travelDates, party, budget, guestNationality: shared with the enquiry, what is unstated is left out (D20, D22).';
COMMENT ON COLUMN trips.created_at IS 'When the trip was opened, whole milliseconds.';
COMMENT ON COLUMN trips.updated_at IS
    'Last change, whole milliseconds; strictly grows, the ETag is computed from it (D19).';

CREATE UNIQUE INDEX trips_tenant_lead_key ON trips (lead_id, (tenant_id::text), tenant_id) WHERE lead_id IS NOT NULL;

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
COMMENT ON TABLE  proposals IS 'A trip opens with a draft (D20); the newest one counts.';
COMMENT ON COLUMN proposals.tenant_id IS 'The tenant.';
COMMENT ON COLUMN proposals.proposal_id IS 'UUIDv7; the newest of a trip is the one that counts.';
COMMENT ON COLUMN proposals.trip_id IS 'The trip it is for.';
COMMENT ON COLUMN proposals.status IS
    'draft, sent, viewed (opened by the traveller) or discarded (by the advisor) (D20).';
COMMENT ON COLUMN proposals.title IS 'Title; payload.title of proposal.sent (D25).';
COMMENT ON COLUMN proposals.url IS 'Link to the hosted proposal; payload.proposalUrl of proposal.sent (D25).';
COMMENT ON COLUMN proposals.channel IS 'How it was sent; payload.channel of proposal.sent (D25).';
COMMENT ON COLUMN proposals.created_at IS 'When it was created.';
COMMENT ON COLUMN proposals.sent_at IS 'When it was sent; null before (Trip).';
COMMENT ON COLUMN proposals.viewed_at IS 'When the traveller opened it; null before.';

CREATE INDEX proposals_trip ON proposals (trip_id, proposal_id) WHERE trip_id IS NOT NULL;

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
COMMENT ON COLUMN itineraries.tenant_id IS 'The tenant.';
COMMENT ON COLUMN itineraries.proposal_id IS 'The proposal that holds it.';
COMMENT ON COLUMN itineraries.snapshot IS
    '{title, days: [{title, items: [{title, ...}]}]}, as sent, hence json; up to 256 KiB (D21a, D21b).';
COMMENT ON COLUMN itineraries.updated_at IS 'When this snapshot was stored.';

CREATE TABLE invoices (
    tenant_id      uuid          NOT NULL,
    booking_ref    text          NOT NULL,
    lead_id        uuid          NOT NULL,
    trip_id        uuid,
    client_id      uuid          NOT NULL,
    amount         numeric(15,2),
    currency       text,
    credit_used    numeric(15,2),
    credit_applied numeric(15,2),
    credit_state   text          NOT NULL CHECK (credit_state IN ('none', 'pending', 'confirmed')),
    balance_due    numeric(15,2) NOT NULL DEFAULT 0,
    cancelled_at   timestamptz,
    created_at     timestamptz   NOT NULL,
    updated_at     timestamptz   NOT NULL,
    PRIMARY KEY (tenant_id, booking_ref),
    FOREIGN KEY (tenant_id, lead_id) REFERENCES leads
);
COMMENT ON TABLE  invoices IS 'Bookings and what is owed for them; one for a booking reference.';
COMMENT ON COLUMN invoices.tenant_id IS 'The tenant.';
COMMENT ON COLUMN invoices.booking_ref IS 'Identifies the booking in the tenant: payload.bookingRef, trimmed (D12).';
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

CREATE INDEX invoices_lead ON invoices (lead_id, booking_ref) WHERE lead_id IS NOT NULL;
CREATE INDEX invoices_trip ON invoices (trip_id, created_at, booking_ref) WHERE trip_id IS NOT NULL;

CREATE TABLE timeline (
    tenant_id   uuid        NOT NULL,
    client_id   uuid        NOT NULL,
    entry_id    uuid        NOT NULL,
    event_id    text        NOT NULL,
    event_type  text        NOT NULL,
    occurred_at timestamptz NOT NULL,
    origin      text        NOT NULL,
    actor_key   text,
    payload     json,
    PRIMARY KEY (tenant_id, client_id, entry_id)
);
COMMENT ON TABLE  timeline IS 'One entry for every accepted event, on its client (D14). In the order of entry_id.';
COMMENT ON COLUMN timeline.tenant_id IS 'The tenant.';
COMMENT ON COLUMN timeline.client_id IS 'The client whose timeline it is on.';
COMMENT ON COLUMN timeline.entry_id IS 'UUIDv7: grows with time.';
COMMENT ON COLUMN timeline.event_id IS
    'eventId of the event, up to 100 characters; connect-api:<request id> for a POST /leads (D17).';
COMMENT ON COLUMN timeline.event_type IS 'Type of the event; enquiry.submitted for a POST /leads.';
COMMENT ON COLUMN timeline.occurred_at IS
    'The event''s occurredAt, as an instant; when the write was applied for a POST /leads.';
COMMENT ON COLUMN timeline.origin IS
    'Emitting system, as the event says it, up to 100 characters; for a POST /leads as in D24.';
COMMENT ON COLUMN timeline.actor_key IS
    'The actor''s email in its compared form (D37), by which an erasure finds a person on a company''s timeline; null without one, on a person''s own timeline, and for a POST /leads.';
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
COMMENT ON COLUMN inbox_messages.tenant_id IS 'The tenant.';
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
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE  notifications IS 'What members were told.';
COMMENT ON COLUMN notifications.tenant_id IS 'The tenant.';
COMMENT ON COLUMN notifications.notification_id IS 'UUIDv7: grows with time.';
COMMENT ON COLUMN notifications.at IS 'When the member was told.';
COMMENT ON COLUMN notifications.recipient IS 'Email of the member, lower case.';
COMMENT ON COLUMN notifications.kind IS 'lead_assigned, trip_changed, credit_shortfall.';
COMMENT ON COLUMN notifications.lead_id IS 'The enquiry it is about; null where it is about none.';
COMMENT ON COLUMN notifications.text IS 'One sentence; no person''s data beyond the enquiry number.';

CREATE INDEX notifications_at ON notifications (at) WHERE at IS NOT NULL;

CREATE TABLE discoveries (
    tenant_id    uuid        NOT NULL,
    discovery_id uuid        NOT NULL,
    client_id    uuid        NOT NULL,
    lead_id      uuid        NOT NULL,
    discovery    json        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, discovery_id)
);
COMMENT ON TABLE  discoveries IS 'Trip discovery: what a traveller said they look for, one record for a trip.';
COMMENT ON COLUMN discoveries.tenant_id IS 'The tenant.';
COMMENT ON COLUMN discoveries.discovery_id IS
    'UUIDv7. Sent as travellerDiscovery.discoveryId, and returned by callers as hosTripDiscoveryId (Inbound event types).';
COMMENT ON COLUMN discoveries.client_id IS 'The traveller.';
COMMENT ON COLUMN discoveries.lead_id IS 'The enquiry it is about; one record for an enquiry.';
COMMENT ON COLUMN discoveries.discovery IS
    'JSON object of the known fields that passed their checks: destinationInterest, dateRange, pax, tripNotes. Later ones replace field by field.';
COMMENT ON COLUMN discoveries.created_at IS 'When the record was created.';
COMMENT ON COLUMN discoveries.updated_at IS 'Last change of the record.';

CREATE UNIQUE INDEX discoveries_tenant_lead_key ON discoveries (lead_id, (tenant_id::text), tenant_id)
    WHERE lead_id IS NOT NULL;
CREATE INDEX discoveries_client ON discoveries (client_id, discovery_id) WHERE client_id IS NOT NULL;

CREATE TABLE traveller_profiles (
    tenant_id  uuid        NOT NULL,
    client_id  uuid        NOT NULL,
    profile    json        NOT NULL,
    essence    text,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE  traveller_profiles IS 'What holds for a traveller beyond one trip.';
COMMENT ON COLUMN traveller_profiles.tenant_id IS 'The tenant.';
COMMENT ON COLUMN traveller_profiles.client_id IS 'The traveller.';
COMMENT ON COLUMN traveller_profiles.profile IS
    'JSON object of constraints and styleDefaults, from payload.profilePatch (Inbound event types).';
COMMENT ON COLUMN traveller_profiles.essence IS
    'payload.essence: free text, up to 10,000 characters; null is unstated.';
COMMENT ON COLUMN traveller_profiles.updated_at IS 'Last change of the profile.';

CREATE TABLE client_credits (
    tenant_id          uuid             NOT NULL,
    client_id          uuid             NOT NULL,
    as_of              timestamptz      NOT NULL,
    membership_id      text,
    corporate_name     text,
    available_paise    bigint,
    granted_paise      bigint,
    redeemable_percent double precision,
    PRIMARY KEY (tenant_id, client_id)
);
COMMENT ON TABLE  client_credits IS
    'Corporate credit shown on a client''s open enquiries and trips: the newest as_of (D15b).';
COMMENT ON COLUMN client_credits.tenant_id IS 'The tenant.';
COMMENT ON COLUMN client_credits.client_id IS 'The employee.';
COMMENT ON COLUMN client_credits.as_of IS
    'The instant the balance holds for; an event that is not newer changes nothing (D15b).';
COMMENT ON COLUMN client_credits.membership_id IS 'payload.membershipId, up to 200 characters; null is unstated.';
COMMENT ON COLUMN client_credits.corporate_name IS 'The employer, up to 200 characters; null is unstated.';
COMMENT ON COLUMN client_credits.available_paise IS
    'Credit left, in paise (hundredths of a rupee); null is unstated.';
COMMENT ON COLUMN client_credits.granted_paise IS
    'Credit granted, in paise (hundredths of a rupee); null is unstated.';
COMMENT ON COLUMN client_credits.redeemable_percent IS 'Percent, 0 to 100; null is unstated.';
