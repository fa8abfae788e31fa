//! What an operator sees and sets (docs/operators.md).

mod connections;
mod dead_letters;
mod doctor;
mod kubernetes;
mod logs;
mod master_key;
mod metrics;
mod pooler;
mod ports;
mod readiness;
mod roles;
mod schema_version;
mod settings;
mod settings_table;

/// The programs that run as services.
const SERVICES: [&str; 4] = ["connect-ingest", "connect-worker", "connect-dispatcher", "connect-console"];

/// The variables that a `--help` lists, in its order.
fn variables(help: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, rest) = line.strip_prefix("  ")?.split_once(' ')?;
        let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        (is_variable && rest.starts_with('(')).then(|| name.to_owned())
    };
    help.lines().filter_map(name).collect()
}
