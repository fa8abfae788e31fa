//! Mean times of the stages of a request, from the programs' own histograms during a load.

use tests::{Samples, World};

/// A name, the program that measures it, the metric, its label and that label's value.
type Stage = (&'static str, Program, &'static str, (&'static str, &'static str));

/// The stages, in the order in which a request passes them.
const STAGES: [Stage; 4] = [
    ("request", Program::Ingest, "connect_http_request_duration_seconds", ("route", tests::EVENTS)),
    ("publish to reply", Program::Ingest, "connect_reply_wait_seconds", ("queue", "events")),
    ("publish to commit", Program::Worker, "connect_queue_lag_seconds", ("queue", "events")),
    ("unit of work", Program::Worker, "connect_apply_duration_seconds", ("queue", "events")),
];

#[derive(Clone, Copy, Debug)]
enum Program {
    Ingest,
    Worker,
}

/// The metrics of both programs at one time.
pub(crate) struct MetricsSnapshot {
    ingest: Samples,
    worker: Samples,
}

impl MetricsSnapshot {
    /// Scrapes the first ingest and the first worker.
    pub(crate) async fn take(world: &World) -> Self {
        Self { ingest: world.ingests[0].metrics().await, worker: world.workers[0].metrics().await }
    }

    fn of(&self, program: Program) -> &Samples {
        match program {
            Program::Ingest => &self.ingest,
            Program::Worker => &self.worker,
        }
    }

    /// The mean times since `before`, as text.
    pub(crate) fn since(&self, before: &Self) -> String {
        let mean = |(name, program, metric, label): &Stage| {
            let grown = |part: &str| {
                let metric = format!("{metric}_{part}");
                self.of(*program).sum(&metric, &[*label]) - before.of(*program).sum(&metric, &[*label])
            };
            format!("{name} {:.1} ms (of {})", grown("sum") / grown("count") * 1_000.0, grown("count"))
        };
        STAGES.iter().map(mean).collect::<Vec<_>>().join(", ")
    }
}
