//! The table of settings in docs/settings.md says what the programs' `--help` says.

use super::SERVICES;
use crate::monitoring::repository_text;
use tests::CommandOutput;

/// A setting, as the programs that read it describe it.
struct Setting {
    name: String,
    default: String,
    meaning: String,
    read_by: Vec<&'static str>,
}

impl Setting {
    fn row(&self) -> String {
        let read_by =
            if self.read_by.len() == SERVICES.len() { "all".to_owned() } else { self.read_by.join(", ") };
        format!("| `{}` | {} | {read_by} | {} |", self.name, self.default, self.meaning)
    }
}

/// What a `--help` says of a setting, in its two lines: name, default and meaning.
fn described(line: &str, next: &str) -> Option<(String, String, String)> {
    let (name, rest) = line.strip_prefix("  ")?.split_once(" (")?;
    let default = rest.strip_suffix(')')?;
    let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let default = default.strip_prefix("default ").map_or(default.to_owned(), |value| format!("`{value}`"));
    is_variable.then(|| (name.to_owned(), default, next.trim().to_owned()))
}

#[tokio::test]
async fn the_documented_table_has_the_rows_of_every_help_and_no_others() {
    let mut settings: Vec<Setting> = Vec::new();
    for program in SERVICES {
        let help = CommandOutput::of(program, &["--help"], &[]).await.output;
        let short = program.strip_prefix("connect-").expect("a program's name");
        for (line, next) in help.lines().zip(help.lines().skip(1)) {
            let Some((name, default, meaning)) = described(line, next) else { continue };
            match settings.iter_mut().find(|setting| setting.name == name) {
                Some(known) => {
                    assert_eq!((&known.default, &known.meaning), (&default, &meaning), "{program}: {name}");
                    known.read_by.push(short);
                }
                None => settings.push(Setting { name, default, meaning, read_by: vec![short] }),
            }
        }
    }
    assert!(settings.len() > 30, "{} settings", settings.len());
    let page = repository_text("docs/settings.md");
    let header = "| variable | default | read by | meaning |\n|---|---|---|---|\n";
    let (_, table) = page.split_once(header).expect("the table of settings");
    let documented: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let described: Vec<String> = settings.iter().map(Setting::row).collect();
    assert!(documented == described, "the table must be:\n{header}{}\n", described.join("\n"));
}
