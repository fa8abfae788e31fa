//! `connectctl advisor`: advisor actions, as the CRM publishes them (operator's contract: Advisor actions).
//!
//! A command is the message: its options are the fields, in kebab case. Whether it is an action, and whether it is
//! allowed, is the worker's to say.

mod queue;

use crate::output::{Output, Show};
use anyhow::bail;
use clap::{Args, Subcommand};
use common::advisor::ActionDone;
use common::settings::SettingValue;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use uuid::Uuid;

/// How an action travels.
#[derive(Debug, Args)]
pub(crate) struct Sending {
    /// How long to wait for the answer
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = Duration::read)]
    timeout: Duration,
    /// Id of the message, a UUID: an action is done once for each. Repeat a command that got no answer with its id
    /// [default: a new one]
    #[arg(long, global = true, value_name = "ID")]
    message_id: Option<Uuid>,
}

#[derive(Debug, Args)]
pub(crate) struct Command {
    #[command(flatten)]
    sending: Sending,
    #[command(subcommand)]
    action: Action,
}

/// Serialized, it is the message's body.
#[derive(Debug, Subcommand, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
enum Action {
    /// Open an enquiry
    #[command(after_help = "Examples:
  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana
  connectctl advisor open-lead --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e --no-trip")]
    OpenLead(OpenLead),
    /// Give an enquiry to a member, who is told
    Assign(Assign),
    /// Put an enquiry at a stage
    Stage(Stage),
    /// Put an enquiry away
    Archive(OfLead),
    /// The trip of an enquiry is over
    Travelled(OfLead),
    /// Send the proposal of an enquiry's trip, once or again
    ProposalSend(ProposalSend),
    /// The traveller opened the proposal
    ProposalView(OfLead),
    /// Throw the proposal away
    ProposalDiscard(OfLead),
    /// Book an enquiry
    #[command(after_help = "Example:
  connectctl advisor booking-confirm --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e \\
      --booking-ref BR-1 --amount 125000.50 --currency INR --credit-used 5000")]
    BookingConfirm(BookingConfirm),
    /// Cancel a booking, however it was made
    BookingCancel(BookingCancel),
}

#[derive(Debug, Args, Serialize)]
struct OfLead {
    /// The agency, by its slug
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// The enquiry, by its id
    #[arg(long, value_name = "ID")]
    lead: String,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenLead {
    /// The agency, by its slug
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// The client whose enquiry it is, by its id
    #[arg(long, value_name = "ID", required_unless_present = "email", conflicts_with_all = ["email", "name"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Email of the client, who is found by it or made
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// Full name of the client
    #[arg(long, requires = "email")]
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Open no trip workspace with it
    #[arg(long)]
    no_trip: bool,
    /// Title of the enquiry
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Where to
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
}

#[derive(Debug, Args, Serialize)]
struct Assign {
    #[command(flatten)]
    #[serde(flatten)]
    of: OfLead,
    /// Email of an active member
    #[arg(long, value_name = "EMAIL")]
    owner: String,
}

#[derive(Debug, Args, Serialize)]
struct Stage {
    #[command(flatten)]
    #[serde(flatten)]
    of: OfLead,
    /// The stage, such as follow_up
    #[arg(long)]
    stage: String,
    /// Why; needed for lost
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Args, Serialize)]
struct ProposalSend {
    #[command(flatten)]
    #[serde(flatten)]
    of: OfLead,
    /// Title of the proposal
    #[arg(long)]
    title: String,
    /// Where the traveller opens it
    #[arg(long)]
    url: String,
    /// How it is sent, such as email
    #[arg(long)]
    channel: String,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct BookingConfirm {
    #[command(flatten)]
    #[serde(flatten)]
    of: OfLead,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    booking_ref: String,
    /// Booking amount in major units, such as 1234.50
    #[arg(long, value_name = "DECIMAL", requires = "currency")]
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<String>,
    /// ISO 4217 code of the amount
    #[arg(long, value_name = "CODE", requires = "amount")]
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    /// Corporate credit that counts as paid, in major units
    #[arg(long, value_name = "DECIMAL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_used: Option<String>,
}

#[derive(Debug, Args, Serialize)]
#[serde(rename_all = "camelCase")]
struct BookingCancel {
    /// The agency, by its slug
    #[arg(long, value_name = "SLUG")]
    tenant: String,
    /// Reference of the booking
    #[arg(long, value_name = "REF")]
    booking_ref: String,
    /// Why
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Show for ActionDone {
    const COLUMNS: &'static [&'static str] = &["Lead", "Stage", "Client", "Trip", "Proposal", "Booking"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.lead_id.to_string()),
            Some(self.stage.to_string()),
            Some(self.client_id.to_string()),
            self.trip_id.map(|id| id.to_string()),
            self.proposal_id.map(|id| id.to_string()),
            self.booking_ref.clone(),
        ]
    }
}

