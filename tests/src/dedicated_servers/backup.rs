//! A copy of a broker's data directory.

use super::Broker;
use std::process::Command;

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
