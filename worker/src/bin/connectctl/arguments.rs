//! The command line as a whole, and the arguments that several commands have.

use crate::{
    advisor, company, delivery, discovery, inbox, invoice, key, member, notification, pipeline, pressure,
    queue, subscription, tenant, timeline, usage,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use common::egress::EgressSettings;
use common::settings::{
    BrokerSettings, DatabaseSettings, MessageSettings, SealingSettings, Section, Variable,
};

/// Operates Connect: schema, agencies, members, API keys, webhooks, queues, and what the CRM shows of an agency.
#[derive(Debug, Parser)]
#[command(name = "connectctl", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// Print one JSON value on standard output instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring the database schema up to date; safe to run twice and from two places at once
    #[command(after_help = "Examples:\n  connectctl migrate\n  connectctl migrate --json")]
    Migrate,
    /// Agencies
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl tenant create --slug acme --name 'Acme Travel'\n  connectctl tenant list"
    )]
    Tenant(tenant::Command),
    /// Advisors of an agency, who own its enquiries
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'\n  connectctl member list --tenant acme"
    )]
    Member(member::Command),
    /// API keys of an agency
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl key create --tenant acme --name website --scopes events:ingest\n  connectctl key list --tenant acme"
    )]
    Key(key::Command),
    /// Company accounts of an agency
    #[command(
        subcommand,
        after_help = "Example:\n  connectctl company create --tenant acme --name 'Example Ltd' --domain example.com"
    )]
    Company(company::Command),
    /// Act as an advisor does in the CRM: publishes the action and prints the worker's answer
    #[command(
        after_help = "Examples:\n  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana\n  connectctl advisor archive --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Advisor(advisor::Command),
    /// Webhook subscriptions of an agency
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl subscription create --tenant acme --url https://partner.example/hooks\n  connectctl subscription list --tenant acme"
    )]
    Subscription(subscription::Command),
    /// Webhooks on their way to a subscription, and those that failed
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl delivery list --tenant acme --state dead\n  connectctl delivery replay --dead --tenant acme"
    )]
    Delivery(delivery::Command),
    /// Queues and their dead letters
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl queue list\n  connectctl queue show events --dead\n  connectctl queue requeue events --dead"
    )]
    Queue(queue::Command),
    /// Show the timeline of a client
    Timeline(timeline::Wanted),
    /// Show the inbox thread of an enquiry
    Inbox(inbox::Wanted),
    /// Show what the members of an agency were told
    Notifications(notification::Wanted),
    /// Show what a client looks for
    Discovery(discovery::Wanted),
    /// Show the bookings of an enquiry and what is owed for them
    Invoice(invoice::Wanted),
    /// Show the enquiries of an agency
    Pipeline(pipeline::Wanted),
    /// Show the agencies whose requests are refused because too much of their work waits to be applied
    Pressure(pressure::Wanted),
    /// Show how many records writes of this month count against the quota
    Usage(usage::Wanted),
}

/// Whose records.
#[derive(Debug, Args)]
pub(crate) struct OfTenant {
    /// The agency, by its slug
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) slug: String,
}

/// Whose timeline or discovery.
#[derive(Debug, Args)]
pub(crate) struct OfClient {
    #[command(flatten)]
    pub(crate) tenant: OfTenant,
    /// The client, by its id
    #[arg(long = "client", value_name = "ID")]
    pub(crate) client: String,
}

/// Whose thread or bookings.
#[derive(Debug, Args)]
pub(crate) struct OfLead {
    #[command(flatten)]
    pub(crate) tenant: OfTenant,
    /// The enquiry, by its id
    #[arg(long = "lead", value_name = "ID")]
    pub(crate) lead: String,
}

/// How much of a long list.
#[derive(Debug, Args)]
pub(crate) struct Limit {
    /// Show only the newest N [default: 1000, with --json 100000]
    #[arg(long = "limit", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
}

