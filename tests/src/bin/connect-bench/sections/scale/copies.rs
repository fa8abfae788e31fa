//! How many copies of each program run.

use std::fmt;
use tests::{Program, World};

/// Copies of each program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) ingests: usize,
    pub(super) workers: usize,
    pub(super) dispatchers: usize,
}

impl Copies {
    /// One copy of each program, which all ratios refer to.
    pub(super) const ONE: Self = Self { ingests: 1, workers: 1, dispatchers: 1 };

    /// The points of the curve; the first is [`ONE`](Self::ONE).
    pub(super) const CURVE: [Self; 7] = [
        Self::ONE,
        Self { workers: 2, ..Self::ONE },
        Self { workers: 4, ..Self::ONE },
        Self { ingests: 2, ..Self::ONE },
        Self { dispatchers: 2, ..Self::ONE },
        Self { ingests: 2, workers: 2, dispatchers: 2 },
        Self { ingests: 2, workers: 4, dispatchers: 2 },
    ];

    /// Starts and terminates programs until these numbers run.
    pub(super) async fn apply(self, world: &mut World) {
        end_down_to(&mut world.ingests, self.ingests).await;
        end_down_to(&mut world.workers, self.workers).await;
        end_down_to(&mut world.dispatchers, self.dispatchers).await;
        while world.ingests.len() < self.ingests {
            world.add_ingest().await;
        }
        while world.workers.len() < self.workers {
            world.add_worker().await;
        }
        while world.dispatchers.len() < self.dispatchers {
            world.add_dispatcher().await;
        }
        for worker in &world.workers {
            worker.until_ready().await;
        }
    }
}

/// Drains and ends the last programs, so that nothing is redelivered.
async fn end_down_to(programs: &mut Vec<Program>, count: usize) {
    for mut program in programs.drain(count.min(programs.len())..) {
        program.terminate().await;
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {} / {}", self.ingests, self.workers, self.dispatchers)
    }
}
