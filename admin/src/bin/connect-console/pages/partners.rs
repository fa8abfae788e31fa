//! Links for partners of an agency, and their end.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::time_text;
use crate::layout;
use crate::pages::form::{Faults, Field, input, once, select, summary};
use admin::console::{self, NewPartnerLink, Role, Session, SignInMethod};
use admin::input::Name;
use admin::{AdminError, Result};
use maud::{Markup, html};
use warp::reply::Response;

const ROLES: [(&str, &str); 2] = [
    ("viewer", "viewer: sees the pages of this agency, with masked contact data"),
    ("admin", "admin: also changes keys, webhooks and settings of this agency"),
];

/// Whether somebody may let partners in. A partner may not, whatever their role: otherwise their access would outlast its end.
pub(crate) fn may_invite(session: &Session) -> bool {
    session.role() >= Role::Admin && session.method != SignInMethod::PartnerLink
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(&view, &Faults::none())
}

/// The page with the faults of its form, and what was typed there.
fn with_faults(view: &View<'_>, faults: &Faults) -> Result<Response, Failure> {
    if !may_invite(view.session) {
        return Err(Failure::Forbidden);
    }
    Ok(layout::page_with(view, faults.status(), "Partners", &forms(view, faults)))
}

fn forms(view: &View<'_>, faults: &Faults) -> Markup {
    html! {
        (summary(faults))
        p { "A link lets a partner in, for example the developer of your web site. It works once, for fifteen minutes, and shows this agency only." }
        form method="post" action=(view.tenant_path("/partner-links")) {
            (once(view))
            (input(Field { name: "partner", label: "Who signs in", hint: "A name or an email, as the audit shows it." }, "text", faults.value("partner"), faults))
            (select(Field { name: "role", label: "Role", hint: "" }, &ROLES, faults.value("role"), faults))
            button { "Create the link" }
        }
        h2 { "End the access of partners" }
        p {
            "Ends every link for partners of this agency, and every session that began with one. Keys and webhooks that partners have made stay: "
            a href=(view.tenant_path("/audit")) { "the audit" } " shows them."
        }
        form method="post" action=(view.tenant_path("/partner-links/revoke")) {
            (once(view))
            button.danger { "End the access of all partners" }
        }
    }
}

/// Creates a link and shows it once.
pub(crate) async fn create(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    if !may_invite(context.session) {
        return Err(Failure::Forbidden);
    }
    let mut faults = Faults::of_form(change.form());
    let (person, role) = (faults.parse("partner", Name::of_person), faults.parse("role", role));
    let (Some(person), Some(role)) = (person, role) else {
        return with_faults(&change.view(), &faults);
    };
    let new = NewPartnerLink { tenant: context.tenant()?.slug.clone(), role, person };
    const HEADING: &str = "The link was created";
    let (client, actor) = change.secret_operation(HEADING, context.tenant_path("/partners"));
    let link = console::create_partner_link(client, &actor, &context.app.url, &new).await?;
    let content = html! {
        p { "Send this link to " strong { bdi { (new.person.as_str()) } } ". It is shown only now." }
        dl {
            dt { "Link" } dd { code data-copy { (link.url) } }
            dt { "Role" } dd { (role.as_str()) }
            dt { "Works until" } dd { (time_text(&link.expires_at)) }
        }
        p { "Whoever opens the link first is signed in. The session ends like any other, or when you end the access of partners." }
        p { a href=(context.tenant_path("/partners")) { "To the partners" } }
    };
    Ok(layout::page(&change.view(), HEADING, &content))
}

/// Ends all links and sessions of partners.
pub(crate) async fn revoke(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    if !may_invite(context.session) {
        return Err(Failure::Forbidden);
    }
    let (page, slug) = (context.tenant_path("/partners?done=partners-revoked"), &context.tenant()?.slug);
    change.run(page, async |client, actor| console::revoke_partners(client, actor, slug).await).await
}

fn role(text: &str) -> Result<Role> {
    let role = Role::parse(text).filter(|role| *role != Role::Operator);
    role.ok_or_else(|| AdminError::InvalidInput("role must be viewer or admin".to_owned()))
}
