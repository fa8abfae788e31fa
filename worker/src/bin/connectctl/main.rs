//! connectctl: the command line of the operator and of the CRM. It works on Postgres directly, and on RabbitMQ where
//! dead letters are concerned, and advisor actions, which it publishes as the CRM does.
//!
//! Each noun has a file: its arguments, its statements, and what it shows. With `--json` a command prints exactly one
//! JSON value on standard output; everything for people's eyes only goes to standard error.

mod advisor;
mod arguments;
mod company;
mod context;
mod delivery;
mod discovery;
mod fault;
mod inbox;
mod invoice;
mod key;
mod lookup;
mod member;
mod migrate;
mod notification;
mod output;
mod pipeline;
mod pressure;
mod queue;
mod receiver;
mod rows;
mod sealing;
mod subscription;
mod tenant;
mod text;
mod timeline;
mod usage;

use arguments::{Arguments, Command};
use context::Context;
use output::Output;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::of_process();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connectctl: {}", fault::describe(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { json, command } = arguments;
    // Not for all of them: queues can be looked at while Postgres is down.
    let open = async || Context::open(json).await;
    match command {
        Command::Migrate => migrate::run(&mut open().await?).await,
        Command::Tenant(command) => tenant::run(command, &open().await?).await,
        Command::Member(command) => member::run(command, &open().await?).await,
        Command::Key(command) => key::run(command, &open().await?).await,
        Command::Company(command) => company::run(command, &open().await?).await,
        Command::Subscription(command) => subscription::run(command, &mut open().await?).await,
        Command::Delivery(command) => delivery::run(command, &mut open().await?).await,
        Command::Queue(command) => queue::run(command, json).await,
        Command::Advisor(command) => advisor::run(command, Output::new(json)).await,
        Command::Timeline(wanted) => timeline::run(wanted, &open().await?).await,
        Command::Inbox(wanted) => inbox::run(wanted, &open().await?).await,
        Command::Notifications(wanted) => notification::run(wanted, &open().await?).await,
        Command::Discovery(wanted) => discovery::run(wanted, &open().await?).await,
        Command::Invoice(wanted) => invoice::run(wanted, &open().await?).await,
        Command::Pipeline(wanted) => pipeline::run(wanted, &open().await?).await,
        Command::Pressure(wanted) => pressure::run(wanted, &open().await?).await,
        Command::Usage(wanted) => usage::run(wanted, &open().await?).await,
    }
}
