//! The members of an agency: its advisors.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{data_table, pill};
use crate::layout;
use crate::pages::form::{Faults, Field, input, once, summary};
use admin::console::Role;
use admin::input::{MemberEmail, Name};
use admin::tenants::{self, Member};
use maud::{Markup, html};
use warp::reply::Response;

/// Members of a page.
const MEMBERS: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// The page with the faults of its form, and what was typed there.
async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let slug = &view.tenant()?.slug;
    // The name of a page is an email.
    let after = if view.sees_contacts() { view.request.query.get("after") } else { "" };
    let mut members = tenants::list_members(view.client(), slug, after, MEMBERS + 1).await?;
    let has_more = members.len() > MEMBERS as usize;
    members.truncate(MEMBERS as usize);
    let members = view.shown(members);
    let content = html! {
        (summary(faults))
        p { "Members are the agency's advisors. New enquiries are assigned to the active members in turn." }
        @if members.is_empty() { p { "There is no member, so new enquiries have no owner. Add the advisors of the agency." } }
        @else {
            (data_table(&["Name", "Email", "State", "Change"], &html! {
                @for member in &members { (member_row(&view, member)) }
            }))
        }
        @if has_more && !view.sees_contacts() {
            p.soft { "The first " (MEMBERS) " are shown to viewers." }
        } @else if let Some(last) = members.last().filter(|_| has_more) {
            p { a.button.plain href=(with_query(&view.tenant_path("/members"), &[("after", &last.email)])) { "More members" } }
        }
        @if view.may(Role::Admin) {
            h2 { "Add a member" }
            form method="post" action=(view.tenant_path("/members")) {
                (once(&view))
                (input(Field { name: "email", label: "Email", hint: "" }, "email", faults.value("email"), faults))
                (input(Field { name: "name", label: "Name", hint: "The API shows this name as the owner of an enquiry." }, "text", faults.value("name"), faults))
                button { "Add the member" }
            }
        }
    };
    Ok(layout::page_with(&view, faults.status(), "Members", &content))
}

fn member_row(view: &View<'_>, member: &Member) -> Markup {
    let path = view.tenant_path(if member.active { "/members/remove" } else { "/members" });
    html! {
        tr {
            th scope="row" { bdi { (member.name) } }
            td { bdi { (member.email) } }
            td { (if member.active { pill("good", "Active") } else { pill("soft", "Inactive") }) }
            td {
                @if view.may(Role::Admin) {
                    form method="post" action=(path) {
                        (once(view))
                        input type="hidden" name="email" value=(member.email);
                        input type="hidden" name="name" value=(member.name);
                        @if !member.active { input type="hidden" name="restored" value="yes"; }
                        button.plain { (if member.active { "Deactivate " } else { "Activate " }) bdi { (member.name) } }
                    }
                } @else { "-" }
            }
        }
    }
}

pub(crate) async fn add(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::of_form(change.form());
    let email = faults.parse("email", MemberEmail::parse);
    let name = faults.parse("name", Name::of_person);
    let (Some(email), Some(name)) = (email, name) else {
        return with_faults(change.view(), &faults).await;
    };
    let done = if change.form().get("restored").is_empty() { "member-added" } else { "member-restored" };
    let (page, slug) = (context.tenant_path(&format!("/members?done={done}")), context.tenant()?.slug.as_str());
    let bound = context.app.bounds.members;
    change.run(page, async |client, actor| tenants::add_member(client, actor, (slug, bound), &email, &name).await).await
}

pub(crate) async fn deactivate(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::of_form(change.form());
    let Some(email) = faults.parse("email", MemberEmail::parse) else {
        return with_faults(change.view(), &faults).await;
    };
    let (page, slug) = (context.tenant_path("/members?done=member-deactivated"), &context.tenant()?.slug);
    change.run(page, async |client, actor| tenants::remove_member(client, actor, slug, &email).await).await
}
