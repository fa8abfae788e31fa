//! The Markdown documents lead where they say, and the files that ARCHITECTURE.md names exist.

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents for readers: those of the root and of the directories that hold some.
fn documents() -> Vec<PathBuf> {
    let directories = ["", "docs", "ops", "sql", "tests/examples"];
    let entries = directories.iter().flat_map(|directory| {
        let directory = Path::new(ROOT).join(directory);
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path())
    });
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let titles = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_heading_that_exist() {
    let mut links = 0;
    for document in documents() {
        let text = read(&document);
        let directory = document.parent().expect("a directory");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { directory.join(file) };
            assert!(path.exists(), "{}: {target}", document.display());
            let is_heading = anchor.is_empty() || anchors(&read(&path)).iter().any(|known| known == anchor);
            assert!(is_heading, "{}: {target}", document.display());
        }
    }
    assert!(links > 100, "{links} links");
}

/// The directories in which the files are that ARCHITECTURE.md names.
const DIRECTORIES: [&str; 9] =
    ["admin", "common", "dispatcher", "docs", "ingest", "ops", "sql", "tests", "worker"];

fn architecture() -> String {
    read(&Path::new(ROOT).join("ARCHITECTURE.md"))
}

/// The paths in backticks, without those of patterns, modules and commands.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let quoted = prose.flat_map(|prose| prose.lines()).flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|quoted| {
        let is_path = quoted.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
        let is_in_directory =
            quoted.split_once('/').is_some_and(|(directory, _)| DIRECTORIES.contains(&directory));
        is_path && (is_in_directory || quoted.ends_with(".rs"))
    })
}

#[test]
fn every_path_in_the_architecture_exists() {
    let text = architecture();
    let missing: Vec<&str> = paths(&text).filter(|path| !Path::new(ROOT).join(path).exists()).collect();
    assert_eq!(missing, [""; 0], "write whole paths");
    assert!(paths(&text).count() > 100, "{} paths", paths(&text).count());
}

/// Whether a text cites a decision: `D2` is not cited by `D21` or `D2a`.
fn cites(text: &str, decision: &str) -> bool {
    let is_apart = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    text.match_indices(decision).any(|(at, _)| {
        let is_begin = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        is_begin && is_apart(&text[at + decision.len()..])
    })
}

#[test]
fn every_decision_is_cited_in_the_files_that_implement_it() {
    let text = architecture();
    let section = text.split("\n## ").find(|section| section.starts_with("Where each rule is implemented"));
    let rows = section.expect("the section").lines().filter_map(|line| line.strip_prefix("| D"));
    let mut numbers = Vec::new();
    for row in rows {
        let (number, files) = row.split_once(" | ").expect("columns");
        let decision = format!("D{number}");
        if number.bytes().all(|byte| byte.is_ascii_digit()) {
            numbers.push(number.parse::<u32>().expect("a number"));
        }
        assert!(paths(files).next().is_some(), "{decision}");
        for path in paths(files) {
            assert!(cites(&read(&Path::new(ROOT).join(path)), &decision), "{path} does not cite {decision}");
        }
    }
    assert_eq!(numbers, (1..=35).collect::<Vec<_>>());
}
