//! The progress that `make run` and `make bench` print.

use tests::CommandOutput;

/// A script of two steps, as the real ones have more.
const SCRIPT: &str = concat!(
    "source ",
    env!("CARGO_MANIFEST_DIR"),
    "/../ops/local/stack.sh; STEPS=2; step 'starting servers'; step 'building'"
);

#[tokio::test]
async fn prints_each_step_as_a_line_and_on_a_terminal_as_a_bar() {
    let told = CommandOutput::bash(SCRIPT, &[]).await;
    assert_eq!(told.output, "1 of 2: starting servers\n2 of 2: building\n", "{told:?}");
    let on_terminal = format!("script --quiet --return --command \"bash -euc \\\"{SCRIPT}\\\"\" /dev/null");
    let seen = CommandOutput::bash(&on_terminal, &[]).await;
    let lines: Vec<&str> = seen.output.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["[....] 1 of 2: starting servers", "[##..] 2 of 2: building"], "{seen:?}");
}

#[test]
fn every_script_declares_its_number_of_steps() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for script in ["local/run.sh", "local/bench.sh", "local/test.sh"] {
        let script = std::fs::read_to_string(format!("{root}/ops/{script}")).expect("a script");
        let steps = script.lines().filter(|line| line.trim_start().starts_with("step ")).count();
        // Two are `start_servers`'s: installing what is missing, and starting servers.
        assert!(script.contains(&format!("\nSTEPS={}\n", steps + 2)), "{steps} and 2 steps");
    }
}