impl Arguments {
    /// The process's own. Ends the process when they ask for help or are wrong.
    pub(crate) fn of_process() -> Self {
        let matches = Self::command().after_help(after_help()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

const EXAMPLES: &str = "\
Examples:
  connectctl migrate
  connectctl tenant create --slug acme --name 'Acme Travel'
  connectctl key create --tenant acme --name website --scopes events:ingest,leads:read
  connectctl pipeline --tenant acme --stage inquiry --json

Exit codes: 0 done, 1 refused or failed (one line on standard error says why), 2 wrong usage.
";

/// What it takes of the servers' settings. Those of the broker are for `advisor`, `queue` and `delivery replay`.
const OF_SERVERS: [&str; 3] = ["DATABASE_URL", "AMQP_URL", "CONNECT_QUEUE_PREFIX"];

fn after_help() -> String {
    let mut text = format!("{EXAMPLES}\nSettings are environment variables:\n");
    let sections = [SealingSettings::VARIABLES, MessageSettings::VARIABLES, EgressSettings::VARIABLES];
    let servers = DatabaseSettings::VARIABLES.iter().chain(BrokerSettings::VARIABLES);
    let servers = servers.filter(|variable| OF_SERVERS.contains(&variable.name));
    for Variable { name, default, help } in servers.chain(sections.into_iter().flatten()) {
        let default = default.map_or_else(|| "required".to_owned(), |default| format!("default {default}"));
        text.push_str(&format!("  {name} ({default})\n      {help}\n"));
    }
    text.push_str("AMQP_URL and CONNECT_QUEUE_PREFIX are read by advisor, queue and delivery replay only.\n");
    text.push_str("CONNECT_ACCEPT_UNSIGNED_MESSAGES is read by advisor only.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn json_is_asked_for_before_or_after_the_command() {
        for line in [
            "connectctl --json tenant list",
            "connectctl tenant --json list",
            "connectctl tenant list --json",
            "connectctl usage --tenant a --json",
        ] {
            assert!(parse(line).unwrap().json, "{line}");
        }
        assert!(!parse("connectctl migrate").unwrap().json);
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "connectctl",
            "connectctl unknown",
            "connectctl tenant",
            "connectctl tenant create --slug a",
            "connectctl tenant set --tenant a",
            "connectctl tenant set --tenant a --discovery yes",
            "connectctl tenant set --tenant a --monthly-quota -1",
            "connectctl tenant set --tenant a --reads-per-second 0",
            "connectctl key create --tenant a --name n --scopes events:ingest --expires-in 5",
            "connectctl key scopes ck_1",
            "connectctl timeline --tenant a",
            "connectctl timeline --tenant a --client b --limit 0",
            "connectctl pipeline --tenant a --stage nowhere",
            "connectctl advisor",
            "connectctl advisor archive --tenant a",
            "connectctl subscription rotate-secret id --overlap 5",
            "connectctl delivery list --tenant a --state lost",
            "connectctl delivery list --tenant a --limit 0",
            "connectctl delivery replay",
            "connectctl delivery replay --dead",
            "connectctl delivery replay --tenant a",
            "connectctl delivery replay id --tenant a --dead",
            "connectctl delivery replay --tenant a --from 2026-05-01T10:00:00Z",
            "connectctl delivery replay --tenant a --from yesterday --to 2026-05-01T10:00:00Z",
            "connectctl queue show events",
            "connectctl queue show others --dead",
            "connectctl queue requeue events",
            "connectctl queue drop --dead",
        ] {
            assert!(parse(line).is_err_and(|error| error.exit_code() == 2), "{line}");
        }
    }

    #[test]
    fn deliveries_are_replayed_by_id_all_dead_ones_or_those_of_a_range() {
        for line in [
            "connectctl delivery replay id",
            "connectctl delivery replay --dead --tenant a",
            "connectctl delivery replay --tenant a --from 2026-05-01T10:00:00Z --to 2026-05-01T12:00:00+02:00",
            "connectctl delivery replay --tenant a --from 2026-05-01T10:00:00Z --to 2026-05-02T10:00:00Z --dead",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn help_names_every_setting_that_a_command_needs() {
        let help = after_help();
        for name in [
            "DATABASE_URL (required)",
            "AMQP_URL (required)",
            "CONNECT_QUEUE_PREFIX (default connect)",
            "CONNECT_MASTER_KEY (required",
            "CONNECT_WEBHOOK_ALLOW_PRIVATE (default false)",
        ] {
            assert!(help.contains(name), "{name}");
        }
    }
}
