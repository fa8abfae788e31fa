//! CPU time by program, in seconds. Only processes of this run are counted: the programs that it started, and
//! the two servers when they run on this machine.

use crate::process::{self, ProcessStat};
use ::tests::World;
use std::fmt;

/// Programs that are listed separately, and the first 15 characters of their names, which the kernel keeps.
const PROGRAMS: [(&str, &str); 3] =
    [("ingest", "connect-ingest"), ("worker", "connect-worker"), ("dispatcher", "connect-dispatc")];

/// Reads the CPU time of the programs and servers.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    postgres: Option<u32>,
    rabbitmq: Option<u32>,
}

/// CPU seconds of each program and server, so far or between two readings.
#[derive(Clone, Debug)]
pub(crate) struct CpuTime {
    programs: Vec<(&'static str, f64)>,
    bench: f64,
}

/// [`CpuTime`] for each 1,000 events, deliveries or requests.
#[derive(Debug)]
pub(crate) struct CpuTimePerThousand(CpuTime);

impl CpuMeter {
    /// For a world's programs and servers.
    pub(crate) fn new(world: &World) -> Self {
        let (postgres, rabbitmq) = process::servers(world.database.url(), world.queues.url());
        Self { postgres, rabbitmq }
    }

    /// Reads the CPU time used so far.
    pub(crate) fn read(&self) -> CpuTime {
        let own = std::process::id();
        let all = process::all();
        let sum = |is: &dyn Fn(&ProcessStat) -> bool| {
            all.iter().filter(|stat| is(stat)).map(ProcessStat::seconds).sum::<f64>()
        };
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
        CpuTime { programs, bench }
    }
}

impl CpuTime {
    /// The CPU time used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let programs = self.programs.iter().zip(&before.programs);
        let programs = programs.map(|((label, now), (_, then))| (*label, now - then)).collect();
        Self { programs, bench: self.bench - before.bench }
    }

    /// The sum of both.
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
    pub(crate) fn per_thousand(&self, count: usize) -> CpuTimePerThousand {
        let scale = |seconds: f64| seconds / count as f64 * 1_000.0;
        let programs = self.programs.iter().map(|(label, seconds)| (*label, scale(*seconds))).collect();
        CpuTimePerThousand(CpuTime { programs, bench: scale(self.bench) })
    }
}

impl fmt::Display for CpuTimePerThousand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CpuTime { programs, bench } = &self.0;
        let total: f64 = programs.iter().map(|(_, seconds)| seconds).sum();
        write!(f, "all programs {total:.3} s (")?;
        for (position, (label, seconds)) in programs.iter().enumerate() {
            write!(f, "{}{label} {seconds:.3}", if position == 0 { "" } else { ", " })?;
        }
        write!(f, "), not counted: connect-bench {bench:.3} s")
    }
}
