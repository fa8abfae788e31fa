//! Running `connectctl`.

use crate::MASTER_KEY;
use crate::ran::Ran;
use serde_json::Value;

/// `connectctl` with its settings.
#[derive(Clone, Debug)]
pub struct Connectctl {
    settings: Vec<(String, String)>,
}

impl Connectctl {
    /// One that needs no broker.
    pub fn for_database(url: &str) -> Self {
        let settings = [("DATABASE_URL", url), ("CONNECT_MASTER_KEY", MASTER_KEY)];
        Self::with(settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    /// One with these settings and no others.
    pub fn with(settings: Vec<(String, String)>) -> Self {
        Self { settings }
    }

    /// Runs a command.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of("connectctl", arguments, &self.settings).await
    }

    /// Runs a command that must succeed, with `--json`, and gives what it printed.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(ran.code, Some(0), "connectctl {arguments:?}: {}", ran.errors);
        ran.json()
    }

    /// [`json`](Self::json) of a command that prints an array.
    pub async fn list(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.json(arguments).await;
        let items = printed.as_array().cloned();
        items.unwrap_or_else(|| panic!("connectctl {arguments:?} printed no array: {printed}"))
    }
}
