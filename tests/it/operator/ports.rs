//! `/livez` and `/readyz`, and what isn't there.

use tests::World;

#[tokio::test]
async fn a_healthy_program_lives_and_is_ready_and_names_what_it_needs() {
    let world = World::start().await;
    for program in world.ingests.iter().chain(&world.workers) {
        program.until_ready().await;
        assert_eq!(program.operator_get("/livez").await.expect("an answer").status, 200);
        let answer = program.operator_get("/readyz").await.expect("an answer");
        assert_eq!(answer.status, 200);
        let says = answer.json();
        assert_eq!(says["ready"], true);
        for server in ["postgres", "broker"] {
            assert_eq!(says["checks"][server], true, "{says}");
        }
    }
}

#[tokio::test]
async fn the_operators_port_serves_nothing_else() {
    let world = World::start().await;
    for program in world.ingests.iter().chain(&world.workers) {
        for path in ["/", "/metrics/x", "/debug", tests::EVENTS] {
            let status = program.operator_get(path).await.expect("an answer").status;
            assert!((400..500).contains(&status), "{path}: {status}");
        }
    }
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_program_with_one_line() {
    let world = World::with().workers(0).start().await;
    let taken = world.http().address().to_string();
    for (program, setting) in [
        ("connect-ingest", "CONNECT_INGEST_ADDR"),
        ("connect-ingest", "CONNECT_METRICS_ADDR"),
        ("connect-worker", "CONNECT_METRICS_ADDR"),
    ] {
        let mut settings = world.settings().to_vec();
        settings.retain(|(name, _)| name != setting);
        settings.push((setting.to_owned(), taken.clone()));
        let ran = tests::Ran::of(program, &[], &settings).await;
        assert_eq!(ran.code, Some(1), "{program} {setting}: {ran:?}");
        let last = ran.errors.lines().last().unwrap_or_default();
        assert!(last.contains(setting), "{program} {setting}: {last}");
    }
}
