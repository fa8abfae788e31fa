//! The links of the Markdown documents lead to files and headings that exist, and SECURITY.md names tests that exist.

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The documents for readers: those of the root and of the directories that hold some.
fn documents() -> impl Iterator<Item = PathBuf> {
    let entries = ["", "docs", "ops", "sql", "tests/examples"].into_iter().flat_map(|directory| {
        let entries = std::fs::read_dir(Path::new(ROOT).join(directory)).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path())
    });
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a document has a heading with this anchor, as GitHub makes it.
fn has_anchor(text: &str, anchor: &str) -> bool {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let titles = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    titles
        .map(|title| title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .any(|heading| heading == anchor)
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_heading_that_exist() {
    for document in documents() {
        let text = read(&document);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            assert!(path.exists(), "{}: {target}", document.display());
            assert!(anchor.is_empty() || has_anchor(&read(&path), anchor), "{}: {target}", document.display());
        }
    }
}

#[test]
fn every_test_that_security_names_exists() {
    let text = read(&Path::new(ROOT).join("SECURITY.md"));
    let shown_by = text.split("*Shown by:*").skip(1).filter_map(|rest| rest.split(".\n").next());
    let names: Vec<_> = shown_by.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names.into_iter().filter(|name| !name.contains("::") && !name.starts_with("openid_connect/")) {
        let path = Path::new(ROOT).join("tests/it").join(name);
        assert!(path.exists() || path.with_extension("rs").exists(), "SECURITY.md: {name}");
    }
}

#[test]
fn documents_are_wrapped_and_the_architecture_has_250_lines() {
    for document in documents() {
        let mut is_code = false;
        for line in read(&document).lines() {
            let start = line.trim_start();
            is_code ^= start.starts_with("```");
            let is_free = is_code || start.starts_with('|') || start.starts_with("![");
            assert!(is_free || line.chars().count() <= 100, "{}: {line}", document.display());
        }
    }
    assert!(read(&Path::new(ROOT).join("ARCHITECTURE.md")).lines().count() <= 250);
}
