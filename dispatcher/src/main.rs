//! connect-dispatcher: relays the outbox to RabbitMQ and delivers signed webhooks.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run::<dispatcher::settings::Settings>().await
}
