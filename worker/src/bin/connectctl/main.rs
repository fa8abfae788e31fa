//! connectctl: the command line of the operator and of the CRM. It works on Postgres directly, but for advisor actions,
//! which it publishes as the CRM does.
//!
//! Each noun has a file: its arguments, its statements, and what it shows. With `--json` a command prints exactly one
//! JSON value on standard output; everything for people's eyes only goes to standard error.

mod advisor;
mod arguments;
mod company;
mod context;
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
mod receiver;
mod rows;
mod sealing;
mod subscription;
mod tenant;
mod text;
mod timeline;
mod usage;

use arguments::{Arguments, Command, Request};
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
    match arguments.request {
        Request::Advisor(command) => advisor::run(command, Output::new(arguments.json)).await,
        Request::OnDatabase(command) => on_database(command, Context::open(arguments.json).await?).await,
    }
}

async fn on_database(command: Command, mut context: Context) -> anyhow::Result<()> {
    match command {
        Command::Migrate => migrate::run(&mut context).await,
        Command::Tenant(command) => tenant::run(command, &context).await,
        Command::Member(command) => member::run(command, &context).await,
        Command::Key(command) => key::run(command, &context).await,
        Command::Company(command) => company::run(command, &context).await,
        Command::Subscription(command) => subscription::run(command, &context).await,
        Command::Timeline(wanted) => timeline::run(wanted, &context).await,
        Command::Inbox(wanted) => inbox::run(wanted, &context).await,
        Command::Notifications(wanted) => notification::run(wanted, &context).await,
        Command::Discovery(wanted) => discovery::run(wanted, &context).await,
        Command::Invoice(wanted) => invoice::run(wanted, &context).await,
        Command::Pipeline(wanted) => pipeline::run(wanted, &context).await,
        Command::Usage(wanted) => usage::run(wanted, &context).await,
    }
}
