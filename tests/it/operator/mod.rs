//! What an operator sees and sets (the operator's contract).

mod connections;
mod dead_letters;
mod logs;
mod master_key;
mod metrics;
mod ports;
mod privileges;
mod readiness;
mod readme;
mod settings;
mod steps;

/// The programs that run as services.
const SERVICES: [&str; 3] = ["connect-ingest", "connect-worker", "connect-dispatcher"];

/// The variables that a `--help` lists, in its order.
fn variables(help: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, rest) = line.strip_prefix("  ")?.split_once(' ')?;
        let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        (is_variable && rest.starts_with('(')).then(|| name.to_owned())
    };
    help.lines().filter_map(name).collect()
}
