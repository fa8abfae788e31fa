//! The page in a real browser.

use super::{DOCS, TempDirectory, ToolOutput, document, endpoints, get, project, run};
use serde_json::Value;
use std::net::SocketAddr;
use tests::{World, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Opens an address in headless Chromium, and returns the loaded page's elements. Console messages are in the errors.
async fn open(address: SocketAddr, path: &str) -> ToolOutput {
    let mut install = Command::new(project("ops/local/services.sh"));
    let installed = run(install.args(["install", "browser"]), 10).await;
    assert!(installed.succeeded, "{installed:?}");
    let profile = TempDirectory::new();
    let mut chromium = Command::new("chromium");
    // The sandbox is not available in a container or as root.
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

/// The console messages of a page.
fn console(opened: &ToolOutput) -> Vec<&str> {
    opened.errors.lines().filter(|line| line.contains(":CONSOLE")).collect()
}

/// The part of the page that is about an operation.
#[track_caller]
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let at = page.find(&format!("<section class=\"operation\" id=\"{id}\">"));
    let section = &page[at.unwrap_or_else(|| panic!("{id} isn't shown"))..];
    &section[..section.find("</section>").expect("its end")]
}

/// The documented responses of an operation: status, and the error code if it has one.
fn documented_responses(operation: &Value) -> Vec<(String, Option<&str>)> {
    let responses = operation["responses"].as_object().expect("responses");
    let mut documented = Vec::new();
    for (status, response) in responses {
        let examples = response["content"]["application/json"]["examples"].as_object();
        let codes = examples.into_iter().flatten().map(|(code, _)| code.as_str());
        if status.starts_with(['4', '5']) {
            documented.extend(codes.map(|code| (status.clone(), Some(code))));
        } else {
            documented.push((status.clone(), None));
        }
    }
    documented
}

/// Whether a section shows a response: in its own row, or among those that all endpoints share.
fn shows(section: &str, status: &str, code: Option<&str>) -> bool {
    let cell = format!("<span class=\"status s{}\">{status}</span></th>", &status[..1]);
    let Some(code) = code else { return section.contains(&cell) };
    let row = format!("{cell}<td><code>{code}</code></td><td>");
    section.contains(&row) || section.contains(&format!("{status} <code>{code}</code>"))
}

/// The name of the schema of a webhook's body.
fn kind_name(item: &Value) -> String {
    let content = &item["post"]["requestBody"]["content"]["application/json"];
    text(&content["schema"]["$ref"]).rsplit('/').next().expect("a name").to_owned()
}

#[tokio::test]
async fn the_page_shows_every_route_webhook_code_and_schema_under_its_csp() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let opened = open(world.http().address(), DOCS).await;
    assert_eq!(console(&opened), [""; 0]);
    let page = &opened.output;

    for (path, method, operation) in endpoints(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        let section = section(page, id);
        assert!(
            section.contains(&format!("{method}</span> <code class=\"path\">{path}</code>")),
            "{section}"
        );
        for (status, code) in documented_responses(operation) {
            assert!(shows(section, &status, code), "{method} {path}: {status} {code:?}\n{section}");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = text(&parameter["name"]);
            assert!(
                section.contains(&format!("<code>{name}</code> <span class=\"place\"")),
                "{path}: {name}"
            );
        }
        assert!(section.contains("curl"), "{method} {path}: no sample");
    }
    for (kind, item) in document["webhooks"].as_object().expect("webhooks") {
        let id = item["post"]["operationId"].as_str().expect("an id");
        let section = section(page, id);
        assert!(section.contains(&format!("<h3><code>{kind}</code></h3>")), "{kind}");
        let schema = &document["components"]["schemas"][&kind_name(item)]["properties"];
        let payload = schema["payload"]["properties"].as_object().expect("a payload");
        let told = payload.keys().map(|field| format!("payload.{field}"));
        for field in schema.as_object().expect("fields").keys().cloned().chain(told) {
            assert!(section.contains(&format!("<code>{field}</code>")), "{kind}: {field}");
        }
        assert!(section.contains("Example of the body"), "{kind}");
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let errors = |name: &&String| !name.ends_with("Error");
    for name in schemas.keys().filter(errors) {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    // What a schema says of an object as a whole.
    let party = &page[page.find("id=\"schema-Party\"").expect("a party")..];
    let party = &party[..party.find("</section>").expect("its end")];
    assert!(party.contains("At least one of these fields. No other fields."), "{party}");
    for lenient in ["EventParty", "EventBudget", "EnquiryPayload", "DiscoveryPayload"] {
        let at = page.find(&format!("id=\"schema-{lenient}\"")).expect("a schema");
        let schema = &page[at..][..page[at..].find("</section>").expect("its end")];
        assert!(!schema.contains("No other fields") && schema.contains("or null"), "{schema}");
    }
    // Every link within the page leads somewhere.
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(page.contains(&format!("id=\"{target}\"")), "#{target}");
    }
}

#[tokio::test]
async fn the_browser_reports_content_that_violates_the_csp() {
    let world = World::with().workers(0).start().await;
    let policy = get(&world, DOCS).await.header("content-security-policy").to_owned();
    let body = "<body style='color:red'><script>1</script><img src='/x.png'></body>";
    let length = body.len();
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: {policy}\r\ncontent-length: \
        {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            drop(connection.read(&mut [0; 4096]).await);
            drop(connection.write_all(response.as_bytes()).await);
        }
    });
    let opened = open(address, "/").await;
    for what in ["inline style", "inline script", "image"] {
        assert!(console(&opened).iter().any(|line| line.contains(what)), "{what}: {}", opened.errors);
    }
}
