-- Replays of many deliveries as jobs of the dispatcher, and events for one subscription.

-- The previous release ignores the column: until all dispatchers are of this release, a test event reaches every subscription
-- of its tenant that receives all types.
ALTER TABLE outbox ADD COLUMN subscription_id uuid;
COMMENT ON COLUMN outbox.subscription_id IS
    'The only subscription that receives the event, whatever its event types; null if all that want the event receive it. Set for test events.';

CREATE TABLE replay_jobs (
    tenant_id       uuid        NOT NULL REFERENCES tenants,
    job_id          uuid        NOT NULL,
    states          text[]      NOT NULL CHECK (states <@ ARRAY['dead', 'delivered'] AND states <> '{}'),
    event_type      text,
    subscription_id uuid,
    first_id        uuid        NOT NULL,
    end_id          uuid        NOT NULL,
    per_second      integer     NOT NULL CHECK (per_second BETWEEN 1 AND 1000),
    state           text        NOT NULL CHECK (state IN ('running', 'stopping', 'completed', 'stopped')),
    matched         bigint,
    replayed        bigint      NOT NULL DEFAULT 0,
    last_id         uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    batch_at        timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, job_id),
    CHECK ((state IN ('completed', 'stopped')) = (ended_at IS NOT NULL))
);
COMMENT ON TABLE  replay_jobs IS
    'Replays of many deliveries. The leader of the dispatchers executes them in batches; a batch commits together with last_id.';
COMMENT ON COLUMN replay_jobs.tenant_id IS 'The tenant whose deliveries are replayed.';
COMMENT ON COLUMN replay_jobs.job_id IS 'UUIDv7 of its creation.';
COMMENT ON COLUMN replay_jobs.states IS 'The states of the deliveries that are replayed: dead, delivered or both.';
COMMENT ON COLUMN replay_jobs.event_type IS 'Only deliveries of events of this type; null for all types.';
COMMENT ON COLUMN replay_jobs.subscription_id IS 'Only deliveries to this subscription; null for all that are not removed.';
COMMENT ON COLUMN replay_jobs.first_id IS 'Only deliveries with this id or a higher one. An id begins with the time of its event.';
COMMENT ON COLUMN replay_jobs.end_id IS
    'Only deliveries with a lower id. At most that of the creation of the job, so that it ends while deliveries are added.';
COMMENT ON COLUMN replay_jobs.per_second IS 'Most deliveries that are replayed in a second.';
COMMENT ON COLUMN replay_jobs.state IS
    'running, stopping (no batch follows, dead letters are removed), completed or stopped.';
COMMENT ON COLUMN replay_jobs.matched IS
    'Deliveries that were selected when the job was created; null if there were more than the settings area counts.';
COMMENT ON COLUMN replay_jobs.replayed IS 'Deliveries that were replayed so far.';
COMMENT ON COLUMN replay_jobs.last_id IS
    'The last delivery that was considered. Batches ascend by the id of the delivery, so a job replays none twice.';
COMMENT ON COLUMN replay_jobs.batch_at IS
    'When the last batch was replayed, from which the rate is counted; the creation of the job before the first one.';
COMMENT ON COLUMN replay_jobs.created_at IS 'When an operator created the job.';
COMMENT ON COLUMN replay_jobs.ended_at IS 'When the job was completed or stopped; null before. Ended jobs expire by it.';

CREATE INDEX replay_jobs_open ON replay_jobs (job_id) WHERE state IN ('running', 'stopping');
COMMENT ON INDEX replay_jobs_open IS 'Finds the jobs that the dispatcher executes.';
CREATE INDEX replay_jobs_id ON replay_jobs (uuid_send(job_id)) WHERE job_id IS NOT NULL;
COMMENT ON INDEX replay_jobs_id IS 'Finds a job that an operator names without its tenant.';
CREATE INDEX replay_jobs_ended_at ON replay_jobs (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX replay_jobs_ended_at IS 'Finds expired jobs.';
