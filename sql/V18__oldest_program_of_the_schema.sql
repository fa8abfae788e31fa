-- The oldest programs that work with this schema, so that a program which does not know a change refuses to start instead of
-- working wrongly. A migration that removes what an earlier release needs raises the number.

CREATE TABLE schema_compatibility (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    oldest_program integer NOT NULL
);
COMMENT ON TABLE  schema_compatibility IS 'Which programs work with this schema; one row.';
COMMENT ON COLUMN schema_compatibility.only_row IS 'Always true, so that there is one row.';
COMMENT ON COLUMN schema_compatibility.oldest_program IS
    'A program works with this schema if the last migration that it knows has at least this number.';
INSERT INTO schema_compatibility (oldest_program) VALUES (3);
