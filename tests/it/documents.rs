//! The Markdown documents lead where they say.

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
