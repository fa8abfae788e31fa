//! A PgBouncer between the programs and Postgres.

use super::Postgres;
use crate::binaries::variable;
use crate::eventually::{MAX_WAIT, eventually};
use crate::roles::login;
use crate::services;
use crate::url::with_address;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::net::TcpStream;

/// A pooler of a single test, for all databases of a server. It is killed with its value.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
}

impl Pooler {
    /// Starts a pooler for the server, with these additional lines of configuration.
    pub async fn start(postgres: &Postgres, lines: &[&str]) -> Self {
        let port: u16 = services::run_script(&["free-port"]).trim().parse().expect("a port");
        let server = crate::url::address(postgres.url(), 5432);
        let (host, server_port) = server.rsplit_once(':').expect("a port");
        let directory = std::env::temp_dir().join(format!("connect-pooler-{}-{port}", std::process::id()));
        fs::create_dir(&directory).expect("a new directory");
        let (users, settings) = (directory.join("users.txt"), directory.join("pgbouncer.ini"));
        let names = ["ingest", "worker", "dispatcher"].map(login);
        let names = names.iter().map(String::as_str).chain(["connect"]);
        let known: String = names.map(|name| format!("\"{name}\" \"\"\n")).collect();
        fs::write(&users, known).expect("a file");
        let text = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\n{}\n",
            users.display(),
            lines.join("\n")
        );
        fs::write(&settings, text).expect("a file");
        let program = program();
        let mut command = if is_root() {
            // It refuses to run as root, as Postgres does.
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        let child = command.arg(&settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("PgBouncer; see ops/local/services.sh install checks");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let pooler = Self { child, directory, address };
        eventually("the pooler listens", MAX_WAIT, async || {
            TcpStream::connect(address).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        pooler
    }

    /// Whether it keeps track of prepared statements, so that its clients can share sessions. Version 1.21 is the first one.
    pub fn knows_prepared_statements() -> bool {
        let printed = Command::new(program()).arg("--version").output().expect("PgBouncer").stdout;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let version = printed.lines().find_map(|line| line.strip_prefix("PgBouncer 1.")).unwrap_or("");
        version.split('.').next().and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 21)
    }

    /// The same database through the pooler.
    pub fn url(&self, of: &str) -> String {
        with_address(of, self.address)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Debian's, unless `CONNECT_PGBOUNCER` names another one.
fn program() -> PathBuf {
    variable("CONNECT_PGBOUNCER").map_or_else(|| "/usr/sbin/pgbouncer".into(), PathBuf::from)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
