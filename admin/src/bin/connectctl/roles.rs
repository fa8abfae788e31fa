//! `connectctl roles`: what the programs may do in the database and in the broker.

use crate::arguments::roles::RolesArgs;
use crate::output::Output;
use admin::roles::{self, BrokerPermissions, Grant, RolePrefix};
use common::settings::{BrokerSettings, Environment};
use serde::Serialize;

/// What the command prints with `--json`.
#[derive(Serialize)]
struct Report {
    database: Vec<Grant>,
    broker: Vec<BrokerPermissions>,
}

pub(crate) fn run(args: &RolesArgs, output: Output) -> anyhow::Result<()> {
    let prefix = RolePrefix::parse(&args.prefix.role_prefix)?;
    let queue_prefix: String =
        Environment::from_process().get::<BrokerSettings, _>("CONNECT_QUEUE_PREFIX")?;
    let broker = roles::broker_permissions(prefix.as_str(), &queue_prefix);
    if output.is_json() {
        return output.print_json(&Report { database: roles::grants(&prefix), broker });
    }
    let lines = broker.iter().map(|permissions| command(permissions, &args.vhost));
    output.print_text(&lines.collect::<Vec<_>>().join("\n"))
}

/// A command for a shell.
fn command(permissions: &BrokerPermissions, vhost: &str) -> String {
    let BrokerPermissions { user, configure, write, read } = permissions;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let [vhost, configure, write, read] = [vhost, configure, write, read].map(quoted);
    format!("rabbitmqctl set_permissions -p {vhost} {user} {configure} {write} {read}")
}
