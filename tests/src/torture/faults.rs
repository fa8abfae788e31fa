//! Executing the plan of faults.

use super::oracle::Run;
use super::plan::{Fault, FaultKind, Plan, ServerKind};
use super::rest;
use super::stack::Stack;
use crate::dedicated_servers::StopMode;
use crate::proxy::Proxy;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Maximum time that a request may fail after a fault has ended, before this is reported as no recovery.
const RECOVERY: Duration = Duration::from_secs(45);
/// A slow server runs for the first part of each period.
const SLOW: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(135));
/// What is left of a full disk, in KiB. RabbitMQ blocks publishers while less than 50 MB are free.
const LEFT_KIB: (u64, u64) = (64, 30 * 1024);

/// Executes the lanes of the plan at the same time, until the load is over.
pub(super) async fn run(stack: &Stack, plan: &Plan, run: &Run) {
    let [programs, connections, servers] = &plan.lanes;
    // After a fault of a server it responds, so that the numbers can be read.
    let servers = async {
        for fault in servers.iter().take_while(|_| !run.load_ended()) {
            lane(stack, std::slice::from_ref(fault), run).await;
            rest::check_numbers(stack, run).await;
        }
    };
    tokio::join!(lane(stack, programs, run), lane(stack, connections, run), servers);
}

async fn lane(stack: &Stack, faults: &[Fault], run: &Run) {
    for fault in faults {
        tokio::select! {
            () = sleep(fault.after) => {}
            () = run.until_over() => return,
        }
        if !apply(stack, fault, run).await {
            continue;
        }
        let ended = Instant::now();
        let recovered = tokio::select! {
            recovered = timeout(RECOVERY, run.until_success_begun_after(ended)) => recovered.is_ok(),
            () = run.until_over() => false,
        };
        run.note_fault(fault, recovered.then(|| ended.elapsed()));
    }
}

/// Returns whether it happened.
async fn apply(stack: &Stack, fault: &Fault, run: &Run) -> bool {
    let lasts = fault.lasts;
    match fault.kind {
        FaultKind::KillProgram(slot) | FaultKind::RestartProgram(slot) => {
            stack.end_program(slot, matches!(fault.kind, FaultKind::KillProgram(_))).await;
            sleep(lasts).await;
            stack.start_program(slot).await;
        }
        FaultKind::PauseProgram(slot) => {
            stack.signal_program(slot, "STOP").await;
            sleep(lasts).await;
            stack.signal_program(slot, "CONT").await;
        }
        FaultKind::Cut(slot, server) => {
            hold(stack.slots[slot].proxies(server), Proxy::reset_connections, lasts).await;
        }
        FaultKind::Stall(slot, server) => {
            hold(stack.slots[slot].proxies(server), Proxy::stall, lasts).await;
        }
        FaultKind::StallReplies(slot, server) => {
            hold(stack.slots[slot].proxies(server), Proxy::stall_replies, lasts).await;
        }
        FaultKind::Reset(slot, server) => {
            stack.slots[slot].proxies(server).iter().for_each(Proxy::reset_connections_once);
        }
        FaultKind::KillServer(server) => restart(stack, server, StopMode::Immediate, lasts).await,
        FaultKind::RestartServer(server) => restart(stack, server, StopMode::Fast, lasts).await,
        FaultKind::PauseServer(server) => {
            stack.server(server).pause();
            sleep(lasts).await;
            stack.server(server).resume();
        }
        FaultKind::SlowServer(server) => {
            let until = Instant::now() + lasts;
            while Instant::now() < until {
                stack.server(server).pause();
                sleep(SLOW.1).await;
                stack.server(server).resume();
                sleep(SLOW.0).await;
            }
        }
        FaultKind::AbsentBroker => {
            stack.broker.stop(StopMode::Fast).await;
            sleep(lasts).await;
            rest::until_webhooks_are_sent(stack, run).await;
            stack.broker.start_again().await;
        }
        FaultKind::Promote => {
            let Some(old) = stack.promote().await else { return false };
            sleep(lasts).await;
            old.kill();
        }
        FaultKind::FullDisk(server) => {
            let server_of = stack.server(server);
            let Some(disk) = server_of.disk() else { return false };
            disk.fill(if server == ServerKind::Postgres { LEFT_KIB.0 } else { LEFT_KIB.1 });
            sleep(lasts).await;
            disk.free();
            // A server that could not write its log has ended, and is started by its operator.
            server_of.start_again().await;
        }
    }
    true
}

async fn restart(stack: &Stack, server: ServerKind, mode: StopMode, lasts: Duration) {
    stack.server(server).stop(mode).await;
    sleep(lasts).await;
    stack.server(server).start_again().await;
}

/// Injects a fault of connections for a while.
async fn hold(proxies: &[Proxy], fault: fn(&Proxy), lasts: Duration) {
    proxies.iter().for_each(fault);
    sleep(lasts).await;
    proxies.iter().for_each(Proxy::restore);
}
