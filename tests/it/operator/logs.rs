//! A log that cannot be written does not affect the program.

use super::SERVICES;
use tests::{CommandOutput, World};

/// Starts `$0` with a log that takes nothing, waits until it is ready, asks it to end, and ends as it does.
const SCRIPT: &str = "
    address=127.0.0.1:$($CONNECT_SERVICES free-port)
    export CONNECT_METRICS_ADDR=$address CONNECT_INGEST_ADDR=127.0.0.1:0
    start &
    until curl --silent --fail --output /dev/null http://$address/readyz; do
        kill -0 $! || wait $!
        sleep 0.05
    done
    kill -TERM $!
    wait $!";

#[tokio::test]
async fn a_full_or_closed_log_does_not_affect_a_program() {
    let world = World::with().ingests(0).workers(0).start().await;
    let services = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/local/services.sh");
    let mut settings = world.settings().to_vec();
    settings.retain(|(name, _)| !matches!(name.as_str(), "CONNECT_METRICS_ADDR" | "CONNECT_INGEST_ADDR"));
    settings.extend(
        [("CONNECT_SERVICES", services), ("RUST_LOG", "debug")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    for service in SERVICES {
        // A full disk; a reader that has gone away.
        for log in ["2>/dev/full", "2> >(exec true)"] {
            let ran =
                CommandOutput::bash(&format!("start() {{ exec {service} {log}; }}{SCRIPT}"), &settings).await;
            assert_eq!(ran.code, Some(0), "{service} {log}: {ran:?}");
        }
    }
    let ran = CommandOutput::bash("exec connect-worker 2>/dev/full", &[]).await;
    assert_eq!(ran.code, Some(1), "a missing setting, and a log that cannot be written: {ran:?}");
}
