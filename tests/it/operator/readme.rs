//! The README's table of settings is complete.

use super::{SERVICES, variables};
use tests::Ran;

#[tokio::test]
async fn the_readmes_table_has_every_setting_that_help_lists_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(path).expect("README.md");
    let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
    let mut listed = Vec::new();
    for program in SERVICES {
        listed.extend(variables(&Ran::of(program, &["--help"], &[]).await.output));
    }
    for name in &listed {
        assert!(
            rows.iter().any(|row| row.starts_with(&format!("| `{name}` "))),
            "the README's table lacks {name}"
        );
    }
    let is_variable =
        |name: &str| name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let documented = rows.iter().filter_map(|row| row.split('`').nth(1)).filter(|name| is_variable(name));
    for name in documented {
        assert!(
            listed.iter().any(|listed| listed == name),
            "the README's table has {name}, which no --help lists"
        );
    }
}
