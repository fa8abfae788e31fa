//! The torture program: faults of programs, connections, servers and disks under a mixed load, and a comparison of the
//! result with everything that was confirmed.
//!
//! The plan of faults and the load depend on the seed only: each caller derives the contents of its n-th operation from the
//! seed, its number and n. How far each caller gets, and what a fault meets, depends on the machine.

mod advisors;
mod caller;
mod events;
mod faults;
mod feed;
mod oracle;
mod plan;
mod records;
mod rest;
mod stack;
mod verify;
mod webhooks;

use caller::Caller;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use oracle::{Oracle, Run};
use plan::{Plan, ServerKind};
use stack::Stack;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::{interval, sleep, timeout};
use webhooks::{FailingReceiver, Subscribed};

/// Callers of the events route and of the records API, and advisors.
const CALLERS: (u64, u64, u64) = (10, 3, 2);
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long callers may retry after the faults have ended.
const RETRIES: Duration = Duration::from_secs(90);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Numbers of the run, a line each.
    pub totals: Vec<String>,
    /// Confirmed events, records writes and advisor actions.
    pub confirmed: u64,
    /// Faults that happened.
    pub faults: usize,
    /// What must not have happened; empty after a good run.
    pub violations: Vec<String>,
}

/// Runs faults and load of a seed for `length`, and checks the result. Prints its progress; the logs of the programs are appended
/// to files in `logs`.
pub async fn run(seed: u64, length: Duration, logs: &Path) -> Report {
    let plan = Plan::of(seed, length);
    println!("seed {seed}: {} faults are planned in {} s", plan.faults(), length.as_secs());
    let stack = Stack::start(logs).await;
    if [ServerKind::Postgres, ServerKind::Broker].iter().any(|kind| stack.server(*kind).disk().is_none()) {
        println!("no privilege to mount file systems: full disks are left out");
    }
    let (receiver, address) = FailingReceiver::start(seed).await;
    subscribe(&stack, &receiver, &format!("http://{address}")).await;
    let run = Run::new(seed);
    let began = Instant::now();
    let ending = async {
        sleep(length).await;
        run.end_load();
    };
    let healed = async {
        tokio::join!(faults::run(&stack, &plan, &run), ending);
        rest::heal(&stack).await;
        // Operations that have begun are retried until they are confirmed.
        sleep(RETRIES).await;
        run.close();
    };
    let load = timeout(length + RETRIES * 4, load(&stack, &run));
    tokio::select! {
        ended = load => if ended.is_err() { run.oracle().add_violation("the load does not end".to_owned()) },
        () = progress(&run, began) => {}
        // Runs beside the load, whose end alone ends the selection.
        () = async { healed.await; std::future::pending().await } => {}
    }
    rest::heal(&stack).await;
    rest::until_at_rest(&stack, &run, &receiver).await;
    rest::check_numbers(&stack, &run).await;
    feed::read_to_the_end(&stack, &run).await;
    stack.save_logs().await;
    let mut oracle = std::mem::take(&mut *run.oracle());
    Box::pin(verify::check(&stack, &mut oracle, &receiver)).await;
    report(&stack, &run, &oracle, &receiver, began)
}

/// All callers, until the load and the retries have ended.
async fn load(stack: &Stack, run: &Run) {
    let (events, records, advisors) = CALLERS;
    let callers = (0..events + records + advisors).map(|number| -> BoxFuture<'_, ()> {
        let caller = Caller::new(stack, run, number);
        if number < events {
            events::run(caller).boxed()
        } else if number < events + records {
            records::run(caller).boxed()
        } else {
            async move { advisors::run(&caller).await }.boxed()
        }
    });
    tokio::join!(join_all(callers), feed::run(stack, run));
}

async fn progress(run: &Run, began: Instant) {
    let mut every = interval(PROGRESS);
    loop {
        every.tick().await;
        println!("{:4} s: {}", began.elapsed().as_secs(), run.totals.line());
    }
}

/// For each tenant one subscription to everything, and one of its key, which gets no echo.
async fn subscribe(stack: &Stack, receiver: &FailingReceiver, url: &str) {
    for (tenant, key) in stack.keys.iter().enumerate() {
        for own in [false, true] {
            let path = format!("/{}/{}", key.tenant, if own { "own" } else { "all" });
            let url = format!("{url}{path}");
            let mut create = vec!["subscription", "create", "--tenant", &key.tenant, "--url", &url];
            if own {
                create.extend(["--key", &key.prefix]);
            }
            let made = stack.connectctl.json(&create).await;
            let secret = crate::text(&made["secret"]).to_owned();
            receiver.subscribe(Subscribed { tenant, path, key: own.then(|| key.prefix.clone()), secret });
        }
    }
}

fn report(stack: &Stack, run: &Run, oracle: &Oracle, receiver: &FailingReceiver, began: Instant) -> Report {
    let (violations, more) = oracle.violations();
    let mut violations = violations.to_vec();
    if more > 0 {
        violations.push(format!("and {more} more"));
    }
    violations.extend(stack.ended.lock().iter().cloned());
    let mut totals = run.recovery_lines();
    let requests = receiver.requests.load(Ordering::Relaxed);
    totals.push(format!("{}; {requests} webhook requests", run.totals.line()));
    totals.push(format!("{} s in all", began.elapsed().as_secs()));
    let confirmed = [&run.totals.events, &run.totals.writes, &run.totals.actions];
    let confirmed = confirmed.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
    Report { totals, confirmed, faults: run.faults(), violations }
}
