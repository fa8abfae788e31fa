//! The roles and users of the programs: each program that a test starts has only the privileges that it needs.
//!
//! `connectctl migrate --roles` creates the database roles `connect_test_<program>`, and the tests a user of each. The users of
//! RabbitMQ are in `ops/local/services/definitions.json`; `tests/it/operator/roles` compares them with `connectctl roles`.

use crate::database::execute_admin;
use crate::services;
use crate::url::{user, with_user};

/// First part of the names of the tests' roles and users.
pub const ROLE_PREFIX: &str = "connect_test";

/// Users that own the schema or administrate the broker: those of `services.sh`.
const ADMINISTRATORS: [&str; 2] = ["connect", "guest:guest"];

const PROGRAMS: [&str; 4] = ["ingest", "worker", "dispatcher", "console"];

/// The settings that name servers.
const SERVERS: [&str; 4] = ["DATABASE_URL", "DATABASE_READ_URL", "DATABASE_DIRECT_URL", "AMQP_URL"];

/// The name of the database user of a program, which is a member of its role.
pub fn login(program: &str) -> String {
    format!("{ROLE_PREFIX}_{program}_user")
}

/// Creates the roles and their users on a server, unless they exist.
pub(crate) async fn create_logins(server: &str) {
    for program in PROGRAMS {
        let (group, login) = (format!("{ROLE_PREFIX}_{program}"), login(program));
        execute_admin(server, &create_role(&format!("{group} NOLOGIN"))).await;
        let member = format!("{login} LOGIN PASSWORD '{ROLE_PREFIX}' IN ROLE {group}");
        execute_admin(server, &create_role(&member)).await;
    }
}

/// Roles belong to a whole server, so that another process may create the same one at the same time.
fn create_role(role: &str) -> String {
    format!("DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$")
}

/// The settings for the program `connect-<name>`: where they name the administrator of a server, they name the program's own user
/// instead. Other users stay.
pub(crate) fn of_program(program: &str, settings: &[(String, String)]) -> Vec<(String, String)> {
    let own = |(name, value): &(String, String)| {
        let value = if SERVERS.contains(&name.as_str()) { as_program(program, value) } else { value.clone() };
        (name.clone(), value)
    };
    settings.iter().map(own).collect()
}

/// A URL, or several, with the user of the program `connect-<name>` instead of the administrator.
pub fn as_program(program: &str, urls: &str) -> String {
    let Some(name) = program.strip_prefix("connect-").filter(|name| PROGRAMS.contains(name)) else {
        return urls.to_owned();
    };
    let own = if urls.starts_with("amqp") {
        // The console does the work of operators, and has their user.
        let name = if name == "console" { "operator" } else { name };
        format!("{ROLE_PREFIX}_{name}:{ROLE_PREFIX}_{name}")
    } else {
        format!("{}:{ROLE_PREFIX}", login(name))
    };
    // Of several URLs each has a user. A URL of several hosts has one.
    let separator = if urls.starts_with("amqp") { "," } else { "\0" };
    let urls = urls.split(separator).map(|url| match user(url) {
        Some(user) if is_administrator(user) => with_user(url, &own),
        _ => url.to_owned(),
    });
    urls.collect::<Vec<_>>().join(separator)
}

fn is_administrator(name: &str) -> bool {
    let is_shared = || {
        let shared = services::shared_servers();
        [&shared.database_url, &shared.amqp_url].into_iter().any(|url| user(url) == Some(name))
    };
    ADMINISTRATORS.contains(&name) || is_shared()
}
