//! Headless Chromium, driven by the Chrome DevTools Protocol over pipes, so that no port and no other program is needed.
//!
//! A [`Page`] has cookies of its own, as a private window has. It records what the browser complains about: errors of
//! scripts, violations of the content security policy, failed requests.

mod connection;
mod page;

pub use page::{ColorScheme, Page};

use crate::binaries::root;
use connection::Connection;
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tokio::process::{Child, Command};

/// The browser expects its commands on descriptor 3, and answers on descriptor 4.
const START: &str = r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// A running browser; killed with its value.
#[derive(Debug)]
pub struct Browser {
    connection: Arc<Connection>,
    profile: PathBuf,
    _child: Child,
}

impl Browser {
    /// Starts the browser, and installs it before if it is missing.
    pub async fn start() -> Self {
        let services = root().join("ops/local/services.sh");
        let installed = Command::new(services).args(["install", "browser"]).status().await;
        assert!(installed.is_ok_and(|status| status.success()), "Chromium could not be installed");
        let profile = std::env::temp_dir().join(format!("connect-browser-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&profile).expect("a directory for the profile");
        let mut chromium = Command::new("sh");
        chromium.args(["-c", START, "chromium", "--headless", "--remote-debugging-pipe"]);
        // The sandbox is not available in a container or as root.
        chromium.args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        // Pages of other programs, such as an identity provider's, name style sheets elsewhere.
        chromium.arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost");
        chromium.args(["--hide-scrollbars", "--lang=en-US", "--force-device-scale-factor=1"]);
        chromium.arg(format!("--user-data-dir={}", profile.display()));
        let child = chromium.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.expect("Chromium starts");
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(commands), Some(answers)) = pipes else { panic!("pipes to the browser") };
        Self { connection: Connection::new(commands, answers), profile, _child: child }
    }

    /// A new page, with cookies of its own.
    pub async fn page(&self) -> Page {
        let call = async |method: &str, params| self.connection.call(None, method, params).await;
        let context = call("Target.createBrowserContext", json!({})).await["browserContextId"].take();
        let target = json!({"url": "about:blank", "browserContextId": context});
        let target = call("Target.createTarget", target).await["targetId"].take();
        let attached = call("Target.attachToTarget", json!({"targetId": target, "flatten": true})).await;
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        Page::new(Arc::clone(&self.connection), session).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.profile));
    }
}
