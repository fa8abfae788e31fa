//! Start and end of a service: arguments, settings, logs, exit codes.

use crate::db::{SchemaRefusal, SchemaState, until_refused, verify_schema};
use crate::settings::{
    DatabaseSettings, Environment, LogSettings, SettingError, TraceSettings, Variable, handle_arguments,
};
use std::fmt::Display;
use std::process::ExitCode;
use thiserror::Error;

/// The allocator of all programs, because a batch is thousands of short-lived strings.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A service's name and its settings.
pub trait Program: Sized {
    /// The name of the binary.
    const NAME: &'static str;
    /// Description for `--help`.
    const ABOUT: &'static str;
    /// Every variable it reads.
    const VARIABLES: &'static [&'static [Variable]];

    /// Reads and checks its settings.
    fn from_env(env: &Environment) -> Result<Self, SettingError>;

    /// Settings that the program logs with from its start.
    fn log(&self) -> &LogSettings;

    /// The database whose schema must be the program's; `None` for a program without one.
    fn database(&self) -> Option<&DatabaseSettings> {
        None
    }

    /// Settings of the exporter of spans.
    fn trace(&self) -> &TraceSettings;
}

/// Runs a service. An error is printed as one line on standard error, with exit code 1.
pub async fn run<P: Program, E: Display>(service: impl AsyncFnOnce(P) -> Result<(), E>) -> ExitCode {
    match handle_arguments(P::NAME, P::ABOUT, P::VARIABLES) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(unknown) => return exit_with_error(&unknown),
    }
    let settings = match P::from_env(&Environment::from_process()) {
        Ok(settings) => settings,
        Err(error) => return exit_with_error(&error),
    };
    if let Err(error) = crate::telemetry::start(settings.log()) {
        return exit_with_error(&error);
    }
    let exporter = match crate::trace::start(settings.trace(), P::NAME) {
        Ok(exporter) => exporter,
        Err(error) => return exit_with_error(&error),
    };
    let url = settings.database().map(|database| database.direct_url.clone());
    let schema = match &url {
        Some(url) => verify_schema(url).await,
        None => Ok(SchemaState::Accepted),
    };
    let state = match schema {
        Ok(state) => state,
        Err(refusal) => {
            crate::telemetry::flush();
            return exit_with_error(&refusal);
        }
    };
    let refused_later = async {
        match &url {
            Some(url) => until_refused(url, state).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = Box::pin(service(settings)) => ended.map_err(ProgramError::Service),
        // What is under way is repeated, as after a crash.
        refusal = refused_later => Err(ProgramError::Schema(refusal)),
    };
    if ended.is_ok() {
        tracing::info!("shutdown complete; exiting");
    }
    exporter.flush().await;
    crate::telemetry::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_with_error(&error),
    }
}

/// Why a program has ended.
#[derive(Debug, Error)]
enum ProgramError<E> {
    #[error("{0}")]
    Service(E),
    #[error(transparent)]
    Schema(SchemaRefusal),
}

fn exit_with_error(line: &impl Display) -> ExitCode {
    // The exit code reports the error even if standard error cannot be written.
    crate::telemetry::print_last(&format!("{line}\n"));
    ExitCode::FAILURE
}
