//! Generated input with fixed seeds; `make fuzz` runs the same targets with others.

use tests::fuzz::{FuzzTarget, HttpFuzz};

/// Cases for each parser.
const CASES: u64 = 3_000;
/// Byte streams to the HTTP port.
const STREAMS: u64 = 400;

#[test]
fn parsers_agree_and_reject_damaged_input() {
    for target in FuzzTarget::ALL {
        for seed in 0..CASES {
            target.run(seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

#[tokio::test]
async fn garbage_streams_leave_ingest_unaffected() {
    let http = HttpFuzz::start().await;
    http.run(0, STREAMS).await.unwrap_or_else(|what| panic!("{what}"));
}
