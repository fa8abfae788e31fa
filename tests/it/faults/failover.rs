//! A standby of Postgres is promoted under load, and the old primary keeps running, read-only.

use super::with_default_timeouts;
use crate::burst;
use crate::console::Visitor;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::dedicated_servers::{Postgres, StopMode};
use tests::{MAX_WAIT, Program, Receiver, World, event, eventually, until_equal};

/// Commits wait until a standby has them, so that a promotion loses none of them.
const SYNCHRONOUS: &str = "SET synchronous_standby_names = '*'";
/// What a cluster manager does to the old primary that it can still reach. New transactions cannot write.
const READ_ONLY: &str = "SET default_transaction_read_only = on";
/// Transactions that wait for the standby are not confirmed. To cancel their wait would confirm them.
const END_UNCONFIRMED: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// Programs that reach both servers move within two seconds, or later on a busy machine.
const MOVED: Duration = Duration::from_secs(15);

/// More pages at once than the console has connections.
const CONSOLE_PAGES: usize = 8;

/// The URL of the database of `world` on both servers.
fn both(world: &World, standby: &Postgres) -> String {
    let (_, port) = standby.url().rsplit_once(':').expect("a port");
    let (port, _) = port.split_once('/').expect("a database");
    let (place, database) = world.database.url().rsplit_once('/').expect("a database");
    format!("{place},127.0.0.1:{port}/{database}")
}

/// All programs and a receiver on a primary and its synchronous standby.
async fn start(primary: &Postgres, standby: &Postgres) -> (World, Receiver) {
    primary.configure(SYNCHRONOUS).await;
    let mut world = with_default_timeouts()
        .on_postgres(primary.url())
        .set("CONNECT_REPLY_TIMEOUT", "3s")
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .ingests(0)
        .workers(0)
        .start()
        .await;
    let url = both(&world, standby);
    world.set("DATABASE_URL", &url);
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    world.until_ready().await;
    (world, receiver)
}

/// Sends a burst, in the middle of which `promote` makes the standby the primary; everything is applied once and delivered.
/// `promote` returns when that was. Returns how much later a batch was accepted.
async fn take_over(world: &mut World, standby: &Postgres, promote: impl AsyncFnOnce() -> Instant) -> Duration {
    let mut promoted = Instant::now();
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        progress.until(0.3).await;
        promoted = promote().await;
        world.until_ready().await;
    })
    .await;
    world.database.move_to(standby);
    burst.assert_applied_once(world).await;
    burst::until_delivered(world, 1).await;
    burst.first_success_after(promoted)
}

#[tokio::test]
async fn a_promoted_standby_takes_over_while_the_old_primary_keeps_running_read_only() {
    let primary = Postgres::start().await;
    let standby = primary.start_standby().await;
    let (mut world, _receiver) = start(&primary, &standby).await;
    let moved = take_over(&mut world, &standby, async || {
        primary.configure(READ_ONLY).await;
        standby.execute("SELECT pg_promote()").await;
        primary.execute(END_UNCONFIRMED).await;
        Instant::now()
    })
    .await;
    assert!(moved <= MOVED, "a batch was accepted {moved:?} after the promotion");
    // The old primary still answers: nothing but the programs' own care keeps them from using it.
    primary.execute("SELECT 1").await;
}

/// One delivery is dead-lettered and replayed by a job.
async fn assert_notices_and_replays_go_on(world: &World) {
    let dead = "UPDATE deliveries SET state = 'dead', needs_notice = true WHERE (subscription_id, number) =
        (SELECT subscription_id, number FROM deliveries WHERE state = 'delivered' ORDER BY number LIMIT 1)";
    world.database.execute(dead).await;
    let noticed = "SELECT count(*) FROM deliveries WHERE state = 'dead' AND NOT needs_notice";
    world.database.until_count(noticed, 1).await;
    let job = "INSERT INTO replay_jobs
            (tenant_id, job_id, states, first_id, end_id, per_second, state, batch_at, created_at)
        SELECT tenant_id, gen_random_uuid(), '{dead}', '00000000-0000-0000-0000-000000000000',
            'ffffffff-ffff-ffff-ffff-ffffffffffff', 100, 'running', now(), now()
        FROM tenants WHERE slug = 'acme'";
    world.database.execute(job).await;
    let completed = "SELECT count(*) FROM replay_jobs WHERE state = 'completed' AND replayed = 1";
    world.database.until_count(completed, 1).await;
}

#[tokio::test]
async fn a_promoted_standby_takes_over_from_a_primary_that_hangs() {
    let primary = Postgres::start().await;
    let standby = primary.start_standby().await;
    let (mut world, _receiver) = start(&primary, &standby).await;
    let console = Program::console(world.settings()).await;
    let visitor = Visitor::signed_in(console.http(), &world.connectctl, &["--role", "operator"]).await;
    // Each connection of the console is in use once, and is idle when the primary hangs.
    let opened = join_all((0..CONSOLE_PAGES).map(|_| visitor.get("/"))).await;
    assert!(opened.iter().all(|page| page.status == 200), "{opened:?}");
    take_over(&mut world, &standby, async || {
        primary.pause();
        standby.execute("SELECT pg_promote()").await;
        let promoted = Instant::now();
        let hanging = join_all((0..CONSOLE_PAGES).map(|_| visitor.get("/"))).await;
        println!("pages: {:?}", hanging.iter().map(|page| page.status).collect::<Vec<_>>());
        until_equal("pages are shown again", 200, async || visitor.get("/").await.status).await;
        promoted
    })
    .await;
    console.until_ready().await;
    for program in world.ingests.iter().chain(&world.workers).chain(&world.dispatchers).chain([&console]) {
        assert!(program.operator_get("/livez").await.is_ok_and(|response| response.status == 200));
    }
    assert_notices_and_replays_go_on(&world).await;
    primary.resume();
}

#[tokio::test]
async fn commits_wait_for_a_synchronous_standby_and_nothing_is_lost_without_it() {
    let primary = Postgres::start().await;
    let standby = primary.start_standby().await;
    primary.configure(SYNCHRONOUS).await;
    let world = with_default_timeouts().on_postgres(primary.url()).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    world.until_ready().await;
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        progress.until(0.3).await;
        standby.stop(StopMode::Fast).await;
        eventually("requests get 503", MAX_WAIT, async || {
            let metrics = world.ingests[0].metrics().await;
            match metrics.sum("connect_http_requests_total", &[("status", "503")]) {
                0.0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        standby.start_again().await;
    })
    .await;
    assert!(burst.refused() > 0, "no batch of the burst was refused");
    world.until_ready().await;
    burst.assert_applied_once(&world).await;
}

#[tokio::test]
async fn a_program_whose_server_is_read_only_is_not_ready() {
    let postgres = Postgres::start().await;
    let world = World::with().on_postgres(postgres.url()).dispatchers(1).start().await;
    world.until_ready().await;
    postgres.configure(READ_ONLY).await;
    for program in world.ingests.iter().chain(&world.workers).chain(&world.dispatchers) {
        until_equal("Postgres", false, async || program.until_unready().await["checks"]["postgres"].clone()).await;
    }
    postgres.configure("RESET default_transaction_read_only").await;
    world.until_ready().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
}
