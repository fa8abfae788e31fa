-- The newest open leads of a client are found without reading its closed ones, of which a client can have thousands.
--
-- The index contains the client's id as text, and a look-up of open leads compares that: no other index can serve it, so
-- that the look-up has one access path whatever the planner knows of the tables (V4).

CREATE INDEX leads_open ON leads ((client_id::text), lead_id)
    WHERE stage NOT IN ('lost', 'archived', 'trip_booked', 'travelled');
