//! Arguments of `connectctl console`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a link that signs in to the settings area once, within five minutes
    #[command(
        after_help = "Examples:\n  connectctl console login --role operator\n  connectctl console login --tenant acme --role admin --name 'Ada Byron'"
    )]
    Login(Login),
    /// Create a link that signs in a partner of a tenant once, within fifteen minutes
    #[command(
        after_help = "Example:\n  connectctl console partner-link --tenant acme --name dev@partner.example --role viewer"
    )]
    PartnerLink(PartnerLink),
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

#[derive(Debug, Args)]
pub(crate) struct PartnerLink {
    /// Slug of the only tenant that the session sees
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) tenant: String,
    /// What the session may do in that tenant
    #[arg(long, default_value = "viewer")]
    pub(crate) role: PartnerRole,
    /// Who signs in, shown in the settings area and in the audit
    #[arg(long)]
    pub(crate) name: String,
}

/// The roles of partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartnerRole {
    /// Sees the pages of the tenant
    Viewer,
    /// Changes the settings of the tenant
    Admin,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// What the session may do: viewer and admin of one tenant, operator of all
    #[arg(long)]
    pub(crate) role: Role,
    /// Slug of the tenant, for the roles viewer and admin
    #[arg(
        long = "tenant",
        value_name = "SLUG",
        required_if_eq_any([("role", "viewer"), ("role", "admin")])
    )]
    pub(crate) tenant: Option<String>,
    /// Who signs in, shown in the settings area; the name of the role when not given
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// The roles of the settings area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Sees the pages of one tenant
    Viewer,
    /// Changes the settings of one tenant
    Admin,
    /// Sees and changes everything
    Operator,
}
