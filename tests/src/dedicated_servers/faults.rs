//! What a test does to a dedicated server: it fills its disk, copies its data, or stops its processes for a while, as
//! when its machine hangs or its network is cut off.

use super::{Broker, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in memory (tmpfs). It is unmounted when the value is dropped; its server must have ended.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    mib: u32,
}

impl SmallDisk {
    /// Mounts a file system of that size at `path`. `None` if this process has not the privilege to mount one.
    pub(super) fn mount(path: &Path, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(path).ok()?;
        let disk = Self { path: path.to_owned(), mib };
        let options = format!("size={mib}m,mode=755");
        run("mount", &["-t", "tmpfs", "-o", &options, "connect-test", &path.to_string_lossy()]).then_some(disk)
    }

    /// Leaves only so many KiB free. The space is taken away, not used, so that it costs no memory.
    pub fn fill(&self, free_kib: u64) {
        let output = Command::new("df").args(["-k", "--output=used"]).arg(&self.path).output();
        let output = String::from_utf8(output.expect("df runs").stdout).expect("df prints text");
        let used = output.lines().nth(1).and_then(|line| line.trim().parse::<u64>().ok());
        self.resize(&format!("{}k", used.expect("df prints a number") + free_kib));
    }

    /// Returns the space that [`fill`](Self::fill) took away.
    pub fn free(&self) {
        self.resize(&format!("{}m", self.mib));
    }

    /// Fails without consequence if more than that was written meanwhile: the file system is then as large as before.
    fn resize(&self, size: &str) {
        run("mount", &["-o", &format!("remount,size={size}"), &self.path.to_string_lossy()]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l", &self.path.to_string_lossy()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Broker {
    /// Copies the data. The broker must be stopped.
    pub fn back_up(&self) {
        self.copy("rabbitmq", "rabbitmq.backup");
    }

    /// Replaces the data by the copy. The broker must be stopped.
    pub fn restore(&self) {
        self.copy("rabbitmq.backup", "rabbitmq");
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.directory.join(name));
        drop(std::fs::remove_dir_all(&to));
        let status = Command::new("cp").arg("-a").args([&from, &to]).status();
        assert!(status.is_ok_and(|status| status.success()), "cp -a {} {}", from.display(), to.display());
    }
}

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

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state and the parent follow the command's name, which is in brackets and may contain anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
