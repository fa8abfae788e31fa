//! `connectctl console`: signing in to the settings area.

use crate::arguments::one_of;
use crate::context::Context;
use crate::output::show;
use admin::console::{self, EndedSessions, LoginLink, NewLink, NewPartnerLink, Revoked, Role};
use admin::input::Name;
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Subcommand};
use common::settings::{ConsoleSettings, ConsoleUrl};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a link that signs in to the settings area once, within five minutes
    #[command(
        after_help = "Examples:\n  connectctl console login --role operator\n  connectctl console login --tenant acme --role admin --name 'Ada Byron'"
    )]
    Login {
        /// What the session may do: viewer and admin of one tenant, operator of all
        #[arg(long, value_parser = roles())]
        role: Role,
        /// Slug of the tenant, for the roles viewer and admin
        #[arg(long = "tenant", value_name = "SLUG", required_if_eq_any([("role", "viewer"), ("role", "admin")]))]
        tenant: Option<String>,
        /// Who signs in, shown in the settings area; the name of the role when not given
        #[arg(long)]
        name: Option<String>,
    },
    /// Create a link that signs in a partner of a tenant once, within fifteen minutes
    #[command(
        after_help = "Example:\n  connectctl console partner-link --tenant acme --name dev@partner.example --role viewer"
    )]
    PartnerLink {
        /// Slug of the only tenant that the session sees
        #[arg(long = "tenant", value_name = "SLUG")]
        tenant: String,
        /// What the session may do in that tenant
        #[arg(long, default_value = "viewer", value_parser = partner_roles())]
        role: Role,
        /// Who signs in, shown in the settings area and in the audit
        #[arg(long)]
        name: String,
    },
    /// End all links and sessions of a tenant's partners
    #[command(after_help = "Example:\n  connectctl console revoke-partners --tenant acme")]
    RevokePartners {
        /// Slug of the tenant
        #[arg(long = "tenant", value_name = "SLUG")]
        tenant: String,
    },
    /// End the sessions of a person, or of everybody, at once
    #[command(
        group = ArgGroup::new("whose").required(true),
        after_help = "Examples:\n  connectctl console end-sessions --name ada@agency.example\n  connectctl console end-sessions --all"
    )]
    EndSessions {
        /// The person's name, as audit records show it, without the role
        #[arg(long, group = "whose")]
        name: Option<String>,
        /// Everybody's sessions
        #[arg(long, group = "whose")]
        all: bool,
    },
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let meaning = |role| match role {
        Role::Viewer => "Sees the pages of one tenant",
        Role::Admin => "Changes the settings of one tenant",
        Role::Operator => "Sees and changes everything",
    };
    one_of(Role::ALL.map(|role| (role.as_str(), meaning(role))), Role::parse)
}

fn partner_roles() -> impl TypedValueParser<Value = Role> {
    let roles = [(Role::Viewer, "Sees the pages of the tenant"), (Role::Admin, "Changes the settings of the tenant")];
    one_of(roles.map(|(role, meaning)| (role.as_str(), meaning)), Role::parse)
}

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::Login { role, tenant, name } => {
            let url = console_url(context)?;
            let new = NewLink { role, tenant, person: name.as_deref().map(Name::of_person).transpose()? };
            let link = console::create_link(&mut context.database, &context.actor, &url, &new).await?;
            print_link(&link, context)
        }
        Command::PartnerLink { tenant, role, name } => {
            let url = console_url(context)?;
            let new = NewPartnerLink { tenant, role, person: Name::of_person(&name)? };
            let link = console::create_partner_link(&mut context.database, &context.actor, &url, &new).await?;
            print_link(&link, context)
        }
        Command::RevokePartners { tenant } => {
            let revoked = console::revoke_partners(&mut context.database, &context.actor, &tenant).await?;
            context.output.print_one(&revoked)
        }
        Command::EndSessions { name, .. } => {
            let person = name.as_deref().map(Name::of_person).transpose()?;
            let ended = console::end_sessions_by_name(&mut context.database, &context.actor, person.as_ref()).await?;
            context.output.print_one(&ended)
        }
    }
}

fn console_url(context: &Context) -> anyhow::Result<ConsoleUrl> {
    let settings: ConsoleSettings = context.settings()?;
    Ok(settings.url_at(settings.addr))
}

fn print_link(link: &LoginLink, context: &mut Context) -> anyhow::Result<()> {
    context.output.note("Whoever opens the link first is signed in. It works once.");
    context.output.print_one(link)
}

show!(LoginLink, link: "URL" link.url, "Expires at" link.expires_at);

show!(EndedSessions, ended: "Sessions" ended.sessions);

show!(Revoked, revoked: "Links" revoked.links, "Sessions" revoked.sessions);
