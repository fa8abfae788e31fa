//! What a load costs: CPU time by program and context switches, as `/proc` shows them, and bytes of Postgres' log.

use std::fs;
use std::path::Path;
use tests::World;

/// What is listed separately. Of the programs only those that this run started are counted, of the servers only those on
/// this machine; the generator is this process, with the receivers of webhooks.
pub(crate) const PARTS: [&str; 6] = ["ingest", "worker", "dispatcher", "Postgres", "RabbitMQ", "generator"];
/// The first 15 characters of the programs' names, which the kernel keeps.
const PROGRAMS: [&str; 3] = ["connect-ingest", "connect-worker", "connect-dispatc"];
/// Clock ticks of a second, as Linux reports CPU time.
const TICKS: f64 = 100.0;

/// Resources that were used, so far or between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// CPU time of each of [`PARTS`], in seconds.
    pub(crate) cpu: [f64; PARTS.len()],
    /// CPU time of the whole machine, in seconds: not idle, and with idle time.
    busy: f64,
    pub(crate) total: f64,
    /// Context switches of the whole machine.
    pub(crate) context_switches: f64,
    /// Bytes of the write-ahead log.
    pub(crate) wal: f64,
}

impl Usage {
    /// Reads what a world's programs and servers have used so far.
    pub(crate) async fn read(world: &World) -> Self {
        let wal = world.database.count("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").await;
        let postgres = listener_of(world.database.url(), 5_432);
        let rabbitmq = listener_of(world.queues.url(), 5_672);
        let (processes, own) = (Process::all(), std::process::id());
        let sum = |is: &dyn Fn(&Process) -> bool| {
            processes.iter().filter(|process| is(process)).map(|process| process.seconds).sum()
        };
        let [ingest, worker, dispatcher] =
            PROGRAMS.map(|name| sum(&|one| one.parent == own && one.name.starts_with(name)));
        let [postgres, rabbitmq] = [postgres, rabbitmq]
            .map(|server| sum(&|one| server.is_some_and(|pid| [one.pid, one.parent].contains(&pid))));
        let cpu = [ingest, worker, dispatcher, postgres, rabbitmq, sum(&|one| one.pid == own)];

        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        // The fields after the eighth repeat part of the first ones; 4 and 5 are idle, and idle while a disk works.
        let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let seconds: Vec<f64> = fields.map(|ticks| ticks.parse().unwrap_or(0.0) / TICKS).collect();
        let total = seconds.iter().sum();
        let busy = total - seconds.iter().skip(3).take(2).sum::<f64>();
        let switches = stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.parse().ok());
        Self { cpu, busy, total, context_switches: switches.unwrap_or(f64::NAN), wal: wal as f64 }
    }

    /// What was used since `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        self.cpu.iter_mut().zip(before.cpu).for_each(|(now, then)| *now -= then);
        self.busy -= before.busy;
        self.total -= before.total;
        self.context_switches -= before.context_switches;
        self.wal -= before.wal;
        self
    }

    /// CPU time that other processes of this machine used, which make all figures worse; in seconds.
    pub(crate) fn others(&self) -> f64 {
        self.busy - self.cpu.iter().sum::<f64>()
    }
}

/// Name and CPU time of a process.
#[derive(Debug)]
struct Process {
    pid: u32,
    parent: u32,
    /// Cut to 15 characters.
    name: String,
    /// User and system time, with that of its children that have ended, such as a server's closed connections; in seconds.
    seconds: f64,
}

impl Process {
    /// Reads all processes of the machine.
    fn all() -> Vec<Self> {
        let stat = |pid: u32| Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
        pids().filter_map(stat).collect()
    }

    /// Reads a line of `stat`. The name stands in parentheses and may hold any character.
    fn parse(line: &str) -> Option<Self> {
        let (head, fields) = line.rsplit_once(") ")?;
        let (pid, name) = head.split_once(" (")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: f64 = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        let (pid, parent) = (pid.parse().ok()?, fields.get(1)?.parse().ok()?);
        Some(Self { pid, parent, name: name.to_owned(), seconds: ticks / TICKS })
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process that listens on the port of a URL, when it runs on this machine and can be seen.
fn listener_of(url: &str, default_port: u16) -> Option<u32> {
    let authority = url.split("//").nth(1)?.split(['/', '?']).next()?;
    let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(default_port);
    let suffix = format!(":{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 0A: listening.
        let is_wanted = fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == "0A";
        is_wanted.then(|| format!("socket:[{}]", fields.get(9).copied().unwrap_or_default()))
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables.iter().flat_map(|table| table.lines()).filter_map(socket).collect();
    let has_one = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
    };
    pids().filter(has_one).min()
}

/// Resident memory of a running process and its peak since the last call, in MiB. If the kernel refuses to reset the peak,
/// it is that since the start.
pub(crate) fn memory(pid: u32) -> Option<[f64; 2]> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    fs::write(format!("/proc/{pid}/clear_refs"), "5").ok();
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1_024.0)
    };
    Some([mib("VmRSS:")?, mib("VmHWM:")?])
}
