//! Asking for confirmation on the terminal.

use anyhow::{bail, ensure};
use std::io::{IsTerminal as _, stderr, stdin};

/// Asks `question`. Fails unless it is confirmed; the error says that `unchanged`.
pub(crate) async fn confirm(question: &str, unchanged: &str) -> anyhow::Result<()> {
    ensure!(
        stdin().is_terminal() && stderr().is_terminal(),
        "standard input is not a terminal; pass --yes to confirm"
    );
    eprint!("{question} [y/N] ");
    // On another thread, so that the runtime keeps the broker's connection alive meanwhile.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        stdin().read_line(&mut line).map(|_| line)
    });
    match answer.await??.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("not confirmed; {unchanged}"),
    }
}
