//! The header of the output: the machine, the servers, and the composition of the traffic.

use crate::options::Options;
use crate::people;
use crate::traffic::Traffic;
use std::fs;
use tests::TestDatabase;

pub(crate) async fn print(options: &Options) {
    let Options { rounds, seconds, .. } = options;
    println!("Connect benchmark: release build; load generator, programs and servers share one machine");
    println!("machine    {}", machine());
    println!("PostgreSQL {}", postgres().await);
    println!("rounds     {rounds} of {seconds} s for each figure; medians; load and floor alternate");
    println!("pool       {}", people::COMPOSITION);
    for (name, traffic) in
        [("identified", Traffic::Identified), ("mix", Traffic::Mix), ("enquiries", Traffic::Enquiries)]
    {
        println!("{name:<10} {}; {} bytes an event", traffic.composition(), traffic.event_bytes());
    }
}

/// The hardware, and how busy it is, in words.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib: f64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let gib = kib / 1_048_576.0;
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    let sha = if flags.split(' ').any(|flag| flag == "sha_ni") { "with" } else { "without" };
    format!(
        "{cores} cores of {model} {sha} SHA instructions, {gib:.0} GiB of memory; load average before the run {load}"
    )
}

/// The first value of a field in a file of lines `name: value`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The version of Postgres and the settings that durability and memory depend on.
pub(crate) async fn postgres() -> String {
    let database = TestDatabase::new().await;
    let settings = database
        .rows(
            "SELECT name, current_setting(name) AS value FROM pg_settings WHERE name IN \
               ('server_version', 'shared_buffers', 'fsync', 'synchronous_commit') ORDER BY name DESC",
            &[],
        )
        .await;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pairs = settings.iter().map(|row| format!("{} {}", text(&row["name"]), text(&row["value"])));
    pairs.collect::<Vec<_>>().join(", ")
}
