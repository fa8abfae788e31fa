//! The command line and the secret.

use clap::Parser;
use common::sealed::Secret;
use common::settings::{Environment, Section, SettingError, Variable};
use common::variables;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Receives Connect's webhooks, verifies them and prints a line for each.
///
/// The subscription's secret comes from --secret-file or from CONNECT_RECEIVER_SECRET. With --follow it reads the webhooks of an API
/// key's subscription from Connect instead, so that it needs no URL that Connect can reach; CONNECT_URL, CONNECT_TENANT,
/// CONNECT_KEY and CONNECT_SECRET say where, and as whom. The key needs the scope webhooks:read.
#[derive(Debug, Parser)]
#[command(name = "connect-receiver", version)]
pub(crate) struct Arguments {
    /// Address and port to listen on.
    #[arg(default_value = "127.0.0.1:9200")]
    pub(crate) address: SocketAddr,
    /// File with the secret, or with the output of `connectctl subscription create --json`.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Read the webhooks from Connect, also those that it still has from before, and print them as they come.
    #[arg(long)]
    pub(crate) follow: bool,
    /// With --follow: begin after the webhook with this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "follow")]
    pub(crate) after: u64,
    /// With --follow: the subscription, if the key has several.
    #[arg(long, value_name = "ID", requires = "follow")]
    pub(crate) subscription: Option<String>,
    /// Also print the body of each webhook that verifies.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// The secret from the environment, because other users of the machine can read command lines.
struct SecretSetting(Option<Secret>);

impl Section for SecretSetting {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_RECEIVER_SECRET" => optional, "the subscription's secret, if --secret-file is not given";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        env.optional::<Self, _>("CONNECT_RECEIVER_SECRET").map(Self)
    }
}

impl Arguments {
    /// Reads the subscription's secret. The error names the file or setting that lacks it.
    pub(crate) fn secret(&self) -> Result<Secret, String> {
        if let Some(path) = &self.secret_file {
            return read_secret_file(path).map_err(|what| format!("{}: {what}", path.display()));
        }
        let SecretSetting(set) =
            SecretSetting::from_env(&Environment::from_process()).map_err(|error| error.to_string())?;
        set.ok_or_else(|| "no secret: pass --secret-file or set CONNECT_RECEIVER_SECRET".to_owned())
    }
}

fn read_secret_file(path: &Path) -> Result<Secret, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let secret = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(made)) => made.get("secret").and_then(Value::as_str).map(str::to_owned),
        Ok(_) | Err(_) => Some(text.trim().to_owned()),
    };
    secret.filter(|secret| !secret.is_empty()).map(Secret::new).ok_or_else(|| "holds no secret".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_in_file(text: &str) -> Result<String, String> {
        let path = std::env::temp_dir().join(format!("connect-receiver-{}.secret", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let arguments = ["connect-receiver", "--secret-file", path.to_str().unwrap()];
        let secret = Arguments::parse_from(arguments).secret();
        std::fs::remove_file(&path).unwrap();
        secret.map(|secret| secret.reveal().to_owned())
    }

    #[test]
    fn the_file_holds_the_secret_or_what_connectctl_printed() {
        assert_eq!(secret_in_file("s3cret\n"), Ok("s3cret".to_owned()));
        assert_eq!(secret_in_file("{\"id\":\"1\",\"secret\":\"s3cret\"}\n"), Ok("s3cret".to_owned()));
        // A secret that happens to be JSON.
        assert_eq!(secret_in_file("123456"), Ok("123456".to_owned()));
        for empty in ["", "\n", "{}", "{\"secret\":\"\"}"] {
            assert!(secret_in_file(empty).unwrap_err().ends_with(": holds no secret"), "{empty:?}");
        }
    }
}
