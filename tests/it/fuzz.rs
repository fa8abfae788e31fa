//! Generated input with fixed seeds; `make fuzz` runs the same targets with others.

use tests::fuzz::{HttpFuzz, Target};

/// Cases of each reader.
const CASES: u64 = 3_000;
/// Streams to the HTTP entry.
const STREAMS: u64 = 400;

#[test]
fn readers_agree_and_refuse_what_was_damaged() {
    for target in Target::ALL {
        for seed in 0..CASES {
            target.run(seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

#[tokio::test]
async fn streams_of_garbage_leave_ingest_as_it_was() {
    let http = HttpFuzz::start().await;
    http.run(0, STREAMS).await.unwrap_or_else(|what| panic!("{what}"));
}
