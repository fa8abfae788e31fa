//! Which command lines are valid.

use super::*;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(line.split_whitespace())
}

#[test]
fn the_command_line_is_well_formed_and_its_help_is_wrapped_only_at_the_width_of_the_terminal() {
    Arguments::command().debug_assert();
    let mut commands = vec![Arguments::grouped()];
    while let Some(command) = commands.pop() {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for (line, next) in text.lines().zip(text.lines().skip(1).chain([""])) {
            assert!(line.len() <= 90 || !line.starts_with("  connectctl"), "{line}");
            let is_whole = line.is_empty() || line.starts_with(' ') || line.ends_with(['.', ':', ';']);
            assert!(is_whole || next.is_empty() || next.starts_with(' '), "broken in the source: {line}");
        }
        commands.extend(command.get_subcommands().cloned());
    }
}

#[test]
fn json_can_precede_or_follow_the_command() {
    for line in [
        "connectctl --json tenant list", "connectctl tenant --json list", "connectctl tenant list --json",
        "connectctl usage --tenant a --json",
    ] {
        assert!(parse(line).unwrap().json, "{line}");
    }
    assert!(!parse("connectctl migrate").unwrap().json);
}

#[test]
fn a_limit_that_makes_no_sense_is_refused_with_what_is_expected() {
    for command in ["create --slug a --name n", "set --tenant a"] {
        for (option, values, expected) in [
            ("--monthly-quota", ["-1", "9223372036854775808", "1.5"], "must be a whole number from 0 to"),
            ("--reads-per-second", ["-1", "0", "2147483648"], "is not in 1..=2147483647"),
        ] {
            for value in values {
                let error = parse(&format!("connectctl tenant {command} {option} {value}"));
                let error = error.unwrap_err().to_string();
                assert!(error.contains(value) && error.contains(expected), "{option} {value}: {error}");
            }
        }
    }
}

#[test]
fn wrong_usage_is_refused() {
    for line in [
        "connectctl",
        "connectctl tenant set --tenant a",
        "connectctl tenant set --tenant a --discovery yes",
        "connectctl key create --tenant a --name n --scopes events:ingest --expires-in 5",
        "connectctl key rotate-secret ck_1 --overlap 0s",
        "connectctl timeline --tenant a --client b --limit 0",
        "connectctl console login --role admin",
        "connectctl console login --role root",
        "connectctl console partner-link",
        "connectctl console partner-link --tenant a --role operator",
        "connectctl console partner-link --tenant a",
        "connectctl console revoke-partners",
        "connectctl console end-sessions",
        "connectctl console end-sessions --all --name a",
        "connectctl refusals --tenant a --limit 0",
        "connectctl advisor archive --tenant a",
        "connectctl subscription rotate-secret id --overlap 5",
        "connectctl delivery list --tenant a --limit 0",
        "connectctl delivery replay",
        "connectctl delivery replay --dead",
        "connectctl delivery replay --tenant a",
        "connectctl delivery replay id --tenant a --dead",
        "connectctl delivery replay --tenant a --rate 5",
        "connectctl delivery replay --tenant a --state pending",
        "connectctl delivery replay --tenant a --state dead --rate 0",
        "connectctl delivery replay --tenant a --state dead --rate 1001",
        "connectctl delivery replay --tenant a --state dead --dry-run --no-wait",
        "connectctl delivery replay --tenant a --event-type webhook.test",
        "connectctl delivery replay --state dead",
        "connectctl delivery replay id --state dead --tenant a",
        "connectctl subscription events id",
        "connectctl subscription events id --all --set lead.assigned",
        "connectctl delivery replay --tenant a --from yesterday --to 2026-05-01T10:00:00Z",
        "connectctl queue show events",
        "connectctl queue requeue events",
        "connectctl queue drop --dead",
        "connectctl audit --limit 0",
        "connectctl client erase --tenant a",
        "connectctl audit --from yesterday",
    ] {
        assert!(parse(line).is_err_and(|error| error.exit_code() == 2), "{line}");
    }
}

#[test]
fn replay_accepts_an_id_all_dead_deliveries_or_a_filter() {
    for line in [
        "connectctl delivery replay id",
        "connectctl delivery replay --dead --tenant a",
        "connectctl delivery replay --tenant a --from 2026-05-01T10:00:00Z --to 2026-05-01T12:00:00+02:00",
        "connectctl delivery replay --tenant a --from 2026-05-01T10:00:00Z --to 2026-05-02T10:00:00Z --dead",
        "connectctl delivery replay --tenant a --event-type lead.assigned --rate 1000",
        "connectctl delivery replay --tenant a --subscription 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --no-wait",
        "connectctl delivery replay --tenant a --dead --dry-run",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn every_command_is_in_one_group_of_the_help() {
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let command = Arguments::command();
    let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    grouped.sort_unstable();
    all.sort_unstable();
    assert_eq!(grouped, all);
    let help = Arguments::grouped().render_help().to_string();
    assert!(help.contains("Webhooks:\n  subscription  Manage the webhook"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    assert!(help.contains("--json") && !help.contains("DATABASE_URL"), "{help}");
}

#[test]
fn help_settings_prints_every_setting_that_a_command_needs_in_lines_of_100() {
    let printed = Arguments::grouped().try_get_matches_from(["connectctl", "help", "settings"]).unwrap_err();
    assert_eq!((printed.kind(), printed.exit_code()), (ErrorKind::DisplayHelp, 0));
    let help = printed.to_string();
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    for name in [
        "DATABASE_URL (required)",
        "DATABASE_DIRECT_URL (optional)",
        "CONNECT_QUEUE_MAX_LENGTH (default 100000)",
        "CONNECT_MASTER_KEY_PREVIOUS (optional)",
        "AMQP_URL (required)",
        "CONNECT_QUEUE_PREFIX (default connect)",
        "CONNECT_MASTER_KEY (required",
        "CONNECT_WEBHOOK_ALLOW_PRIVATE (default false)",
        "CONNECT_RETENTION_DELIVERIES (default 30d)",
    ] {
        assert!(help.contains(name), "{name}");
    }
}
