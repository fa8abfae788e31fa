//! TLS to Postgres and RabbitMQ (docs/settings.md): verified always, no fallback to plain text, and errors that
//! say what was wrong.

mod broker;
mod postgres;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::Certificate;

/// A directory for certificates, which is removed with its value.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("connect-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a new directory");
        Self(directory)
    }

    /// A copy of a file under another name.
    pub(crate) fn copy(&self, name: &str, of: &Path) -> String {
        let path = self.0.join(name);
        fs::copy(of, &path).expect("a copy");
        path.display().to_string()
    }

    /// The files of a certificate and of its key.
    pub(crate) fn write(&self, name: &str, pair: &Certificate) -> [String; 2] {
        [("crt", &pair.certificate), ("key", &pair.key)].map(|(suffix, text)| {
            let path = self.0.join(format!("{name}.{suffix}"));
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A panic here would hide the test's own.
        drop(fs::remove_dir_all(&self.0));
    }
}
