-- A lead that a booking names by the caller's own id is found among the leads of its client, however many leads of the
-- agency share that id.
--
-- The index contains client and external id as one text, and a look-up compares that: no other index can serve it, so
-- that the look-up has one access path whatever the planner knows of the tables (V4). A client's id has a fixed length.

CREATE INDEX leads_client_external_id ON leads ((client_id::text || ':' || external_id), lead_id)
    WHERE external_id IS NOT NULL;
