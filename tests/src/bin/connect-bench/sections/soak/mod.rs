//! Resident sizes of the programs and servers under a steady mixed load, and whether they grow. The load is far below
//! what the machine reaches, and has fixed rates, so that it is the same on a faster machine.

mod load;

use crate::options::Options;
use crate::prepare::{analyze_tables, fill_database, print_warnings};
use crate::process::{self, memory};
use ::tests::{MAX_WAIT, Program, Receiver, World};
use common::progress::Progress;
use load::{LoadCounts, SteadyLoad};
use std::time::Duration;
use tokio::time::timeout;

/// Parts of the run, with sizes read at the end of each.
const PARTS: u32 = 12;
/// Parts of the warm-up, in which caches, pools and allocators fill.
const WARM_UP: usize = 2;
/// Growth counts when it exceeds both a share of the size and a number of MiB.
const GROWTH: f64 = 0.05;
const GROWTH_MIB: f64 = 8.0;

/// A row of the table.
struct SoakRow {
    minutes: f64,
    counts: LoadCounts,
    /// MiB of each program, in the order of [`programs`], then of Postgres and RabbitMQ.
    sizes: Vec<f64>,
}

pub(crate) async fn run(options: &Options) {
    let minutes = options.minutes;
    println!("soak: {minutes} minutes of a steady load: {}", load::COMPOSITION);
    let world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/")).await;
    fill_database(&world, &world.key).await;
    analyze_tables(&world).await;
    let servers = ServerProcesses::find(&world);
    let part = Duration::from_secs_f64(minutes * 60.0 / f64::from(PARTS));
    let load = SteadyLoad::new(&world).await;
    let mut progress = Progress::begin("parts of the soak:", u64::from(PARTS));
    progress.with_bar_hidden(|| print_head(&world));
    let mut rows = Vec::new();
    for number in 1..=PARTS {
        progress.next(&format!("{:.0} s of load", part.as_secs_f64()));
        let running = timeout(part + MAX_WAIT * 6, load.run(part)).await;
        let mut counts = running.unwrap_or_else(|_| panic!("part {number} of the soak does not end"));
        counts.deliveries = receiver.count();
        // Recorded requests must not count as growth of this process.
        receiver.clear_received();
        let minutes = f64::from(number) * part.as_secs_f64() / 60.0;
        let row = SoakRow { minutes, counts, sizes: sizes(&world, &servers) };
        progress.with_bar_hidden(|| row.print());
        rows.push(row);
    }
    progress.end(u64::from(PARTS));
    print_growth(&world, &rows);
    print_warnings(&world);
}

/// The servers' processes, where they run on this machine.
struct ServerProcesses {
    postgres: Option<u32>,
    rabbitmq: Option<u32>,
}

impl ServerProcesses {
    fn find(world: &World) -> Self {
        let (postgres, rabbitmq) = process::servers(world.database.url(), world.queues.url());
        Self { postgres, rabbitmq }
    }

    /// Private memory of all of Postgres' processes: their shared buffers would count once for each.
    fn postgres_mib(&self) -> f64 {
        let Some(server) = self.postgres else { return f64::NAN };
        let own = process::all().into_iter().filter(|stat| stat.pid == server || stat.parent == server);
        own.filter_map(|stat| memory(stat.pid)).map(|memory| memory.private).sum()
    }

    fn rabbitmq_mib(&self) -> f64 {
        self.rabbitmq.and_then(memory).map_or(f64::NAN, |memory| memory.resident)
    }
}

/// The programs, in the order of the columns.
fn programs(world: &World) -> impl Iterator<Item = &Program> {
    world.ingests.iter().chain(&world.workers).chain(&world.dispatchers)
}

fn sizes(world: &World, servers: &ServerProcesses) -> Vec<f64> {
    let read = |program: &Program| {
        let memory =
            memory(program.id()).unwrap_or_else(|| panic!("{} does not run any more", program.name()));
        memory.resident
    };
    let of_servers = [servers.postgres_mib(), servers.rabbitmq_mib()];
    programs(world).map(read).chain(of_servers).collect()
}

fn print_head(world: &World) {
    println!(
        "counts are those of each part; sizes are resident MiB, of Postgres the private memory of its processes"
    );
    let mut head = format!(
        "{:>7} {:>8} {:>7} {:>7} {:>10} {:>8} {:>7}",
        "minutes", "events", "writes", "reads", "deliveries", "refused", "failed"
    );
    for name in programs(world).map(Program::name).chain(["postgres", "rabbitmq"]) {
        head.push_str(&format!(" {name:>18}"));
    }
    println!("{head}");
}

impl SoakRow {
    fn print(&self) {
        let LoadCounts { events, writes, reads, deliveries, refused, failed, .. } = &self.counts;
        let sizes: String = self.sizes.iter().map(|size| format!(" {size:>18.1}")).collect();
        println!(
            "{:>7.1} {events:>8} {writes:>7} {reads:>7} {deliveries:>10} {refused:>8} {failed:>7}{sizes}",
            self.minutes
        );
    }
}

fn print_growth(world: &World, rows: &[SoakRow]) {
    let (first, last) = (&rows[WARM_UP - 1], &rows[rows.len() - 1]);
    println!(
        "growth from minute {:.1} to minute {:.1}; target: at most {:.0} %, or {GROWTH_MIB} MiB",
        first.minutes,
        last.minutes,
        GROWTH * 100.0
    );
    for (position, program) in programs(world).enumerate() {
        let (before, after) = (first.sizes[position], last.sizes[position]);
        let verdict = if has_grown(before, after) { "grows" } else { "does not grow" };
        println!(
            "{:>20}: {before:.1} to {after:.1} MiB, {:+.1} MiB ({:+.1} %): {verdict}",
            program.name(),
            after - before,
            (after / before - 1.0) * 100.0
        );
    }
    if let Some(failure) = rows.iter().find_map(|row| row.counts.first_failure.as_deref()) {
        println!("the first request that failed: {failure}");
    }
}

/// Whether a size in MiB has grown by more than both bounds.
fn has_grown(before: f64, after: f64) -> bool {
    after - before > GROWTH_MIB && after > before * (1.0 + GROWTH)
}

#[cfg(test)]
mod tests {
    use super::has_grown;

    #[test]
    fn growth_exceeds_both_bounds() {
        assert!(has_grown(100.0, 109.0));
        assert!(!has_grown(100.0, 107.9));
        assert!(!has_grown(1_000.0, 1_049.0));
        assert!(!has_grown(100.0, 50.0));
    }
}
