-- A database user for each program of compose.yaml, a member of the program's role (connectctl migrate --roles). Safe to repeat;
-- a changed password is in force afterwards.
\set ON_ERROR_STOP on
\getenv ingest INGEST_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv dispatcher DISPATCHER_PASSWORD
\getenv console CONSOLE_PASSWORD
-- Passwords are not written to the server's log.
SET log_statement = 'none';
SELECT format('CREATE ROLE %I LOGIN', name)
FROM unnest(ARRAY['ingest', 'worker', 'dispatcher', 'console']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE ingest PASSWORD :'ingest';
ALTER ROLE worker PASSWORD :'worker';
ALTER ROLE dispatcher PASSWORD :'dispatcher';
ALTER ROLE console PASSWORD :'console';
GRANT connect_ingest TO ingest;
GRANT connect_worker TO worker;
GRANT connect_dispatcher TO dispatcher;
GRANT connect_console TO console;
