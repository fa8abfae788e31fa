//! The plan of faults of a run, which depends on its seed and length only.

use crate::fuzz::random::Random;
use std::fmt;
use std::time::Duration;

/// The programs of a run: two copies of each kind, because no copy may be special.
pub(super) const PROGRAMS: [&str; 6] = [
    "connect-ingest", "connect-ingest", "connect-worker", "connect-worker", "connect-dispatcher", "connect-dispatcher",
];

/// Milliseconds between two faults of one lane, from and to.
const PAUSES: (u64, u64) = (400, 4_000);
/// Longer than any timeout of the programs, and than a lease.
const LONG: (u64, u64) = (8_000, 14_000);
/// How long a dispatcher is stopped, and RabbitMQ absent, at the beginning of a run of that length or longer.
const MINUTE: (u64, u64) = (60_000, 75_000);
const LONG_RUN: Duration = Duration::from_secs(180);

/// One of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    Postgres,
    Broker,
}

/// What happens to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A program gets SIGKILL, and is started again at the end.
    KillProgram(usize),
    /// A program is stopped where it is (SIGSTOP).
    PauseProgram(usize),
    /// A program gets SIGTERM, drains, and is started again.
    RestartProgram(usize),
    /// The connections between a program and a server are reset, and so are new ones.
    Cut(usize, ServerKind),
    /// Nothing passes between a program and a server, in either direction.
    Stall(usize, ServerKind),
    /// Nothing passes from a server to a program; what the program sends arrives.
    StallReplies(usize, ServerKind),
    /// The connections between a program and a server are reset once.
    Reset(usize, ServerKind),
    /// A server is killed as in a crash, and is started again at the end.
    KillServer(ServerKind),
    /// A server is shut down and started again.
    RestartServer(ServerKind),
    /// All processes of a server are stopped where they are (SIGSTOP).
    PauseServer(ServerKind),
    /// A server runs for a tenth of the time only, as on a slow disk.
    SlowServer(ServerKind),
    /// RabbitMQ is absent for minutes, while webhooks go on.
    AbsentBroker,
    /// The primary of Postgres hangs (SIGSTOP), its standby is promoted, and the old primary never comes back. Once in a run.
    Promote,
    /// The disk of a server is full. Without a file system of its own, nothing happens.
    FullDisk(ServerKind),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// How long after the end of the one before it begins.
    pub(super) after: Duration,
    pub(super) lasts: Duration,
}

/// Faults of programs, of connections and of servers. Each lane is executed in its order; the lanes run at the same time.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) lanes: [Vec<Fault>; 3],
}

impl Plan {
    /// The plan of a seed for a load of that length. It begins with the faults that webhooks must survive above all.
    pub(super) fn of(seed: u64, length: Duration) -> Self {
        let stream = |number| Random::new(seed.wrapping_mul(31).wrapping_add(number));
        let chosen = &mut stream(0);
        let stopped = PROGRAMS.len() - 1 - chosen.below(2);
        // For longer than a lease, so that its slots move under load, and move back. Then the other copy gives up its own.
        let range = if length < LONG_RUN { LONG } else { MINUTE };
        let programs =
            [(FaultKind::PauseProgram(stopped), between(chosen, range)), (FaultKind::RestartProgram(stopped ^ 1), 0)];
        let servers = [(FaultKind::AbsentBroker, between(chosen, range))];
        let lanes = [
            lane(&mut stream(1), length, &programs, program_fault),
            lane(&mut stream(2), length, &[], connection_fault),
            lane(&mut stream(3), length, &servers, server_fault),
        ];
        Self { lanes }
    }

    /// The number of faults.
    pub(super) fn faults(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }
}

/// Faults until the load ends, not counting the time that restarts take: the `first` ones, then random ones.
fn lane(
    random: &mut Random, length: Duration, first: &[(FaultKind, u64)], fault: fn(&mut Random) -> (FaultKind, u64),
) -> Vec<Fault> {
    let (mut faults, mut at) = (Vec::new(), Duration::ZERO);
    loop {
        let (kind, lasts) = first.get(faults.len()).copied().unwrap_or_else(|| fault(random));
        let after = Duration::from_millis(between(random, PAUSES));
        let lasts = Duration::from_millis(lasts);
        at += after + lasts;
        if at >= length {
            return faults;
        }
        faults.push(Fault { kind, after, lasts });
    }
}

