//! RabbitMQ's management interface on a dedicated broker.

use super::{Broker, Server};
use crate::receiver::Certificate;
use crate::services;
use std::fs;

impl Broker {
    /// Starts a broker with the management interface, with TLS if there is a certificate. Returns its port on 127.0.0.1.
    pub async fn start_with_management(certificate: Option<&Certificate>) -> (Self, u16) {
        let mut server = Server::prepare("rabbitmq");
        let port = server.enable_management(certificate);
        server.url = services::printed_value(&server.run("start").await, "AMQP_URL");
        (Self(server), port)
    }
}

impl Server {
    /// Writes the settings with which the broker will start, and chooses the port.
    pub(super) fn enable_management(&self, certificate: Option<&Certificate>) -> u16 {
        let settings = self.directory.join("rabbitmq/conf.d");
        fs::create_dir_all(&settings).expect("a directory for settings");
        let write = |name: &str, text: &str| {
            let path = self.directory.join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        write("rabbitmq.plugins", "rabbitmq_management\n");
        let port = services::run_script(&["free-port"]).trim().parse().expect("a port");
        let kind = if certificate.is_some() { "ssl" } else { "tcp" };
        let mut lines =
            vec![format!("management.{kind}.ip = 127.0.0.1"), format!("management.{kind}.port = {port}")];
        if let Some(Certificate { certificate, key }) = certificate {
            lines.push(format!("management.ssl.certfile = {}", write("management.crt", certificate)));
            lines.push(format!("management.ssl.keyfile = {}", write("management.key", key)));
        }
        fs::write(settings.join("50-management.conf"), lines.join("\n") + "\n").expect("a file of settings");
        port
    }
}
