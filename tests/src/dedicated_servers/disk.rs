//! A file system of a limited size for the data of one server, which a test can fill up.

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
        run("mount", &["-t", "tmpfs", "-o", &options, "connect-test", &path.to_string_lossy()])
            .then_some(disk)
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