pub(crate) async fn run(command: Command, output: Output) -> anyhow::Result<()> {
    let Command { sending, action } = command;
    let id = sending.message_id.unwrap_or_else(Uuid::now_v7);
    let answer = queue::ask(id, &serde_json::to_vec(&action)?, sending.timeout).await?;
    output.one(&read(&answer)?)
}

/// What was done, or the error that it was refused with.
fn read(answer: &[u8]) -> anyhow::Result<ActionDone> {
    let answer: Value = serde_json::from_slice(answer)?;
    if answer["ok"] == true {
        return Ok(serde_json::from_value(answer)?);
    }
    let text = |field: &str| answer[field].as_str().unwrap_or("unknown").to_owned();
    bail!("{} {}: {}", answer["statusCode"], text("code"), text("message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use common::advisor::{ActionName, AdvisorAction};
    use serde_json::json;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("advisor").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.command)
    }

    fn body(line: &str) -> Value {
        serde_json::to_value(parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).action).unwrap()
    }

    /// One of each action, with all of its options.
    const LINES: [&str; 11] = [
        "open-lead --tenant a --email ana@example.com --name Ana --no-trip --title T --destination Goa",
        "open-lead --tenant a --client 1",
        "assign --tenant a --lead 1 --owner asha@acme.test",
        "stage --tenant a --lead 1 --stage lost --reason expensive",
        "archive --tenant a --lead 1",
        "travelled --tenant a --lead 1",
        "proposal-send --tenant a --lead 1 --title T --url https://a.b/ --channel email",
        "proposal-view --tenant a --lead 1",
        "proposal-discard --tenant a --lead 1",
        "booking-confirm --tenant a --lead 1 --booking-ref B --amount 1234.50 --currency INR --credit-used 5",
        "booking-cancel --tenant a --booking-ref B --reason illness",
    ];

    #[test]
    fn every_action_of_the_contract_is_a_command_that_the_worker_can_read() {
        let mut names = Vec::new();
        for line in LINES {
            let read = AdvisorAction::parse(body(line).to_string().as_bytes());
            names.push(read.unwrap_or_else(|refusal| panic!("{line}: {refusal:?}")).action.name());
        }
        names.dedup();
        assert_eq!(names, ActionName::ALL);
    }

    #[test]
    fn options_become_fields_and_what_is_left_out_is_no_field() {
        let expected = json!({"action": "booking-confirm", "tenant": "a", "lead": "1", "bookingRef": "B",
                              "amount": "1234.50", "currency": "INR", "creditUsed": "5"});
        assert_eq!(body(LINES[9]), expected);
        assert_eq!(
            body(LINES[1]),
            json!({"action": "open-lead", "tenant": "a", "client": "1", "noTrip": false})
        );
        assert_eq!(
            body("booking-cancel --tenant a --booking-ref B"),
            json!({"action": "booking-cancel", "tenant": "a", "bookingRef": "B"})
        );
    }

    #[test]
    fn how_it_travels_is_said_before_or_after_the_action() {
        let id = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
        for line in [
            format!("--timeout 5s --message-id {id} archive --tenant a --lead 1"),
            format!("archive --tenant a --lead 1 --timeout 5s --message-id {id}"),
        ] {
            let Command { sending, .. } = parse(&line).unwrap();
            assert_eq!(sending.timeout, Duration::from_secs(5));
            assert_eq!(sending.message_id.map(|id| id.to_string()).as_deref(), Some(id));
        }
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "",
            "archive --tenant a",
            "archive --lead 1",
            "open-lead --tenant a",
            "open-lead --tenant a --name Ana",
            "open-lead --tenant a --client 1 --email a@b.c",
            "open-lead --tenant a --client 1 --name Ana",
            "assign --tenant a --lead 1",
            "stage --tenant a --lead 1",
            "proposal-send --tenant a --lead 1 --title T --url https://a.b/",
            "booking-confirm --tenant a --lead 1 --booking-ref B --amount 5",
            "booking-cancel --tenant a",
            "archive --tenant a --lead 1 --timeout 5",
            "archive --tenant a --lead 1 --message-id 1",
        ] {
            assert!(parse(line).is_err_and(|error| error.exit_code() == 2), "{line}");
        }
    }

    #[test]
    fn a_refusal_is_told_with_status_code_and_message() {
        let refused = br#"{"statusCode": 404, "code": "not_found", "message": "No such record"}"#;
        assert_eq!(read(refused).unwrap_err().to_string(), "404 not_found: No such record");
    }
}
