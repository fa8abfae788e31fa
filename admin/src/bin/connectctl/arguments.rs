//! The command line as a whole, and the arguments that several commands have.

use crate::{
    advisor, audit, client, company, console, delivery, doctor, find, key, member, migrate, queue, replay, retention,
    secrets, subscription, tenant, views,
};
use admin::input::Rotation;
use chrono::{DateTime, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use common::egress::EgressSettings;
use common::model::parse_instant;
use common::settings::{
    BrokerSettings, ConsoleSettings, DatabaseSettings, MailboxSettings, RetentionSettings, SETTINGS_NOTE,
    SealingSettings, Section, SettingValue as _, TenantBounds, Variable, default_text,
};
use std::time::Duration;

/// Operates Connect: schema, tenants, keys, webhooks, queues, and the CRM's views.
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
    /// Apply the pending schema migrations; safe to run repeatedly
    Migrate(migrate::MigrateArgs),
    /// Check the installation, and say how to fix what is wrong
    Doctor(doctor::DoctorArgs),
    /// Print what each program may do in the database and in RabbitMQ
    Roles(migrate::RolesArgs),
    /// Manage tenants
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl tenant create --slug acme --name 'Acme Travel'\n  connectctl tenant list"
    )]
    Tenant(tenant::Command),
    /// Manage the members of a tenant: advisors, who own its leads
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl member add --tenant acme --email ada@acme.example --name 'Ada Byron'\n  connectctl member list --tenant acme"
    )]
    Member(member::Command),
    /// Manage the API keys of a tenant
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl key create --tenant acme --name website --scopes events:ingest\n  connectctl key list --tenant acme"
    )]
    Key(key::Command),
    /// Export or erase everything that is stored of a client
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl client export --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e\n  connectctl client erase --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Client(client::Command),
    /// Manage the company accounts of a tenant
    #[command(
        subcommand,
        after_help = "Example:\n  connectctl company create --tenant acme --name 'Example Ltd' --domain example.com"
    )]
    Company(company::Command),
    /// Publish an advisor action as the CRM does; print the reply
    #[command(
        after_help = "Examples:\n  connectctl advisor open-lead --tenant acme --email ana@example.com --name Ana\n  connectctl advisor archive --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Advisor(advisor::Command),
    /// Manage the webhook subscriptions of a tenant
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl subscription create --tenant acme --url https://partner.example/hooks\n  connectctl subscription list --tenant acme"
    )]
    Subscription(subscription::Command),
    /// Inspect and replay webhook deliveries
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl delivery list --tenant acme --state dead\n  connectctl delivery replay --dead --tenant acme"
    )]
    Delivery(delivery::Command),
    /// List, show and stop replay jobs, which replay many deliveries
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl delivery replay --tenant acme --state dead --no-wait\n  connectctl replay list --tenant acme"
    )]
    Replay(replay::Command),
    /// Show the history of an event, request, lead or delivery
    #[command(
        after_help = "Examples:\n  connectctl find 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e\n  connectctl find order-4711 --tenant acme --json"
    )]
    Find(find::FindArgs),
    /// Sign in to the settings area in the browser
    #[command(subcommand, after_help = "Example:\n  connectctl console login --role operator")]
    Console(console::Command),
    /// Inspect queues; inspect, requeue or drop their dead letters
    #[command(
        subcommand,
        after_help = "Examples:\n  connectctl queue list\n  connectctl queue show events --dead\n  connectctl queue requeue events --dead"
    )]
    Queue(queue::Command),
    /// Manage the values that are sealed under the master key
    #[command(subcommand, after_help = "Examples:\n  connectctl secrets rotate\n  connectctl secrets list")]
    Secrets(secrets::Command),
    /// Show or remove what has expired
    #[command(subcommand, after_help = "Examples:\n  connectctl retention plan\n  connectctl retention run")]
    Retention(retention::Command),
    /// Show why requests that named a key of a tenant were refused
    #[command(
        after_help = "Examples:\n  connectctl refusals --tenant acme\n  connectctl refusals --tenant acme --key ck_0123456789abcdef --json"
    )]
    Refusals(views::RefusalsArgs),
    /// Show what operators did
    #[command(after_help = "Example:\n  connectctl audit --tenant acme --from 2026-05-01T00:00:00Z --json")]
    Audit(audit::AuditArgs),
    /// Show the timeline of a client
    #[command(
        after_help = "Example:\n  connectctl timeline --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Timeline(views::ClientViewArgs),
    /// Show the inbox thread of a lead
    #[command(after_help = "Example:\n  connectctl inbox --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Inbox(views::LeadViewArgs),
    /// Show the notifications of a tenant's members
    Notifications(views::NotificationsArgs),
    /// Show the trip discovery records of a client
    #[command(
        after_help = "Example:\n  connectctl discovery --tenant acme --client 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"
    )]
    Discovery(views::ClientViewArgs),
    /// Show the bookings of a lead, with amounts, credit and balance
    #[command(after_help = "Example:\n  connectctl invoice --tenant acme --lead 0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e")]
    Invoice(views::LeadViewArgs),
    /// Show the leads of a tenant
    Pipeline(views::PipelineArgs),
    /// Show the tenants that have used up their share of the backlog
    #[command(after_help = "Example:\n  connectctl pressure")]
    Pressure,
    /// Show the records writes of this month, and the quota
    #[command(after_help = "Example:\n  connectctl usage --tenant acme")]
    Usage(TenantArgs),
    /// List the settings that commands read from the environment
    #[command(after_help = settings_help())]
    Settings,
    /// Print the completions of a shell
    #[command(after_help = "Example:\n  connectctl completions bash > /etc/bash_completion.d/connectctl")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The commands by task, in the order of `--help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Install and check", &["migrate", "doctor", "roles", "settings", "completions"]),
    ("Agencies and access", &["tenant", "member", "key", "company", "console", "usage"]),
    ("Webhooks", &["subscription", "delivery", "replay"]),
    ("Find out what happened", &["find", "refusals", "audit", "queue", "pressure"]),
    ("Records of an agency", &["pipeline", "timeline", "inbox", "notifications", "discovery", "invoice", "advisor"]),
    ("Data and secrets", &["client", "retention", "secrets"]),
];

