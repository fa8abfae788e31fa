//! HAProxy with the configuration of `ops/haproxy`.

use crate::eventually::{MAX_WAIT, eventually};
use crate::http::HttpClient;
use crate::{binaries, services};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A load balancer of a single test. It is killed with its value.
#[derive(Debug)]
pub struct LoadBalancer {
    child: Child,
    directory: PathBuf,
    http: HttpClient,
    operator: HttpClient,
}

impl LoadBalancer {
    /// Starts it with these lines as its map. `servers` are texts of the file, and what stands there instead.
    pub async fn start(servers: &[(&str, String)], map: &str) -> Self {
        let ports = services::run_script(&["free-port", "2"]);
        let mut addresses = ports.lines().map(|port| format!("127.0.0.1:{port}"));
        let mut address = || addresses.next().expect("a port");
        let (http, operator) = (address(), address());
        let name = format!("connect-balancer-{}-{}", std::process::id(), http.replace(':', "-"));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a new directory");
        let own = [
            (":443 ssl crt /etc/haproxy/certs/", http.clone()),
            ("127.0.0.1:8404", operator.clone()),
            ("maxconn 20000", "maxconn 100".to_owned()),
            ("    user haproxy\n    group haproxy\n", String::new()),
            ("/run/haproxy", directory.display().to_string()),
            ("/etc/haproxy", directory.display().to_string()),
        ];
        let mut text = fs::read_to_string(binaries::root().join("ops/haproxy/haproxy.cfg")).expect("a file");
        for (of_file, here) in own.iter().chain(servers) {
            assert!(text.contains(of_file), "{of_file}");
            text = text.replace(of_file, here);
        }
        let file = directory.join("haproxy.cfg");
        fs::write(&file, text).expect("a file");
        fs::write(directory.join("tenants.map"), map).expect("a file");
        let mut command = Command::new("/usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("HAProxy; see ops/local/services.sh install checks");
        let [http, operator] = [http, operator].map(|address| address.parse::<SocketAddr>().expect("an address"));
        let (http, operator) = (HttpClient::new(http), HttpClient::for_other_server(operator));
        let balancer = Self { child, directory, http, operator };
        balancer.until_shown("haproxy_server_status").await;
        balancer
    }

    /// A client of the API behind it.
    pub const fn http(&self) -> &HttpClient {
        &self.http
    }

    /// Waits until its metrics contain a text.
    pub async fn until_shown(&self, text: &str) {
        eventually(&format!("HAProxy shows {text}"), MAX_WAIT, async || {
            let shown = self.operator.get("/metrics").await.map_err(|error| error.0)?;
            let shown = String::from_utf8_lossy(&shown.body).into_owned();
            shown.contains(text).then_some(()).ok_or(shown)
        })
        .await;
    }

    /// Adds a line to the map while it runs, as `docs/scale.md` says.
    pub async fn add_to_map(&self, tenant: &str, cell: &str) {
        let mut socket = UnixStream::connect(self.directory.join("admin.sock")).await.expect("the socket");
        let map = self.directory.join("tenants.map");
        let command = format!("add map {} {tenant} {cell}\n", map.display());
        socket.write_all(command.as_bytes()).await.expect("it reads");
        let mut printed = String::new();
        socket.read_to_string(&mut printed).await.expect("it replies");
        assert_eq!(printed.trim(), "");
    }
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}
