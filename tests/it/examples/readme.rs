//! The documents' functions for receivers of webhooks judge every vector correctly, and the documents' commands work.

use crate::openapi::python_tool;
use serde_json::{Value, json};
use std::fmt::Write;
use tests::{CommandOutput, World, text};

// Word for word that of docs/integrators.md.
include!("readme/verify.rs");

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/webhook-signatures.json");

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// PHP, which reads a program only from a file.
const PHP: &str = "php /dev/stdin";

/// The first block of code in this language in a section of a page.
pub(crate) fn block(page: &str, heading: &str, language: &str) -> String {
    let text = read(&format!("{ROOT}/docs/{page}"));
    let section = text.split("\n## ").find(|section| section.starts_with(heading));
    let block = section.and_then(|section| section.split(&format!("```{language}\n")).nth(1)?.split("```").next());
    block.unwrap_or_else(|| panic!("no {language} in {page}, {heading}")).to_owned()
}

/// The function that verifies a webhook in this language.
fn verifier(language: &str) -> String {
    block("integrators.md", "Receive webhooks", language)
}

pub(super) fn cases() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(&read(VECTORS)).expect("vectors");
    vectors["cases"].as_array().expect("cases").clone()
}

/// The vectors that are judged wrongly.
fn wrong(verdicts: &[bool]) -> Vec<Value> {
    let cases = cases();
    assert_eq!(verdicts.len(), cases.len());
    let judged = cases.iter().zip(verdicts);
    judged.filter(|(case, verdict)| case["valid"] != **verdict).map(|(case, _)| case["why"].clone()).collect()
}

/// Runs a program that prints a list of verdicts.
async fn judged(interpreter: &str, program: &str) -> Vec<Value> {
    let script = format!("{interpreter} - <<'END_OF_PROGRAM'\n{program}\nEND_OF_PROGRAM\n");
    let ran = CommandOutput::bash(&script, &[]).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    let verdicts: Vec<bool> = serde_json::from_value(ran.json()).expect("verdicts");
    wrong(&verdicts)
}

#[tokio::test]
async fn the_documented_verifiers_judge_every_vector_correctly() {
    let python = format!(
        "import json\n{}
cases, verdicts = json.load(open({VECTORS:?}))['cases'], []
for case in cases:
    time.time = lambda: case['now']
    verdicts.append(verify(case['secret'], case['header'], case['body'].encode()))
print(json.dumps(verdicts))",
        verifier("python")
    );
    let node = format!(
        "{}
const {{ cases }} = require({VECTORS:?});
console.log(JSON.stringify(cases.map((one) => {{
  Date.now = () => 1000 * one.now;
  return verify(one.secret, one.header, Buffer.from(one.body));
}})));",
        verifier("js")
    );
    let php = format!(
        "<?php
namespace Vectors;
function time(): int {{ return $GLOBALS['now']; }}
{}
$verdicts = [];
foreach (json_decode(file_get_contents({VECTORS:?}))->cases as $case) {{
    $now = $case->now;
    $verdicts[] = verify($case->secret, $case->header, $case->body);
}}
echo json_encode($verdicts);",
        verifier("php")
    );
    let none: [Value; 0] = [];
    assert_eq!(judged("python3", &python).await, none, "Python");
    assert_eq!(judged("node", &node).await, none, "Node");
    assert_eq!(judged(PHP, &php).await, none, "PHP");

    assert_eq!(verifier("rust"), include_str!("readme/verify.rs"));
    let rust = cases().into_iter().map(|case| {
        let now = case["now"].as_u64().expect("a clock");
        verify(text(&case["secret"]), text(&case["header"]), text(&case["body"]).as_bytes(), now)
    });
    assert_eq!(wrong(&rust.collect::<Vec<_>>()), none, "Rust");
}

