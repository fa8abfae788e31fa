//! Settings: a missing or malformed one ends a program with one line that names it, and the table of docs/settings.md
//! says what the programs' `--help` says.

use super::SERVICES;
use crate::monitoring::repository_text;
use tests::{CommandOutput, MASTER_KEY};

/// Settings with which every program would start, had it servers to talk to.
fn valid() -> Vec<(String, String)> {
    let pairs = [
        ("DATABASE_URL", "postgres://connect@127.0.0.1:1/connect"),
        ("AMQP_URL", "amqp://127.0.0.1:1/%2f"),
        ("CONNECT_MASTER_KEY", MASTER_KEY),
        ("CONNECT_INGEST_ADDR", "127.0.0.1:0"),
        ("CONNECT_METRICS_ADDR", "127.0.0.1:0"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn without(name: &str) -> Vec<(String, String)> {
    valid().into_iter().filter(|(setting, _)| setting != name).collect()
}

fn with(name: &str, value: &str) -> Vec<(String, String)> {
    let mut settings = without(name);
    settings.push((name.to_owned(), value.to_owned()));
    settings
}

/// The variables that a `--help` lists, in its order.
fn variables(help: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, rest) = line.strip_prefix("  ")?.split_once(' ')?;
        let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        (is_variable && rest.starts_with('(')).then(|| name.to_owned())
    };
    help.lines().filter_map(name).collect()
}

async fn help(program: &str) -> String {
    let ran = CommandOutput::of(program, &["--help"], &[]).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{program}");
    ran.output
}

/// Runs a program that must end at once with one line that names the setting.
async fn assert_refused(program: &str, settings: &[(String, String)], name: &str) -> String {
    let ran = CommandOutput::of(program, &[], settings).await;
    assert_eq!(ran.code, Some(1), "{program} with a wrong {name}: {ran:?}");
    assert_eq!(ran.errors.lines().count(), 1, "{program}: {}", ran.errors);
    assert!(ran.errors.contains(name), "{program}: {}", ran.errors);
    assert_eq!(ran.output, "", "{program}");
    ran.errors
}

#[tokio::test]
async fn names_each_missing_required_setting() {
    for program in SERVICES {
        let help = help(program).await;
        let required: Vec<_> =
            variables(&help).into_iter().filter(|name| help.contains(&format!("{name} (required)"))).collect();
        assert!(required.iter().any(|name| name == "DATABASE_URL"), "{required:?}");
        assert!(required.iter().any(|name| name == "AMQP_URL"), "{required:?}");
        for name in required {
            assert_refused(program, &without(&name), &name).await;
            assert_refused(program, &with(&name, "  "), &name).await;
        }
    }
}

/// Settings with malformed values, and with periods that are too short: what is repeated later would not be known as a
/// duplicate.
const MALFORMED: &str = "DATABASE_URL hunter2 is no url; DATABASE_URL postgres://u:hunter2@[; \
    DATABASE_URL postgres://u:x@hunter2@host/db; DATABASE_URL postgres://u:hunter2@host/db?hunter2=1; \
    DATABASE_URL host=127.0.0.1 port=1 password=hunter2; \
    DATABASE_URL postgres://user:hunter2@host/db?sslmode=prefer; \
    DATABASE_URL postgres://user:hunter2@host/db?sslrootcert=/none/ca.pem; \
    DATABASE_READ_URL postgres://user:hunter2@host/db?sslmode=hunter2; \
    DATABASE_DIRECT_URL postgres://user:hunter2@host/db?sslkey=/none/key.pem; AMQP_URL http://user:hunter2@host; \
    AMQP_URL amqp://u:1/hunter2@host/%2f; AMQP_URL amqp://u:hunter2@host/%2f,amqp//u:hunter2@b; \
    AMQP_URL amqp://u:hun%zzhunter2@host:port/%2f; AMQP_URL amqps://user:hunter2@host?verify=verify_none; \
    AMQP_URL amqp://user:hunter2@host?cacertfile=/none/ca.pem; \
    AMQP_URL amqp://user:hunter2@host,amqps://user:hunter2@host?certfile=/none/own.pem; \
    CONNECT_MASTER_KEY aHVudGVyMg==; CONNECT_MASTER_KEY hunter2!; CONNECT_METRICS_ADDR hunter2; \
    CONNECT_SHUTDOWN_TIMEOUT hunter2; CONNECT_SHUTDOWN_TIMEOUT 25; CONNECT_SHUTDOWN_TIMEOUT -5s; \
    CONNECT_QUEUE_PREFIX hunter2 with spaces; CONNECT_QUEUE_MAX_LENGTH 0; CONNECT_QUEUE_MAX_LENGTH many; \
    CONNECT_LOG xml; OTEL_EXPORTER_OTLP_ENDPOINT localhost:4318; RUST_LOG info,=,hunter2=nonsense; \
    CONNECT_INGEST_ADDR localhost; CONNECT_REPLY_TIMEOUT 0s; CONNECT_MAX_BODY 4MB; \
    CONNECT_MAX_BODY 17MiB; CONNECT_BODY_BUDGET 7MiB; CONNECT_STORE_TIMEOUT 21s; CONNECT_READ_MAX_LAG 999ms; \
    CONNECT_TRUSTED_PROXIES 10.0.0.0/8,hunter2; CONNECT_TRUSTED_PROXIES 10.0.0.0/8,0.0.0.0/0; \
    CONNECT_TRUSTED_PROXIES ::/0; CONNECT_RETENTION_DELIVERIES hunter2; CONNECT_RETENTION_LEDGER hunter2; \
    CONNECT_RETENTION_LEDGER 89d; CONNECT_RETENTION_IDEMPOTENCY 23h; CONNECT_RETENTION_DEAD_LETTERS 50d; \
    CONNECT_WEBHOOK_ATTEMPTS 0; CONNECT_WEBHOOK_BACKOFF_BASE 0s; CONNECT_WEBHOOK_BACKOFF_CAP 31d; \
    CONNECT_WEBHOOK_CONCURRENCY 5001; CONNECT_WEBHOOK_TIMEOUT ten seconds; \
    CONNECT_WEBHOOK_ALLOW_PRIVATE perhaps; CONNECT_WEBHOOK_CA_FILE /no/such/file.pem";

#[tokio::test]
async fn names_each_malformed_setting_without_repeating_its_value() {
    // One program for each: what they have in common is read by the same code.
    let mut rest: Vec<_> = MALFORMED.split("; ").map(|row| row.split_once(' ').expect("a value")).collect();
    for program in SERVICES {
        let known = variables(&help(program).await);
        let is_known = |(name, _): &(&str, &str)| known.iter().any(|variable| variable == name);
        for (name, value) in rest.extract_if(.., |row| is_known(row)) {
            let line = assert_refused(program, &with(name, value), name).await;
            assert!(!line.contains("hunter2"), "{program}: {line}");
        }
    }
    assert_eq!(rest, [], "no program has these");
}

#[tokio::test]
async fn rejects_an_unknown_argument_with_one_line() {
    for program in SERVICES {
        let ran = CommandOutput::of(program, &["--port=80"], &valid()).await;
        assert_ne!(ran.code, Some(0), "{program}: {ran:?}");
        assert_eq!(ran.errors.lines().count(), 1, "{program}: {}", ran.errors);
        assert!(ran.errors.contains("--port"), "{program}: {}", ran.errors);
    }
}

/// A setting, as the programs that read it describe it.
struct Setting {
    name: String,
    default: String,
    meaning: String,
    read_by: Vec<&'static str>,
}

impl Setting {
    fn row(&self) -> String {
        let read_by = if self.read_by.len() == SERVICES.len() { "all".to_owned() } else { self.read_by.join(", ") };
        format!("| `{}` | {} | {read_by} | {} |", self.name, self.default, self.meaning)
    }
}

/// What a paragraph of `--help` says of a setting: name, default and meaning.
fn described(paragraph: &str) -> Option<(String, String, String)> {
    let (line, meaning) = paragraph.split_once('\n')?;
    assert!(meaning.lines().all(|line| line.len() <= 80), "{paragraph}");
    let (name, rest) = line.strip_prefix("  ")?.split_once(" (")?;
    let default = rest.strip_suffix(')')?;
    let is_variable = name.contains('_') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let default = default.strip_prefix("default ").map_or(default.to_owned(), |value| format!("`{value}`"));
    let meaning = meaning.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    is_variable.then(|| (name.to_owned(), default, meaning))
}

#[tokio::test]
async fn the_documented_table_has_the_rows_of_every_help_and_no_others() {
    let mut settings: Vec<Setting> = Vec::new();
    for program in SERVICES {
        let help = CommandOutput::of(program, &["--help"], &[]).await.output;
        let short = program.strip_prefix("connect-").expect("a program's name");
        for (name, default, meaning) in help.split("\n\n").filter_map(described) {
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
