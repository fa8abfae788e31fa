//! Who used the processor: seconds by program name, over the whole machine.

use std::collections::BTreeMap;

/// Programs whose time is told apart.
const PROGRAMS: [&str; 6] =
    ["connect-ingest", "connect-worker", "connect-dispatcher", "postgres", "beam.smp", "connect-bench"];

/// Seconds used until now, by program.
pub(crate) fn seconds() -> BTreeMap<&'static str, f64> {
    let mut used = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Not `self`, which would count this program twice.
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in parentheses, cut to 15 characters; from the 12th field after it come user and system
        // time, its own and its ended children's: a server's connections may have ended meanwhile.
        let Some((head, fields)) = stat.rsplit_once(") ") else { continue };
        let Some((_, name)) = head.split_once('(') else { continue };
        let Some(program) = PROGRAMS.into_iter().find(|program| program.starts_with(name) && name.len() >= 8)
        else {
            continue;
        };
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: u64 = fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
        *used.entry(program).or_insert(0.0) += ticks as f64 / 100.0;
    }
    used
}

/// What was used between two readings, in seconds for 1,000 of `count`.
pub(crate) fn per_thousand(
    before: &BTreeMap<&'static str, f64>,
    after: &BTreeMap<&'static str, f64>,
    count: f64,
) -> String {
    let used = |program: &&'static str| {
        let used = after.get(program).unwrap_or(&0.0) - before.get(program).unwrap_or(&0.0);
        format!("{program} {:.3} s", used / count * 1_000.0)
    };
    PROGRAMS.iter().map(used).collect::<Vec<_>>().join(", ")
}
