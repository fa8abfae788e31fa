//! `connectctl console`: signing in to the settings area.

use crate::arguments::console::{Command, Login, PartnerLink, PartnerRole, Role};
use crate::context::Context;
use crate::output::Show;
use admin::console::{self, EndedSessions, LoginLink, NewLink, NewPartnerLink, Revoked};
use admin::input::Name;
use common::settings::{ConsoleSettings, ConsoleUrl};

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::Login(login) => create_login_link(login, context).await,
        Command::PartnerLink(link) => create_partner_link(link, context).await,
        Command::RevokePartners { tenant } => {
            let revoked = console::revoke_partners(&mut context.database, &context.actor, &tenant).await?;
            context.output.print_one(&revoked)
        }
        Command::EndSessions { name, .. } => {
            let person = name.as_deref().map(Name::parse).transpose()?;
            let ended =
                console::end_sessions_by_name(&mut context.database, &context.actor, person.as_ref()).await?;
            context.output.print_one(&ended)
        }
    }
}

async fn create_login_link(login: Login, context: &mut Context) -> anyhow::Result<()> {
    let url = console_url(context)?;
    let new = NewLink {
        role: match login.role {
            Role::Viewer => console::Role::Viewer,
            Role::Admin => console::Role::Admin,
            Role::Operator => console::Role::Operator,
        },
        tenant: login.tenant,
        person: login.name.as_deref().map(Name::parse).transpose()?,
    };
    let link = console::create_link(&mut context.database, &context.actor, &url, &new).await?;
    print_link(&link, context)
}

async fn create_partner_link(link: PartnerLink, context: &mut Context) -> anyhow::Result<()> {
    let url = console_url(context)?;
    let new = NewPartnerLink {
        tenant: link.tenant,
        role: match link.role {
            PartnerRole::Viewer => console::Role::Viewer,
            PartnerRole::Admin => console::Role::Admin,
        },
        person: Name::parse(&link.name)?,
    };
    let link = console::create_partner_link(&mut context.database, &context.actor, &url, &new).await?;
    print_link(&link, context)
}

fn console_url(context: &Context) -> anyhow::Result<ConsoleUrl> {
    let settings: ConsoleSettings = context.settings()?;
    Ok(settings.url_at(settings.addr))
}

fn print_link(link: &LoginLink, context: &mut Context) -> anyhow::Result<()> {
    context.output.note("Whoever opens the link first is signed in. It works once.");
    context.output.print_one(link)
}

impl Show for LoginLink {
    const COLUMNS: &'static [&'static str] = &["URL", "Expires at"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.url.clone()), Some(self.expires_at.clone())]
    }
}

impl Show for EndedSessions {
    const COLUMNS: &'static [&'static str] = &["Sessions"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.sessions.to_string())]
    }
}

impl Show for Revoked {
    const COLUMNS: &'static [&'static str] = &["Links", "Sessions"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![Some(self.links.to_string()), Some(self.sessions.to_string())]
    }
}
