//! The command line as a whole, and the arguments that several commands have.

use crate::{
    advisor, company, discovery, inbox, invoice, key, member, notification, pipeline, sealing, subscription,
    tenant, timeline, usage,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use common::egress::EgressSettings;
use common::settings::{BrokerSettings, DatabaseSettings, Section, Variable};

/// Operates Connect: schema, agencies, members, API keys, webhook subscriptions, and what the CRM shows of an agency.
#[derive(Debug, Parser)]
#[command(name = "connectctl", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// Print one JSON value on standard output instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) request: Request,
}

/// What is spoken to: the queue, or the database.
#[derive(Debug, Subcommand)]
pub(crate) enum Request {
    #[command(flatten)]
    OnDatabase(Command),
    /// Act as an advisor does in the CRM: publishes the action and prints the worker's answer
    #[command(
        after_help = "Examples:\n  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana\n  connectctl advisor archive --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Advisor(advisor::Command),
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
    /// Webhook subscriptions of an agency
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl subscription create --tenant acme --url https://partner.example/hooks\n  connectctl subscription list --tenant acme"
    )]
    Subscription(subscription::Command),
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

fn after_help() -> String {
    let mut text = format!("{EXAMPLES}\nSettings are environment variables:\n");
    let sections = [sealing::SealingSettings::VARIABLES, EgressSettings::VARIABLES];
    let database = DatabaseSettings::VARIABLES.iter().filter(|variable| variable.name == "DATABASE_URL");
    let of_advisor = ["AMQP_URL", "CONNECT_QUEUE_PREFIX"];
    let broker = BrokerSettings::VARIABLES.iter().filter(|variable| of_advisor.contains(&variable.name));
    for Variable { name, default, help } in database.chain(broker).chain(sections.into_iter().flatten()) {
        let default = default.map_or_else(|| "required".to_owned(), |default| format!("default {default}"));
        text.push_str(&format!("  {name} ({default})\n      {help}\n"));
    }
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
        ] {
            assert!(parse(line).is_err_and(|error| error.exit_code() == 2), "{line}");
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
