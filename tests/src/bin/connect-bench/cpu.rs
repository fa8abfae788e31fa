//! CPU time by program, in seconds. Only processes of this run are counted: the programs that it started, and
//! the two servers when they run on this machine.

use crate::process::{self, Stat};
use ::tests::World;
use std::fmt;

/// Programs whose time is told apart, and the beginning of each one's name as the kernel keeps it.
const PROGRAMS: [(&str, &str); 3] =
    [("ingest", "connect-ingest"), ("worker", "connect-worker"), ("dispatcher", "connect-dispatc")];

/// Whose time is taken.
#[derive(Debug)]
pub(crate) struct Meter {
    postgres: Option<u32>,
    rabbitmq: Option<u32>,
}

/// Seconds used by each, so far or between two readings.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    programs: Vec<(&'static str, f64)>,
    bench: f64,
}

/// [`Used`] for each 1,000 of something.
#[derive(Debug)]
pub(crate) struct PerThousand(Used);

impl Meter {
    /// For a world's programs and servers.
    pub(crate) fn new(world: &World) -> Self {
        let (postgres, rabbitmq) = process::servers(world.database.url(), world.queues.url());
        Self { postgres, rabbitmq }
    }

    /// Reads what has been used until now.
    pub(crate) fn read(&self) -> Used {
        let own = std::process::id();
        let all = process::all();
        let sum =
            |is: &dyn Fn(&Stat) -> bool| all.iter().filter(|stat| is(stat)).map(Stat::seconds).sum::<f64>();
        let of_server = |server: Option<u32>| {
            server.map(|server| sum(&|stat| stat.pid == server || stat.parent == server))
        };
        let mut programs: Vec<(&str, f64)> = PROGRAMS
            .iter()
            .map(|(label, name)| (*label, sum(&|stat| stat.parent == own && stat.name.starts_with(name))))
            .collect();
        programs.extend(of_server(self.postgres).map(|seconds| ("postgres", seconds)));
        programs.extend(of_server(self.rabbitmq).map(|seconds| ("rabbitmq (beam.smp)", seconds)));
        let bench = all.iter().find(|stat| stat.pid == own).map_or(0.0, |stat| stat.own_seconds);
        Used { programs, bench }
    }
}

impl Used {
    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let programs = self.programs.iter().zip(&before.programs);
        let programs = programs.map(|((label, now), (_, then))| (*label, now - then)).collect();
        Self { programs, bench: self.bench - before.bench }
    }

    /// Adds up several.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for ((_, seconds), (_, more)) in self.programs.iter_mut().zip(&other.programs) {
            *seconds += more;
        }
        self.bench += other.bench;
        self
    }

    /// Seconds of each program and server.
    pub(crate) fn programs(&self) -> &[(&'static str, f64)] {
        &self.programs
    }

    /// Seconds of the load generator, with the receiver of webhooks.
    pub(crate) const fn bench(&self) -> f64 {
        self.bench
    }

    /// For each 1,000 of `count`.
    pub(crate) fn per_thousand(&self, count: usize) -> PerThousand {
        let scale = |seconds: f64| seconds / count as f64 * 1_000.0;
        let programs = self.programs.iter().map(|(label, seconds)| (*label, scale(*seconds))).collect();
        PerThousand(Used { programs, bench: scale(self.bench) })
    }
}

impl fmt::Display for PerThousand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Used { programs, bench } = &self.0;
        let total: f64 = programs.iter().map(|(_, seconds)| seconds).sum();
        write!(f, "all programs {total:.3} s (")?;
        for (position, (label, seconds)) in programs.iter().enumerate() {
            write!(f, "{}{label} {seconds:.3}", if position == 0 { "" } else { ", " })?;
        }
        write!(f, "), not counted: connect-bench {bench:.3} s")
    }
}
