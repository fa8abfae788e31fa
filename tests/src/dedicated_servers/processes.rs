//! Stopping the processes of a server for a while, as when its machine hangs or its network is cut off.

use super::Server;
use std::process::{Command, Stdio};

impl Server {
    /// Stops all its processes where they are (SIGSTOP). Its connections stay open, and nothing responds.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets the processes run again (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends the processes (SIGKILL), even paused ones.
    pub fn kill(&self) {
        self.signal("KILL");
    }

    fn signal(&self, signal: &str) {
        let pids: Vec<String> = self.processes().iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            let script = format!("kill -{signal} {}", pids.join(" "));
            // A process may have ended meanwhile.
            drop(Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status());
        }
    }

    /// The server's first process, and its child processes.
    fn processes(&self) -> Vec<u32> {
        let file = match self.kind {
            "postgres" => "postgres/postmaster.pid",
            _ => "rabbitmq/beam.pid",
        };
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        let Some(first) = text.lines().next().and_then(|line| line.trim().parse().ok()) else {
            return Vec::new();
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        std::iter::once(first).chain(pids.filter(|pid| parent(*pid) == Some(first))).collect()
    }
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state and the parent follow the command's name, which is in brackets and may contain anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