/// A fault, and how long it lasts in milliseconds.
fn program_fault(random: &mut Random) -> (FaultKind, u64) {
    let program = random.below(PROGRAMS.len());
    match random.below(6) {
        0..=2 => (FaultKind::KillProgram(program), between(random, (0, 3_000))),
        3 | 4 => (FaultKind::PauseProgram(program), duration(random)),
        _ => (FaultKind::RestartProgram(program), between(random, (0, 1_000))),
    }
}

fn connection_fault(random: &mut Random) -> (FaultKind, u64) {
    let program = random.below(PROGRAMS.len());
    let server = *random.one_of(&[ServerKind::Postgres, ServerKind::Broker]);
    let lasts = duration(random);
    match random.below(4) {
        0 => (FaultKind::Cut(program, server), lasts),
        1 => (FaultKind::Stall(program, server), lasts),
        2 => (FaultKind::StallReplies(program, server), lasts),
        _ => (FaultKind::Reset(program, server), 0),
    }
}

fn server_fault(random: &mut Random) -> (FaultKind, u64) {
    let server = *random.one_of(&[ServerKind::Postgres, ServerKind::Broker]);
    let lasts = duration(random);
    match random.below(10) {
        0..=2 => (FaultKind::KillServer(server), between(random, (0, 2_000))),
        3 => (FaultKind::RestartServer(server), between(random, (0, 2_000))),
        4 | 5 => (FaultKind::PauseServer(server), lasts),
        6 => (FaultKind::SlowServer(server), lasts),
        7 => (FaultKind::AbsentBroker, between(random, (60_000, 150_000))),
        8 => (FaultKind::Promote, lasts),
        _ => (FaultKind::FullDisk(server), lasts),
    }
}

/// Mostly short; sometimes longer than any timeout of the programs.
fn duration(random: &mut Random) -> u64 {
    if random.once_in(6) { between(random, LONG) } else { between(random, (100, 3_000)) }
}

fn between(random: &mut Random, (from, to): (u64, u64)) -> u64 {
    from + random.next() % (to - from)
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |slot: usize| format!("{} {}", PROGRAMS[slot], slot % 2);
        match *self {
            Self::KillProgram(slot) => write!(f, "kill {}", name(slot)),
            Self::PauseProgram(slot) => write!(f, "pause {}", name(slot)),
            Self::RestartProgram(slot) => write!(f, "restart {}", name(slot)),
            Self::Cut(slot, server) => write!(f, "cut {} off from {server:?}", name(slot)),
            Self::Stall(slot, server) => write!(f, "stall {} and {server:?}", name(slot)),
            Self::StallReplies(slot, server) => write!(f, "stall replies of {server:?} to {}", name(slot)),
            Self::Reset(slot, server) => write!(f, "reset connections of {} and {server:?}", name(slot)),
            Self::KillServer(server) => write!(f, "kill {server:?}"),
            Self::RestartServer(server) => write!(f, "restart {server:?}"),
            Self::PauseServer(server) => write!(f, "pause {server:?}"),
            Self::SlowServer(server) => write!(f, "slow {server:?}"),
            Self::AbsentBroker => f.write_str("stop Broker for long"),
            Self::Promote => f.write_str("pause Postgres and promote its standby"),
            Self::FullDisk(server) => write!(f, "full disk of {server:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_depends_on_its_seed_and_fits_its_length() {
        let (one, same, other) = (Plan::of(7, LONG_RUN), Plan::of(7, LONG_RUN), Plan::of(8, LONG_RUN));
        assert_eq!(format!("{one:?}"), format!("{same:?}"));
        assert_ne!(format!("{one:?}"), format!("{other:?}"));
        let opening = [0, 2].map(|lane: usize| one.lanes[lane][0].kind);
        assert!(matches!(opening, [FaultKind::PauseProgram(4 | 5), FaultKind::AbsentBroker]), "{opening:?}");
        assert!(
            [0, 2].map(|lane: usize| one.lanes[lane][0].lasts).iter().all(|lasts| lasts.as_secs() >= 60),
            "{opening:?}"
        );
        for lane in &one.lanes {
            let total: Duration = lane.iter().map(|fault| fault.after + fault.lasts).sum();
            assert!(!lane.is_empty() && total < LONG_RUN, "{total:?}");
        }
        // A longer run of the same seed begins with the same faults.
        let longer = Plan::of(7, Duration::from_secs(600));
        for (lane, longer) in one.lanes.iter().zip(&longer.lanes) {
            assert_eq!(format!("{lane:?}"), format!("{:?}", &longer[..lane.len()]));
        }
    }
}
