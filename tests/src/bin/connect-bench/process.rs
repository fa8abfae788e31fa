//! Processes of this machine, as `/proc` shows them.

use std::fs;
use std::path::Path;

/// Clock ticks of a second, as Linux reports CPU time.
const TICKS: f64 = 100.0;

/// Name and CPU time of a process.
#[derive(Debug)]
pub(crate) struct ProcessStat {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Cut to 15 characters.
    pub(crate) name: String,
    /// User and system time of the process itself, in seconds.
    pub(crate) own_seconds: f64,
    /// User and system time of its children that have ended.
    pub(crate) ended_children_seconds: f64,
}

impl ProcessStat {
    /// Time of the process and of its children that have ended, such as a server's closed connections.
    pub(crate) fn seconds(&self) -> f64 {
        self.own_seconds + self.ended_children_seconds
    }

    /// Reads a line of `stat`. The name stands in parentheses and may hold any character.
    fn parse(line: &str) -> Option<Self> {
        let (head, fields) = line.rsplit_once(") ")?;
        let (pid, name) = head.split_once(" (")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let seconds = |field: usize| Some(fields.get(field)?.parse::<u64>().ok()? as f64 / TICKS);
        Some(Self {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            name: name.to_owned(),
            own_seconds: seconds(11)? + seconds(12)?,
            ended_children_seconds: seconds(13)? + seconds(14)?,
        })
    }
}

/// Reads all processes of the machine.
pub(crate) fn all() -> Vec<ProcessStat> {
    let stat = |pid: u32| ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    pids().into_iter().filter_map(stat).collect()
}

/// The process that listens on a port of this machine, when it can be seen.
fn listening_on(port: u16) -> Option<u32> {
    let sockets = listening_sockets(port);
    let has_one = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
    };
    pids().into_iter().filter(has_one).min()
}

/// The processes of Postgres and RabbitMQ at these URLs, when they can be seen.
pub(crate) fn servers(database_url: &str, amqp_url: &str) -> (Option<u32>, Option<u32>) {
    let listener = |url: &str, port| listening_on(port_of(url).unwrap_or(port));
    (listener(database_url, 5_432), listener(amqp_url, 5_672))
}

/// The port that a URL names.
fn port_of(url: &str) -> Option<u16> {
    let authority = url.split("//").nth(1)?.split(['/', '?']).next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

fn listening_sockets(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let suffix = format!(":{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 0A: listening.
        let is_wanted = fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == "0A";
        is_wanted.then(|| format!("socket:[{}]", fields.get(9).copied().unwrap_or_default()))
    };
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(socket).collect()
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of the whole machine since its start, in seconds, summed over its processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineTime {
    pub(crate) idle: f64,
    pub(crate) total: f64,
}

impl MachineTime {
    /// Reads the first line of `/proc/stat`; zeros where there is none.
    pub(crate) fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        // The fields after the eighth repeat part of the first ones.
        let times: Vec<f64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
        // Fields 4 and 5: idle, and idle while a disk works.
        let idle = times.iter().skip(3).take(2).sum::<f64>();
        Self { idle: idle / TICKS, total: times.iter().sum::<f64>() / TICKS }
    }
}

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessMemory {
    pub(crate) resident: f64,
    /// Anonymous memory: neither shared, as Postgres' buffers are, nor mapped from files.
    pub(crate) private: f64,
    /// Peak of the resident memory since the start, or since [`reset_peak`].
    pub(crate) peak: f64,
}

/// Memory of a running process.
pub(crate) fn memory(pid: u32) -> Option<ProcessMemory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1_024.0)
    };
    Some(ProcessMemory { resident: mib("VmRSS")?, private: mib("RssAnon")?, peak: mib("VmHWM")? })
}

/// Resets the peak of a process. If the kernel refuses, it stays the peak since the start.
pub(crate) fn reset_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").ok();
}

#[cfg(test)]
mod tests {
    use super::{MachineTime, port_of};

    #[test]
    fn reads_the_port_of_a_url() {
        assert_eq!(port_of("postgres://connect@127.0.0.1:5433/connect"), Some(5_433));
        assert_eq!(port_of("amqp://guest:guest@127.0.0.1:5673/%2f"), Some(5_673));
        assert_eq!(port_of("amqp://guest:guest@broker/%2f"), None);
    }

    #[test]
    fn reads_the_idle_share_of_the_machine() {
        let MachineTime { idle, total } =
            MachineTime::parse("cpu  100 0 50 800 50 0 0 0 70 70\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        assert_eq!((idle, total), (8.5, 10.0));
    }
}
