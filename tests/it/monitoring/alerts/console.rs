//! A settings area whose database cannot be reached: people learn of it, and nobody is paged.

use super::watch;
use tests::{CONSOLE_JOB, Program, World};

#[tokio::test]
async fn a_console_without_its_database_warns_and_recovers() {
    let world = World::with().dispatchers(1).through_proxies().start().await;
    let console = Program::console(world.settings()).await;
    let prometheus = watch(&world).await;
    prometheus.watch_console(&console);
    prometheus.until_quiet().await;

    world.proxies().postgres.reset_connections();
    let not_ready = [("job", CONSOLE_JOB), ("check", "postgres")];
    let failing = prometheus.until_firing("ConnectConsoleFailing", &[]);
    super::until_fires(failing, async || {
        let response = console.http().get("/sign-in/cl_unknown").await.expect("a response");
        assert_eq!(response.status, 503);
    })
    .await;
    let alert = prometheus.until_firing("ConnectProgramNotReady", &not_ready).await;
    assert_eq!(alert["labels"]["severity"], "warning", "{alert}");

    world.proxies().postgres.restore();
    console.until_ready().await;
    prometheus.until_resolved("ConnectProgramNotReady", &not_ready).await;
    console.http().get("/sign-in").await.expect("a response");
    prometheus.until_resolved("ConnectConsoleFailing", &[]).await;
}
