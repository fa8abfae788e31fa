//! `connectctl advisor`: publishes advisor actions as the CRM does (operator's contract: Advisor actions).

pub(crate) mod arguments;

use crate::context::Context;
use crate::output::Show;
use admin::AdminError;
use admin::advisor::{
    self, Action, Assign, BookingCancel, BookingConfirm, LeadOnly, OpenLead, ProposalSend, StageChange,
};
use arguments::Command;
use common::advisor::ActionReply;
use common::broker::{Broker, MessageKeys, Queue, QueueUse, Rpc};
use common::settings::BrokerSettings;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Maximum time for closing the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const QUEUES: QueueUse = QueueUse { publishes: &[Queue::Crm], consumes: &[], retry_levels: 0 };

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let Command { options, action } = command;
    let id = options.message_id.unwrap_or_else(Uuid::now_v7);
    let reply = publish(context, id, &self::action(action), options.timeout).await?;
    context.output.print_one(&reply)
}

/// Connects, publishes the action, and returns the worker's reply.
async fn publish(
    context: &mut Context,
    id: Uuid,
    action: &Action,
    reply_timeout: Duration,
) -> anyhow::Result<ActionReply> {
    let (settings, master_keys) = (context.settings::<BrokerSettings>()?, context.master_keys()?);
    let keys = MessageKeys::new(&master_keys, &settings.prefix);
    let shutdown = CancellationToken::new();
    let broker = Broker::start(&settings, keys, "connectctl", QUEUES, shutdown.clone());
    let rpc = Rpc::start(&broker, Queue::Crm, shutdown.clone());
    let Context { database, actor, .. } = context;
    let reply: Result<ActionReply, AdminError> =
        advisor::publish(database, actor, &rpc, id, action, reply_timeout).await;
    shutdown.cancel();
    // A connection that is cut would do no harm, but the broker would log a warning.
    drop(timeout(CLOSE_TIMEOUT, broker.closed()).await);
    Ok(reply?)
}

fn action(arguments: arguments::Action) -> Action {
    use arguments::Action as Given;
    match arguments {
        Given::OpenLead(given) => Action::OpenLead(open_lead(given)),
        Given::Assign(arguments::Assign { of, owner }) => Action::Assign(Assign { of: lead(of), owner }),
        Given::Stage(arguments::Stage { of, stage, reason }) => {
            Action::Stage(StageChange { of: lead(of), stage, reason })
        }
        Given::Archive(of) => Action::Archive(lead(of)),
        Given::Travelled(of) => Action::Travelled(lead(of)),
        Given::ProposalSend(arguments::ProposalSend { of, title, url, channel }) => {
            Action::ProposalSend(ProposalSend { of: lead(of), title, url, channel })
        }
        Given::ProposalView(of) => Action::ProposalView(lead(of)),
        Given::ProposalDiscard(of) => Action::ProposalDiscard(lead(of)),
        Given::BookingConfirm(given) => Action::BookingConfirm(booking_confirm(given)),
        Given::BookingCancel(arguments::BookingCancel { tenant, booking_ref, reason }) => {
            Action::BookingCancel(BookingCancel { tenant, booking_ref, reason })
        }
    }
}

fn lead(given: arguments::LeadArgs) -> LeadOnly {
    let arguments::LeadArgs { tenant, lead } = given;
    LeadOnly { tenant, lead }
}

fn open_lead(given: arguments::OpenLead) -> OpenLead {
    let arguments::OpenLead { tenant, client, email, name, no_trip, title, destination } = given;
    OpenLead { tenant, client, email, name, no_trip, title, destination }
}

fn booking_confirm(given: arguments::BookingConfirm) -> BookingConfirm {
    let arguments::BookingConfirm { of, booking_ref, amount, currency, credit_used } = given;
    BookingConfirm { of: lead(of), booking_ref, amount, currency, credit_used }
}

impl Show for ActionReply {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use common::advisor::{ActionName, AdvisorAction};
    use serde_json::{Value, json};

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
        let command = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        serde_json::to_value(action(command.action)).unwrap()
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
    fn every_action_of_the_contract_is_a_command_that_the_worker_parses() {
        let mut names = Vec::new();
        for line in LINES {
            let read = AdvisorAction::parse(body(line).to_string().as_bytes());
            names.push(read.unwrap_or_else(|refusal| panic!("{line}: {refusal:?}")).action.name());
        }
        names.dedup();
        assert_eq!(names, ActionName::ALL);
    }

    #[test]
    fn options_become_fields_and_omitted_options_do_not() {
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
    fn publish_options_can_precede_or_follow_the_action() {
        let id = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
        for line in [
            format!("--timeout 5s --message-id {id} archive --tenant a --lead 1"),
            format!("archive --tenant a --lead 1 --timeout 5s --message-id {id}"),
        ] {
            let Command { options, .. } = parse(&line).unwrap();
            assert_eq!(options.timeout, Duration::from_secs(5));
            assert_eq!(options.message_id.map(|id| id.to_string()).as_deref(), Some(id));
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
}
