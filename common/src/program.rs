//! How each service begins and ends: arguments, settings, logs, exit codes.

use crate::settings::{Environment, LogSettings, SettingError, TraceSettings, Variable, answer_arguments};
use std::fmt::Display;
use std::process::ExitCode;

/// The allocator of all programs. A batch is thousands of short-lived strings.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A service's name and its settings.
pub trait Program: Sized {
    /// Its name, as the binary is called.
    const NAME: &'static str;
    /// What it does, for `--help`.
    const ABOUT: &'static str;
    /// Every variable it reads.
    const VARIABLES: &'static [&'static [Variable]];

    /// Reads its settings.
    fn read(env: &Environment) -> Result<Self, SettingError>;

    /// How it logs.
    fn log(&self) -> &LogSettings;

    /// Where its spans go.
    fn trace(&self) -> &TraceSettings;
}

/// Runs a service. Whatever keeps it from running is one line on standard error and exit code 1.
pub async fn run<P: Program, E: Display>(service: impl AsyncFnOnce(P) -> Result<(), E>) -> ExitCode {
    match answer_arguments(P::NAME, P::ABOUT, P::VARIABLES) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(unknown) => return refuse(&unknown),
    }
    let settings = match P::read(&Environment::of_process()) {
        Ok(settings) => settings,
        Err(error) => return refuse(&error),
    };
    if let Err(error) = crate::telemetry::start(settings.log()) {
        return refuse(&error);
    }
    let exporter = match crate::trace::start(settings.trace(), P::NAME) {
        Ok(exporter) => exporter,
        Err(error) => return refuse(&error),
    };
    let ended = service(settings).await;
    exporter.flush().await;
    crate::telemetry::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

fn refuse(line: &impl Display) -> ExitCode {
    // Where nobody can be told there is still the exit code.
    crate::telemetry::print_last(&format!("{line}\n"));
    ExitCode::FAILURE
}
