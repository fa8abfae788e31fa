//! The page in a real browser.

use super::{DOCS, Ended, Scratch, document, endpoints, get, project, run};
use std::net::SocketAddr;
use tests::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Opens an address in headless Chromium, and gives the page's elements as they are once it is loaded. What the
/// console says is in the errors.
async fn open(address: SocketAddr, path: &str) -> Ended {
    let mut install = Command::new(project("ops/local/services.sh"));
    let installed = run(install.args(["install", "browser"]), 10).await;
    assert!(installed.succeeded, "{installed:?}");
    let profile = Scratch::new();
    let mut chromium = Command::new("chromium");
    // In a container, or as root, its sandbox can't be had.
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    chromium.args(["--enable-logging=stderr", "--v=0", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", profile.0.display()));
    let opened = run(chromium.arg(format!("http://{address}{path}")), 3).await;
    assert!(opened.succeeded, "{opened:?}");
    opened
}

/// What a page's console was told.
fn console(opened: &Ended) -> Vec<&str> {
    opened.errors.lines().filter(|line| line.contains(":CONSOLE")).collect()
}

#[tokio::test]
async fn the_page_shows_every_route_webhook_code_and_schema_and_its_policy_lets_it() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let opened = open(world.http().address(), DOCS).await;
    assert_eq!(console(&opened), [""; 0]);
    let page = &opened.output;

    for (path, method, operation) in endpoints(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        let at = page.find(&format!("<section class=\"operation\" id=\"{id}\">"));
        let section = &page[at.unwrap_or_else(|| panic!("{method} {path} isn't shown"))..];
        let section = &section[..section.find("</section>").expect("its end")];
        assert!(
            section.contains(&format!("{method}</span> <code class=\"path\">{path}</code>")),
            "{section}"
        );
        let responses = operation["responses"].as_object().expect("responses");
        for status in responses.keys() {
            assert!(section.contains(status.as_str()), "{method} {path}: {status}");
        }
        for codes in responses.values().filter_map(|response| {
            let media = &response["content"]["application/json"];
            media["schema"]["oneOf"].is_array().then(|| media["examples"].as_object())?
        }) {
            for code in codes.keys() {
                assert!(section.contains(&format!("<code>{code}</code>")), "{method} {path}: {code}");
            }
        }
        assert!(section.contains("curl"), "{method} {path}: no sample");
    }
    for (kind, item) in document["webhooks"].as_object().expect("webhooks") {
        let id = item["post"]["operationId"].as_str().expect("an id");
        assert!(page.contains(&format!("id=\"{id}\"><h3><code>{kind}</code></h3>")), "{kind}");
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let errors = |name: &&String| !name.ends_with("Error");
    for name in schemas.keys().filter(errors) {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    // Every link within the page leads somewhere.
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(page.contains(&format!("id=\"{target}\"")), "#{target}");
    }
}

#[tokio::test]
async fn a_page_that_breaks_its_policy_is_told_on() {
    let world = World::with().workers(0).start().await;
    let policy = get(&world, DOCS).await.header("content-security-policy").to_owned();
    let body = "<body style='color:red'><script>1</script><img src='/x.png'></body>";
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: {policy}\r\ncontent-length: \
        {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            drop(connection.read(&mut [0; 4096]).await);
            drop(connection.write_all(answer.as_bytes()).await);
        }
    });
    let opened = open(address, "/").await;
    for what in ["inline style", "inline script", "image"] {
        assert!(console(&opened).iter().any(|line| line.contains(what)), "{what}: {}", opened.errors);
    }
}
