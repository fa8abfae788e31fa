//! The queries by which KEDA scales worker and dispatcher (`ops/kubernetes/keda`), with the values that they give.

use super::repository_text;
use super::rules::promtool;

/// Tests of the queries, with a placeholder for each.
const TESTS: &str = include_str!("scaling.yml");

/// The query of a ScaledObject.
fn query(manifest: &str, name: &str) -> String {
    let objects = manifest.split("\n---\n");
    let object = objects.filter(|object| object.contains(&format!("\n  name: {name}\n"))).last();
    let object = object.unwrap_or_else(|| panic!("no ScaledObject {name}"));
    let mut lines = object.lines().skip_while(|line| !line.trim_start().starts_with("query:"));
    let first = lines.next().unwrap_or_else(|| panic!("{name} has no query"));
    let indent = first.len() - first.trim_start().len();
    let block: Vec<&str> = lines.take_while(|line| line.len() - line.trim_start().len() > indent).collect();
    match first.trim_start().strip_prefix("query: ") {
        Some("|-") => block.join("\n"),
        Some(query) => query.to_owned(),
        None => panic!("{name}: {first}"),
    }
}

#[test]
fn the_queries_give_the_age_of_waiting_messages_also_while_none_is_handled() {
    let manifest = repository_text("ops/kubernetes/keda/scaled-objects.yaml");
    let tests = ["connect-worker", "connect-dispatcher"].iter().fold(TESTS.to_owned(), |tests, name| {
        let placeholder = format!("QUERY_OF_{name}");
        assert!(tests.contains(&placeholder), "{placeholder}");
        let quoted = serde_json::to_string(&query(&manifest, name)).expect("JSON");
        tests.replace(&placeholder, &quoted)
    });
    let file = std::env::temp_dir().join(format!("connect-scaling-{}.yml", uuid::Uuid::now_v7()));
    std::fs::write(&file, tests).expect("a file");
    let printed = std::panic::catch_unwind(|| promtool(&["test", "rules"], std::slice::from_ref(&file)));
    std::fs::remove_file(&file).expect("the file");
    if let Err(failed) = printed {
        std::panic::resume_unwind(failed);
    }
}
