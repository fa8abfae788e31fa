//! What callers cause fills no log.

use std::time::Instant;
use tests::event::batch;
use tests::{PATIENCE, World, event, eventually};

#[tokio::test]
async fn failed_requests_are_logged_once_a_second_with_the_number_of_the_others() {
    let world = World::with().workers(0).start().await;
    world.database.execute("ALTER TABLE replay_entries RENAME TO kept").await;
    let (begun, ingest) = (Instant::now(), &world.ingests[0]);
    let lines = || {
        let logs = ingest.logs();
        let refused = logs.lines().filter(|line| line.contains("\"message\":\"refused\""));
        refused
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect::<Vec<serde_json::Value>>()
    };
    let mut sent = 0;
    let mut send_some = async || {
        for _ in 0..10 {
            let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
            world.http().send(&request).await.assert_error(503, "replay_store_unavailable");
            sent += 1;
        }
        sent
    };
    let sent = eventually("a line counts those before it", PATIENCE, async || {
        let sent = send_some().await;
        match lines().iter().any(|line| line["suppressed"].as_u64() > Some(0)) {
            true => Ok(sent),
            false => Err(format!("{sent} sent")),
        }
    })
    .await;
    let (lines, seconds) = (lines(), begun.elapsed().as_secs() + 2);
    assert!((2..=seconds).contains(&(lines.len() as u64)), "{} lines in {seconds} s", lines.len());
    let counted: u64 = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or_default()).sum();
    assert!(counted <= sent, "{counted} counted, {sent} sent");
}
