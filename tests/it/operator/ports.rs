//! The operator port: `/livez`, `/readyz`, and nothing else.

use tests::{HttpClient, HttpRequest, Program, World};

/// The response of a program's operator's port to a request without a body.
async fn ask(program: &Program, method: &str, path: &str) -> tests::HttpResponse {
    HttpClient::for_other_server(program.operator_address()).send(&HttpRequest::new(method, path, "")).await
}

#[tokio::test]
async fn a_healthy_program_is_live_and_ready_and_its_port_serves_nothing_else() {
    let world = World::with().through_proxies().dispatchers(1).start().await;
    let programs = || world.ingests.iter().chain(&world.workers).chain(&world.dispatchers);
    for program in programs() {
        program.until_ready().await;
        for path in ["/livez", "/readyz", "/metrics"] {
            let (get, head) = (ask(program, "GET", path).await, ask(program, "HEAD", path).await);
            assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0), "{path}");
            assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        }
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(ask(program, method, "/livez").await.status, 405, "{method}");
        }
        for path in ["/", "/metrics/x", "/debug", tests::EVENTS] {
            let status = ask(program, "GET", path).await.status;
            assert!((400..500).contains(&status), "{path}: {status}");
        }
        let says = ask(program, "GET", "/readyz").await.json();
        assert_eq!((&says["ready"], &says["checks"]["postgres"]), (&true.into(), &true.into()), "{says}");
    }
    world.proxies().broker.reset_connections();
    // The dispatcher does not need the broker.
    for program in world.ingests.iter().chain(&world.workers) {
        program.until_unready().await;
        assert_eq!(ask(program, "HEAD", "/livez").await.status, 200);
        assert_eq!(ask(program, "HEAD", "/readyz").await.status, 503);
    }
}

#[tokio::test]
async fn a_port_in_use_ends_the_program_naming_the_setting() {
    let world = World::shared().await;
    let taken = world.http().address().to_string();
    for (program, setting) in [
        ("connect-ingest", "CONNECT_INGEST_ADDR"),
        ("connect-ingest", "CONNECT_METRICS_ADDR"),
        ("connect-worker", "CONNECT_METRICS_ADDR"),
    ] {
        let mut settings = world.settings().to_vec();
        settings.retain(|(name, _)| name != setting);
        settings.push((setting.to_owned(), taken.clone()));
        let ran = tests::CommandOutput::of(program, &[], &settings).await;
        assert_eq!(ran.code, Some(1), "{program} {setting}: {ran:?}");
        let last = ran.errors.lines().last().unwrap_or_default();
        assert!(last.contains(setting), "{program} {setting}: {last}");
    }
}
