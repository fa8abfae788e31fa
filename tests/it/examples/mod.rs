//! The examples for integrators, run as they are, in each language.

mod calls;
mod readme;
mod retries;
mod stripe;
mod usage;
mod webhooks;

/// The endings of the files: shell, Python, Node, Rust.
const LANGUAGES: [&str; 4] = ["sh", "py", "mjs", "rs"];

#[test]
fn there_is_every_example_in_every_language_and_the_documents_link_to_them() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let index = read(&format!("{directory}/README.md"));
    for name in ["send-batch", "create-lead", "verify-webhook"] {
        for language in LANGUAGES {
            let file = format!("{name}.{language}");
            assert!(!read(&format!("{directory}/{file}")).is_empty());
            assert!(index.contains(&format!("({file})")), "{file} isn't in the index");
        }
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for (page, link) in [
        ("README.md", "(tests/examples)"),
        ("docs/partners.md", "(../tests/examples)"),
        ("docs/integrators.md", "(../tests/examples)"),
    ] {
        assert!(read(&format!("{root}/{page}")).contains(link), "{page} has no link to the examples");
    }
}

#[test]
fn shell_examples_use_only_bash_3_2_and_posix_tools() {
    for name in ["send-batch", "create-lead", "verify-webhook"] {
        let path = format!("{}/examples/{name}.sh", env!("CARGO_MANIFEST_DIR"));
        let script = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let newer =
            [",,}", "^^}", "^}", "@Q}", "declare -A", "local -n", "mapfile", "readarray", "|&", "/I", "-P "];
        for newer in newer {
            assert!(!script.contains(newer), "{name}.sh: {newer}");
        }
        // In 3.2 an empty array counts as not set: none may begin empty.
        assert!(!script.contains("=()"), "{name}.sh");
    }
}