#[tokio::test]
async fn the_documented_clients_sign_what_they_send() {
    let world = World::shared().await;
    let python = block("integrators.md", "Use the records API", "python")
        + "batch = {'events': []}
sent = client.get('/api/v1/crm/connect/clients?email=a%40b.example'), client.post('/api/v1/crm/connect/events', json=batch)
print([response.status_code for response in sent])";
    let node = block("integrators.md", "Use the records API", "js").replace("export ", "")
        + "const url = process.env.CONNECT_URL + '/api/v1/crm/connect/';
const sent = [await connectFetch(url + 'clients?email=node%40b.example'), await connectFetch(url + 'events', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{\"events\":  []}' })];
console.log(`[${sent.map((response) => response.status).join(', ')}]`);";
    let php = format!(
        "<?php\n{}{}",
        block("integrators.md", "Use the records API", "php"),
        r#"
$base = '/api/v1/crm/connect';
$sent = [connect_request('GET', "$base/clients?email=php%40b.example"), connect_request('POST', "$base/events", '{"events":   []}')];
echo '[', implode(', ', array_column($sent, 0)), ']';"#
    );
    let with_httpx = python_tool("python").await.as_std().get_program().to_string_lossy().into_owned();
    for (interpreter, program) in [(with_httpx.as_str(), python), ("node --input-type=module", node), (PHP, php)] {
        let script = format!("{interpreter} - <<'END_OF_PROGRAM'\n{program}\nEND_OF_PROGRAM\n");
        let ran = CommandOutput::bash(&script, &super::calls::settings(&world, &world.key)).await;
        // Signatures are checked before a batch may not be empty.
        assert_eq!((ran.output.trim(), ran.errors.as_str()), ("[200, 400]", ""), "{ran:?}");
    }
}

fn scripts() -> String {
    let readme = read(&format!("{ROOT}/tests/examples/README.md"));
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.collect();
    assert_eq!(blocks.len(), 3, "{blocks:?}");
    blocks.concat()
}

/// Runs a script in a directory with what `make run` leaves in `.run`, and with a link to the repository's tests.
async fn run_beside_make_run(world: &World, script: &str) -> CommandOutput {
    let demo = world.add_tenant("demo").await;
    let create = ["subscription", "create", "--tenant", "demo", "--url", "https://1.1.1.1/hooks"];
    let subscription = world.connectctl.json(&create).await;
    let mut environment = String::new();
    for (name, value) in world.settings().iter().filter(|(name, _)| name != "CONNECT_INGEST_ADDR") {
        writeln!(environment, "export {name}='{value}'").expect("a text");
    }
    writeln!(environment, "export CONNECT_INGEST_ADDR={}", world.http().address()).expect("a text");
    let directory = std::env::temp_dir().join(format!("connect-examples-{}", std::process::id()));
    let run = directory.join(".run");
    std::fs::create_dir_all(&run).expect("a directory");
    let key = json!({"prefix": demo.prefix, "secret": demo.secret}).to_string();
    for (file, content) in
        [("environment", environment), ("demo.key", key), ("demo.subscription", subscription.to_string())]
    {
        std::fs::write(run.join(file), content).expect("a file");
    }
    let ran = CommandOutput::bash(&format!("cd {directory:?}; ln -sfn '{ROOT}/tests' tests; {script}"), &[]).await;
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    ran
}

#[tokio::test]
async fn the_commands_of_the_examples_readme_and_of_the_partners_page_work_after_make_run() {
    let world = World::start().await;
    let [shell, python] = ["sh", "python"].map(|language| block("partners.md", "Send your first batch", language));
    let script = format!("{}\n{shell}\npython3 - <<'END_OF_PROGRAM'\n{python}\nEND_OF_PROGRAM\n", scripts());
    let ran = run_beside_make_run(&world, &script).await;
    let accepted = ["first-1", "first-2"].map(|id| format!(r#""eventId":"{id}","status":"accepted""#));
    let shown = [r#""accepted":2"#, r#""externalId":"order-7""#, "\nverified\n", &accepted[0], &accepted[1]];
    for shown in shown {
        assert!(ran.output.contains(shown), "{shown}: {}", ran.output);
    }
    // The key that is made has what the examples need, and no more.
    let keys = world.connectctl.list(&["key", "list", "--tenant", "demo"]).await;
    let made = keys.iter().find(|key| key["name"] == "Web site").expect("the key");
    assert_eq!(made["scopes"], json!(["events:ingest", "leads:write"]), "{made}");
}
