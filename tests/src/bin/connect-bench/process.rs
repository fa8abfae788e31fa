//! Processes of this machine, as `/proc` shows them.

use std::fs;
use std::path::Path;

/// Clock ticks of a second, as Linux reports CPU time.
const TICKS: f64 = 100.0;

/// One process.
#[derive(Debug)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Cut to 15 characters.
    pub(crate) name: String,
    /// User and system time of the process itself, in seconds.
    pub(crate) own_seconds: f64,
    /// The same of its children that have ended.
    pub(crate) ended_children_seconds: f64,
}

impl Stat {
    /// With its ended children: a server's connections may have ended meanwhile.
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

/// All processes.
pub(crate) fn all() -> Vec<Stat> {
    let stat = |pid: u32| Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    pids().into_iter().filter_map(stat).collect()
}

/// The process that listens on a port of this machine, when it can be seen.
pub(crate) fn listening_on(port: u16) -> Option<u32> {
    let sockets = listening_sockets(port);
    let has_one = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
    };
    pids().into_iter().filter(has_one).min()
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

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: f64,
    /// Most that was resident since the start, or since [`reset_peak`].
    pub(crate) peak: f64,
}

/// Memory of a running process.
pub(crate) fn memory(pid: u32) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1_024.0)
    };
    Some(Memory { resident: mib("VmRSS")?, peak: mib("VmHWM")? })
}

/// Has the peak of a process begin anew. Where the kernel refuses, it stays that since the start.
pub(crate) fn reset_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").ok();
}
