//! Dedicated servers that offer TLS.

use super::{Broker, Postgres, Server};
use crate::receiver::{Authority, Certificate};
use crate::services;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use tokio_postgres::NoTls;

impl Postgres {
    /// Turns TLS on, with this certificate. Connections without TLS stay possible. With `clients`, those with TLS need a
    /// certificate of that authority. New connections see the change soon after.
    pub async fn encrypt(&self, certificate: &Certificate, clients: Option<&Authority>) {
        self.write("server.crt", &certificate.certificate);
        self.write("server.key", &certificate.key);
        let mut encrypted = "hostssl all all 127.0.0.1/32 trust".to_owned();
        if let Some(clients) = clients {
            self.write("clients.crt", &fs::read_to_string(clients.file()).expect("the authority's file"));
            encrypted.push_str(" clientcert=verify-ca");
        }
        self.write("pg_hba.conf", &format!("hostnossl all all 127.0.0.1/32 trust\n{encrypted}\n"));
        let authorities = if clients.is_some() { "clients.crt" } else { "" };
        self.execute(&format!("ALTER SYSTEM SET ssl_ca_file = '{authorities}'")).await;
        self.configure("SET ssl = on").await;
    }

    /// Has connections with TLS check a password (SCRAM).
    pub async fn require_password(&self) {
        let lines = "hostnossl all all 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        self.write("pg_hba.conf", lines);
        self.execute("SELECT pg_reload_conf()").await;
    }

    /// Host name, port and database of its URL under another name of the host.
    pub fn url_of_host(&self, host: &str) -> String {
        self.url().replace("127.0.0.1", host)
    }

    /// Executes a statement on a connection without TLS.
    pub async fn execute(&self, statement: &str) {
        let (client, connection) = tokio_postgres::connect(self.url(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }

    /// Changes a setting of the server: `SET name = value` or `RESET name`.
    pub async fn configure(&self, change: &str) {
        self.execute(&format!("ALTER SYSTEM {change}")).await;
        self.execute("SELECT pg_reload_conf()").await;
    }

    /// Writes a file of the data directory, readable by the server only.
    fn write(&self, name: &str, text: &str) {
        let data = self.0.directory.join("postgres");
        let owner = fs::metadata(&data).expect("the data directory");
        let path = data.join(name);
        fs::write(&path, text).expect("a file in the data directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions of a file");
        chown(&path, Some(owner.uid()), Some(owner.gid())).expect("the server's user");
    }
}

impl Broker {
    /// Starts a broker that listens with TLS as well. With `clients`, it then requires a certificate of that authority.
    /// Returns the port with TLS.
    pub async fn start_encrypted(certificate: &Certificate, clients: Option<&Authority>) -> (Self, u16) {
        let mut server = Server::prepare("rabbitmq");
        let settings = server.directory.join("rabbitmq/conf.d");
        fs::create_dir_all(&settings).expect("a directory for settings");
        let [public, private, authorities] = server.write_tls_files(certificate, clients);
        let port = services::run_script(&["free-port"]).trim().parse().expect("a port");
        let mut lines = vec![
            format!("listeners.ssl.local = 127.0.0.1:{port}"),
            format!("ssl_options.certfile = {public}"),
            format!("ssl_options.keyfile = {private}"),
        ];
        if clients.is_some() {
            lines.push(format!("ssl_options.cacertfile = {authorities}"));
            lines.push("ssl_options.verify = verify_peer".to_owned());
            lines.push("ssl_options.fail_if_no_peer_cert = true".to_owned());
        }
        fs::write(settings.join("50-tls.conf"), lines.join("\n") + "\n").expect("a file of settings");
        server.url = services::printed_value(&server.run("start").await, "AMQP_URL");
        (Self(server), port)
    }

    /// Replaces the certificate of a broker that was started encrypted, and the authority of its clients. New connections see
    /// the change.
    pub async fn renew(&self, certificate: &Certificate, clients: Option<&Authority>) {
        self.write_tls_files(certificate, clients);
        // The broker would use the files' previous content for up to two minutes.
        self.evaluate("ssl:clear_pem_cache().").await.expect("the broker responds");
    }
}

impl Server {
    /// Writes the files of the broker's certificate, of its key, and of the authority of its clients; returns their paths.
    fn write_tls_files(&self, certificate: &Certificate, clients: Option<&Authority>) -> [String; 3] {
        let clients = clients.map(|clients| fs::read_to_string(clients.file()).expect("the authority's file"));
        let files = [
            ("server.crt", &certificate.certificate),
            ("server.key", &certificate.key),
            ("clients.crt", &clients.unwrap_or_default()),
        ];
        files.map(|(name, text)| {
            let path = self.directory.join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        })
    }
}
