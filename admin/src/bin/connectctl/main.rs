//! connectctl: the command line of the operator and of the CRM. It works on Postgres directly. It uses RabbitMQ for dead
//! letters, and for advisor actions, which it publishes as the CRM does.
//!
//! The operations are in the library of this crate. Each noun has its arguments in `arguments`, and a file that turns them
//! into the input of an operation and shows its result. With `--json` a command prints exactly one
//! JSON value on standard output. Messages for people only go to standard error.

mod advisor;
mod arguments;
mod audit;
mod client;
mod company;
mod confirm;
mod console;
mod context;
mod delivery;
mod doctor;
mod error_text;
mod find;
mod key;
mod measure;
mod member;
mod migrate;
mod output;
mod queue;
mod refusals;
mod replay;
mod retention;
mod roles;
mod secrets;
mod subscription;
mod tenant;
mod views;

use arguments::{Arguments, Command};
use context::Context;
use output::Output;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::from_process();
    // Boxed: the state of all commands is large.
    match Box::pin(run(arguments)).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("connectctl: {}", error_text::text(&error));
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
        Command::Roles(args) => roles::run(&args, Output::new(json)),
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
        Command::Refusals(args) => refusals::run(args, &open().await?).await,
        Command::Audit(args) => audit::run(args, &mut open().await?).await,
        Command::Timeline(args) => views::timeline(args, &open().await?).await,
        Command::Inbox(args) => views::inbox(args, &open().await?).await,
        Command::Notifications(args) => views::notifications(args, &open().await?).await,
        Command::Discovery(args) => views::discovery(args, &open().await?).await,
        Command::Invoice(args) => views::invoice(args, &open().await?).await,
        Command::Pipeline(args) => views::pipeline(args, &open().await?).await,
        Command::Pressure(args) => measure::pressure(args, &open().await?).await,
        Command::Usage(args) => measure::usage(args, &open().await?).await,
    };
    done.map(|()| ExitCode::SUCCESS)
}
