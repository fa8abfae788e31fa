//! `connectctl migrate`, and `connectctl roles`: what the programs may do in the database and in the broker.

use crate::context::Context;
use crate::output::{Output, show};
use admin::migrations::{self, MigrationReport};
use admin::roles::{self, BrokerPermissions, Grant, RolePrefix};
use clap::Args;
use common::sealed::MasterKey;
use common::settings::{BrokerSettings, DatabaseSettings, Environment, SealingSettings};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  connectctl migrate\n  connectctl migrate --roles\n  connectctl migrate --json")]
pub(crate) struct MigrateArgs {
    /// Also create a database role for each program, and give it exactly the privileges that the program needs
    #[arg(long)]
    pub(crate) roles: bool,
    #[command(flatten)]
    pub(crate) prefix: RolePrefixArg,
}

#[derive(Debug, Args)]
#[command(after_help = ROLES_HELP)]
pub(crate) struct RolesArgs {
    #[command(flatten)]
    pub(crate) prefix: RolePrefixArg,
    /// Virtual host of the queues in RabbitMQ
    #[arg(long, value_name = "NAME", default_value = "/")]
    pub(crate) vhost: String,
}

const ROLES_HELP: &str = "\
Prints the commands that give the users of RabbitMQ their permissions on the queues of CONNECT_QUEUE_PREFIX. With \
--json it prints them and the privileges of the database roles, which `connectctl migrate --roles` grants. It connects \
to no server.

Examples:
  connectctl roles
  connectctl roles --role-prefix connect_eu --vhost /connect --json";

/// The argument that names roles and users.
#[derive(Debug, Args)]
pub(crate) struct RolePrefixArg {
    /// First part of the names of roles and users: PREFIX_ingest, PREFIX_worker, ..
    #[arg(long, value_name = "PREFIX", default_value = admin::roles::DEFAULT_PREFIX)]
    pub(crate) role_prefix: String,
}

pub(crate) async fn run(args: MigrateArgs, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    output.note("Applying schema migrations; waiting for another run, if there is one ...");
    let prefix = args.roles.then(|| RolePrefix::parse(&args.prefix.role_prefix)).transpose()?;
    let Context { database, actor, .. } = &mut *context;
    let mut report = migrations::apply(database, actor, prefix.as_ref(), &mut output.observer()).await?;
    if prefix.is_some() {
        output.note("The programs' roles have their privileges; give each program a user of its role.");
    }
    if context.optional::<DatabaseSettings, String>("DATABASE_DIRECT_URL")?.is_some() {
        let programs = context.settings::<DatabaseSettings>()?.url.config();
        let role = programs.get_user();
        output.note("Writing the settings of the programs' sessions to their role, for the connection pooler ...");
        migrations::set_role_settings(&mut context.database, &context.actor, role).await?;
        report.role = Some(role.unwrap_or("current").to_owned());
    }
    // Verifies the master key if it is given: a migration does not need it.
    let given: Option<MasterKey> = context.optional::<SealingSettings, _>("CONNECT_MASTER_KEY")?;
    if given.is_some() {
        admin::secrets::verify_master_keys(&context.database, &context.master_keys()?).await?;
    }
    output.note(if report.applied.is_empty() { "No migration was pending." } else { "Done." });
    output.print_one(&report)
}

show!(MigrationReport, report: "Applied" report.applied);

/// What the command prints with `--json`.
#[derive(Serialize)]
struct Report {
    database: Vec<Grant>,
    broker: Vec<BrokerPermissions>,
}

pub(crate) fn print_roles(args: &RolesArgs, output: Output) -> anyhow::Result<()> {
    let prefix = RolePrefix::parse(&args.prefix.role_prefix)?;
    let queue_prefix: String = Environment::from_process().get::<BrokerSettings, _>("CONNECT_QUEUE_PREFIX")?;
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