/// The arguments that select a tenant.
#[derive(Debug, Args)]
pub(crate) struct TenantArgs {
    /// Slug of the tenant
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) slug: String,
}

/// The arguments that say how a secret is replaced.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RotationArgs {
    /// How long the old secret is of use beside the new one, such as 24h [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = Duration::parse_setting)]
    pub(crate) overlap: Option<Duration>,
    /// End the overlap of the last rotation now: the old secret is refused at once
    #[arg(long)]
    pub(crate) replace_overlap: bool,
}

impl From<RotationArgs> for Rotation {
    fn from(RotationArgs { overlap, replace_overlap }: RotationArgs) -> Self {
        Self { overlap, replace_overlap }
    }
}

/// The arguments that select a client.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Id of the client
    #[arg(long = "client", value_name = "ID")]
    pub(crate) client: String,
}

/// The arguments that select a lead.
#[derive(Debug, Args)]
pub(crate) struct LeadArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Id of the lead
    #[arg(long = "lead", value_name = "ID")]
    pub(crate) lead: String,
}

/// The argument that limits a long list.
#[derive(Debug, Args)]
pub(crate) struct Limit {
    /// Show only the newest N [default: 1000, with --json 100000]
    #[arg(long = "limit", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
}

impl Arguments {
    /// Parses the arguments of the process. Exits if help was requested or the usage is wrong.
    pub(crate) fn from_process() -> Self {
        let matches = Self::grouped().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The command line, with its commands grouped by task in `--help`.
    pub(crate) fn grouped() -> clap::Command {
        let command = Self::command();
        let line = |name: &&str| {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            format!("  {name:<14}{}\n", about.map(ToString::to_string).unwrap_or_default())
        };
        let group =
            |(title, names): &(&str, &[&str])| format!("{title}:\n{}\n", names.iter().map(line).collect::<String>());
        let groups: String = GROUPS.iter().map(group).collect();
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
        );
        command.help_template(template).after_help(EXAMPLES)
    }
}

const EXAMPLES: &str = "\
Examples:
  connectctl migrate
  connectctl tenant create --slug acme --name 'Acme Travel'
  connectctl key create --tenant acme --name website --scopes events:ingest
  connectctl pipeline --tenant acme --stage inquiry --json

`connectctl help COMMAND` has more examples.
`connectctl settings` lists the environment variables.
Exit codes: 0 success; 1 refused or failed, with one line on standard error;
  2 wrong usage.
";

/// What the commands read from the environment.
pub(crate) fn settings_help() -> String {
    let mut text = format!("{SETTINGS_NOTE}:\n");
    let sections = [
        DatabaseSettings::VARIABLES,
        BrokerSettings::VARIABLES,
        SealingSettings::VARIABLES,
        EgressSettings::VARIABLES,
        TenantBounds::VARIABLES,
        MailboxSettings::VARIABLES,
        RetentionSettings::VARIABLES,
        ConsoleSettings::VARIABLES,
    ];
    for Variable { name, default, help } in sections.into_iter().flatten() {
        text.push_str(&format!("  {name} ({})\n      {help}\n", default_text(*default)));
    }
    text.push_str(
        "\nNo command needs all of them. AMQP_URL, CONNECT_QUEUE_... and CONNECT_RETENTION_DEAD_LETTERS are read by advisor, client, \
         doctor and queue; the other CONNECT_RETENTION_... by retention and doctor; \
         CONNECT_CONSOLE_... by console; CONNECT_MAILBOX_PROVIDERS by company.\n",
    );
    text
}

/// A text, wrapped as that of `--help`.
pub(crate) fn wrap(text: String) -> String {
    let help = clap::Command::new("connectctl").help_template("{after-help}").after_help(text).render_help();
    help.to_string().trim().to_owned()
}

/// Parses one of some names; each has its meaning for the help, or an empty text.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    names: impl IntoIterator<Item = (&'static str, &'static str)>, parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    let value = |(name, meaning): (&'static str, &'static str)| {
        let value = PossibleValue::new(name);
        if meaning.is_empty() { value } else { value.help(meaning) }
    };
    PossibleValuesParser::new(names.into_iter().map(value))
        .try_map(move |name| parse(&name).ok_or_else(|| format!("unknown name {name:?}")))
}

/// A time as options take it.
pub(crate) fn instant(text: &str) -> Result<DateTime<Utc>, &'static str> {
    parse_instant(text).ok_or("must be an RFC 3339 time such as 2026-05-01T10:00:00Z")
}

#[cfg(test)]
mod tests;
