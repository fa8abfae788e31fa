//! connectctl: the command line of the operator and of the CRM. It works on Postgres directly. It uses RabbitMQ for dead
//! letters, and for advisor actions, which it publishes as the CRM does.
//!
//! The operations are in the library of this crate. Each noun has a file with its arguments, which turns them
//! into the input of an operation and shows its result. With `--json` a command prints exactly one
//! JSON value on standard output. Messages for people only go to standard error.

mod advisor;
mod arguments;
mod audit;
mod client;
mod company;
mod console;
mod context;
mod delivery;
mod doctor;
mod find;
mod key;
mod member;
mod migrate;
mod output;
mod queue;
mod replay;
mod retention;
mod secrets;
mod subscription;
mod tenant;
mod views;

use admin::{AdminError, describe};
use arguments::{Arguments, Command, settings_help, wrap};
use common::model::{DeliveryState, text};
use context::Context;
use output::Output;
use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::from_process();
    // Boxed: the state of all commands is large.
    match Box::pin(run(arguments)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("connectctl: {}", text::escaped(&error_text(&error)));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { json, command } = arguments;
    // Only some commands need the database: queues can be inspected while Postgres is unavailable.
    let open = async || Context::open(json).await;
    let done = match command {
        // Boxed: the state of all checks is large.
        Command::Doctor(args) => return Box::pin(doctor::run(args, Output::new(json))).await,
        Command::Migrate(args) => migrate::run(args, &mut open().await?).await,
        Command::Roles(args) => migrate::print_roles(&args, Output::new(json)),
        Command::Tenant(command) => tenant::run(command, &mut open().await?).await,
        Command::Member(command) => member::run(command, &mut open().await?).await,
        Command::Key(command) => key::run(command, &mut open().await?).await,
        Command::Client(command) => client::run(command, &mut open().await?).await,
        Command::Company(command) => company::run(command, &mut open().await?).await,
        Command::Subscription(command) => subscription::run(command, &mut open().await?).await,
        Command::Delivery(command) => delivery::run(command, &mut open().await?).await,
        Command::Replay(command) => replay::run(command, &mut open().await?).await,
        Command::Find(args) => find::run(args, &open().await?).await,
        Command::Console(command) => console::run(command, &mut open().await?).await,
        Command::Queue(command) => queue::run(command, json).await,
        Command::Secrets(command) => secrets::run(command, &mut open().await?).await,
        Command::Retention(command) => retention::run(command, &mut open().await?).await,
        Command::Advisor(command) => advisor::run(command, &mut open().await?).await,
        Command::Refusals(args) => views::refusals(args, &open().await?).await,
        Command::Audit(args) => audit::run(args, &mut open().await?).await,
        Command::Timeline(args) => views::timeline(args, &open().await?).await,
        Command::Inbox(args) => views::inbox(args, &open().await?).await,
        Command::Notifications(args) => views::notifications(args, &open().await?).await,
        Command::Discovery(args) => views::discovery(args, &open().await?).await,
        Command::Invoice(args) => views::invoice(args, &open().await?).await,
        Command::Pipeline(args) => views::pipeline(args, &open().await?).await,
        Command::Pressure => views::pressure(&open().await?).await,
        Command::Usage(of) => views::usage(of, &open().await?).await,
        Command::Settings if !json && stdout().is_terminal() => Output::new(json).print_text(&wrap(settings_help())),
        Command::Settings => Output::new(json).print_help(&settings_help()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::grouped(), "connectctl", &mut script);
            Output::new(json).print_help(&String::from_utf8_lossy(&script))
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// The error and its causes, outermost first, in one line, with a hint about the command that helps.
fn error_text(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref().map(hint).unwrap_or_default();
    format!("{}{hint}", describe(&**error))
}

/// What is added to the text of an operation's error, for the user of the command line.
fn hint(error: &AdminError) -> String {
    if let AdminError::NoReply { id } = error {
        return format!("; repeat the command with --message-id {id}");
    }
    if let AdminError::OverlapRuns(_) = error {
        return "; wait until then, or pass --replace-overlap".to_owned();
    }
    if let AdminError::DeliveryNotReplayable(id, DeliveryState::Pending) = error {
        return format!("; next attempt: connectctl delivery show {id}; at once: \"Send now\" in the settings area");
    }
    if describe(error).ends_with("is not public: loopback") {
        return "; set CONNECT_WEBHOOK_ALLOW_PRIVATE=true, for connect-dispatcher too, to try webhooks here".to_owned();
    }
    let list = if matches!(error, AdminError::TenantNotFound(_)) {
        "tenant"
    } else if matches!(error, AdminError::MemberNotFound { .. }) {
        "member"
    } else if matches!(error, AdminError::KeyNotFound(_) | AdminError::KeyNotActive(_)) {
        "key"
    } else {
        return String::new();
    };
    format!("; see connectctl {list} list")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use uuid::Uuid;

    #[test]
    fn causes_are_joined_in_one_line() {
        let error = anyhow!("connection refused\n(os error 111)").context("cannot reach\nthe database");
        assert_eq!(error_text(&error), "cannot reach the database: connection refused (os error 111)");
    }

    #[test]
    fn an_error_names_the_command_that_helps() {
        let error = anyhow::Error::from(AdminError::TenantNotFound("acme".to_owned()));
        assert_eq!(error_text(&error), "tenant \"acme\" does not exist; see connectctl tenant list");
        let error = anyhow::Error::from(AdminError::NoReply { id: Uuid::nil() });
        assert!(error_text(&error).ends_with(&format!("; repeat the command with --message-id {}", Uuid::nil())));
        let error = AdminError::ReceiverRefused("address 127.0.0.1 is not public: loopback".to_owned());
        assert!(error_text(&error.into()).contains(": loopback; set CONNECT_WEBHOOK_ALLOW_PRIVATE=true"));
    }
}
