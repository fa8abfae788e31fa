//! Arguments of `connectctl migrate` and `connectctl roles`.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  connectctl migrate\n  connectctl migrate --roles\n  connectctl migrate --json"
)]
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
Prints the commands that give the users of RabbitMQ their permissions on the queues of CONNECT_QUEUE_PREFIX. With
--json it prints them and the privileges of the database roles, which `connectctl migrate --roles` grants. It connects
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
