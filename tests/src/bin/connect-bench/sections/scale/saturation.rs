//! The resource that saturates under a load: processors, waits in Postgres, or the queue, sampled several times a second.

use crate::cpu::{CpuMeter, CpuTime};
use crate::process::MachineTime;
use ::tests::World;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Interval of the samples.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Idle share of the processors below which they are saturated.
const BUSY: f64 = 0.10;
/// Share of all processors that this run must use to be called the reason for that.
const OWN: f64 = 0.70;
/// Mean number of connections with the same wait from which that wait limits the load.
const WAITING: f64 = 1.0;

/// Samples taken during a load.
#[derive(Clone, Debug)]
pub(super) struct Saturation {
    /// Idle share of the machine's processors.
    pub(super) idle: f64,
    /// Share of the machine's processors that this run used, the load generator included.
    pub(super) own: f64,
    /// Programs and servers, and how many processors each used.
    pub(super) programs: Vec<(&'static str, f64)>,
    /// The most frequent wait of Postgres, and the mean number of connections in it.
    pub(super) wait: Option<(String, f64)>,
    /// Maximum number of messages that waited in the queue of events.
    pub(super) depth: u32,
}

/// Counters at the start of the load.
struct StartCounters {
    at: Instant,
    machine: MachineTime,
    cpu: CpuTime,
}

/// Awaits `work` and samples the machine and Postgres meanwhile.
pub(super) async fn watch<T>(
    world: &World,
    database: &Client,
    meter: &CpuMeter,
    work: impl Future<Output = T>,
) -> (T, Saturation) {
    let begin = StartCounters { at: Instant::now(), machine: MachineTime::read(), cpu: meter.read() };
    let (mut looks, mut waits, mut depth) = (0, BTreeMap::new(), 0);
    let looking = async {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            count_waits(database, &mut waits).await;
            depth = depth.max(world.queues.depth("events").await);
            looks += 1;
        }
    };
    let done = tokio::select! {
        done = work => done,
        () = looking => unreachable!("it samples until the work is done"),
    };
    let most = waits.into_iter().max_by_key(|(_, count)| *count);
    let wait = most.map(|(wait, count)| (wait, f64::from(count) / f64::from(looks.max(1))));
    (done, begin.end(meter, wait, depth))
}

/// Counts the connections that wait inside of a statement, by what they wait for.
async fn count_waits(database: &Client, waits: &mut BTreeMap<String, u32>) {
    let statement = "SELECT wait_event_type || ': ' || wait_event, count(*)::int4 FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
            AND pid <> pg_backend_pid() AND state = 'active' AND wait_event IS NOT NULL
        GROUP BY 1";
    let rows = database.query(statement, &[]).await;
    for row in rows.unwrap_or_else(|error| panic!("waits of Postgres cannot be read: {error:?}")) {
        let count: i32 = row.get(1);
        *waits.entry(row.get(0)).or_default() += count.unsigned_abs();
    }
}

impl StartCounters {
    fn end(&self, meter: &CpuMeter, wait: Option<(String, f64)>, depth: u32) -> Saturation {
        let machine = MachineTime::read();
        let total = (machine.total - self.machine.total).max(f64::EPSILON);
        let used = meter.read().since(&self.cpu);
        let seconds = self.at.elapsed().as_secs_f64();
        let mut programs: Vec<(&str, f64)> =
            used.programs().iter().map(|(label, spent)| (*label, spent / seconds)).collect();
        programs.push(("load generator", used.bench() / seconds));
        let own = used.programs().iter().map(|(_, spent)| spent).sum::<f64>() + used.bench();
        let idle = (machine.idle - self.machine.idle) / total;
        Saturation { idle, own: own / total, programs, wait, depth }
    }
}

impl Saturation {
    /// The resource that limits the load, as text.
    pub(super) fn bound(&self) -> String {
        if self.idle < BUSY && self.own >= OWN {
            "processors".to_owned()
        } else if self.idle < BUSY {
            "processors, which other processes of this machine also used".to_owned()
        } else {
            match &self.wait {
                Some((wait, count)) if *count >= WAITING => format!("Postgres, {wait}"),
                _ => "nothing: 8 callers that wait for each response".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Saturation;

    #[test]
    fn names_what_saturates() {
        let seen = |idle, own, waiting| {
            let wait = Some(("IO: WALSync".to_owned(), waiting));
            Saturation { idle, own, programs: Vec::new(), wait, depth: 0 }.bound()
        };
        assert_eq!(seen(0.02, 0.9, 3.0), "processors");
        assert!(seen(0.02, 0.3, 3.0).contains("other processes"));
        assert_eq!(seen(0.4, 0.5, 3.0), "Postgres, IO: WALSync");
        assert!(seen(0.4, 0.5, 0.2).starts_with("nothing"));
    }
}
