//! A short run of the torture program (`make torture` for longer ones).

use std::time::Duration;
use tests::torture;

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_everything_lose_nothing_and_repeat_nothing() {
    let logs = std::env::temp_dir().join(format!("connect-torture-{}", std::process::id()));
    let report = Box::pin(torture::run(12, Duration::from_secs(30), &logs)).await;
    println!("{report:#?}");
    assert_eq!(report.violations, Vec::<String>::new(), "logs are in {}", logs.display());
    assert!(report.confirmed > 0 && report.faults > 0, "{report:?}");
    drop(std::fs::remove_dir_all(logs));
}
