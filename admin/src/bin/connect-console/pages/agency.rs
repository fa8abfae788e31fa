//! The page of an agency: its settings, its limits, which operators set (D23), its members, and its usage.

use super::partners;
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{data_table, number, time};
use crate::layout;
use crate::pages::chart;
use crate::pages::form::{Faults, Field, input, once, select, summary};
use admin::console::Role;
use admin::input::{MemberEmail, MonthlyQuota, Name};
use admin::tenants::{self, Member, Tenant, TenantChanges};
use admin::{AdminError, Result};
use maud::{Markup, html};
use warp::reply::Response;

/// Members of a page.
const MEMBERS: u32 = 100;
/// Months that the chart shows.
const MONTHS: u32 = 12;
const DISCOVERY: [(&str, &str); 2] = [("true", "on"), ("false", "off")];

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// The page with the faults of one of its forms, and what was typed there.
pub(super) async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    // The name of a page is an email.
    let after = if view.sees_contacts() { view.request.query.get("members-after") } else { "" };
    let mut members = tenants::list_members(view.client(), &tenant.slug, after, MEMBERS + 1).await?;
    let has_more = members.len() > MEMBERS as usize;
    members.truncate(MEMBERS as usize);
    let members = view.shown(members);
    let months = tenants::usage_of_last_months(view.client(), tenant.id, MONTHS).await?;
    let content = html! {
        (summary(faults))
        dl {
            dt { "Slug" } dd { code { (tenant.slug) } span.soft { " as partners send it in X-Connect-Tenant" } }
            dt { "Enquiry prefix" } dd { code { (tenant.enquiry_prefix) } span.soft { " as in " (tenant.enquiry_prefix) "-2026-000001" } }
            dt { "Traveller Discovery" } dd { (if tenant.discovery { "on" } else { "off" }) }
            dt { "Monthly quota" } dd { (tenant.monthly_quota.map_or_else(|| "none".to_owned(), |quota| format!("{} records writes", number(quota)))) }
            dt { "Read limit" } dd { (tenant.reads_per_second) " reads per second and key" }
            dt { "Created" } dd { (time(tenant.created_at)) }
        }
        (usage_section(&months, tenant.monthly_quota))
        (members_section(&view, (&members, has_more), faults))
        @if partners::may_invite(view.session) { (partners::section(&view, faults)) }
        @if view.may(Role::Admin) { (settings_form(&view, tenant)) }
        @if view.may(Role::Operator) { (limits_form(&view, tenant, faults)) }
    };
    Ok(layout::page_with(&view, faults.status(), "Agency", &content))
}

fn usage_section(months: &[(String, i64)], quota: Option<i64>) -> Markup {
    let bars: Vec<chart::Bar<'_>> = months.iter().map(|(month, writes)| (month.as_str(), *writes)).collect();
    let used: i64 = months.iter().map(|(_, writes)| writes).sum();
    html! {
        h2 { "Usage" }
        p { "Successful writes of the records API by calendar month (UTC). Repeated writes and reads do not count." }
        @if used == 0 {
            p.soft { "There was no write in the last " (months.len()) " months." }
        } @else {
            (chart::bars("Records writes by month", &bars, quota))
            details {
                summary { "As a table" }
                table {
                    thead { tr { th scope="col" { "Month" } th.number scope="col" { "Writes" } } }
                    tbody { @for (month, writes) in months { tr { th scope="row" { (month) } td.number { (number(*writes)) } } } }
                }
            }
        }
    }
}

fn members_section(view: &View<'_>, (members, has_more): (&[Member], bool), faults: &Faults) -> Markup {
    html! {
        h2 { "Members" }
        p { "Members are the agency's advisors. New enquiries are assigned to the active members in turn." }
        @if members.is_empty() { p { "There is no member, so new enquiries have no owner. Add the advisors of the agency." } }
        @else {
            (data_table(&["Name", "Email", "State", "Change"], &html! {
                @for member in members { (member_row(view, member)) }
            }))
        }
        @if has_more && !view.sees_contacts() {
            p.soft { "The first " (MEMBERS) " are shown to viewers." }
        } @else if let Some(last) = members.last().filter(|_| has_more) {
            p { a.button.plain href=(with_query(&view.tenant_path("/settings"), &[("members-after", &last.email)])) { "More members" } }
        }
        @if view.may(Role::Admin) {
            h3 { "Add a member" }
            form method="post" action=(view.tenant_path("/members")) {
                (once(view))
                (input(Field { name: "email", label: "Email", hint: "" }, "email", faults.value("email"), faults))
                (input(Field { name: "name", label: "Name", hint: "The API shows this name as the owner of an enquiry." }, "text", faults.value("name"), faults))
                button { "Add the member" }
            }
        }
    }
}

fn member_row(view: &View<'_>, member: &Member) -> Markup {
    let path = view.tenant_path(if member.active { "/members/remove" } else { "/members" });
    html! {
        tr {
            th scope="row" { bdi { (member.name) } }
            td { bdi { (member.email) } }
            td { @if member.active { span.good { "active" } } @else { span.soft { "inactive" } } }
            td {
                @if view.may(Role::Admin) {
                    form method="post" action=(path) {
                        (once(view))
                        input type="hidden" name="email" value=(member.email);
                        input type="hidden" name="name" value=(member.name);
                        button.plain { (if member.active { "Deactivate " } else { "Activate " }) bdi { (member.name) } }
                    }
                } @else { "-" }
            }
        }
    }
}

fn settings_form(view: &View<'_>, tenant: &Tenant) -> Markup {
    let chosen = if tenant.discovery { "true" } else { "false" };
    html! {
        h2 { "Settings" }
        form method="post" action=(view.tenant_path("/settings")) {
            (once(view))
            (select(
                Field { name: "discovery", label: "Traveller Discovery", hint: "If it is off, discovery events still update contacts and enquiries, but no discovery is stored." },
                &DISCOVERY, chosen, &Faults::none()
            ))
            button { "Save" }
        }
    }
}

fn limits_form(view: &View<'_>, tenant: &Tenant, faults: &Faults) -> Markup {
    let quota = tenant.monthly_quota.map_or_else(|| "none".to_owned(), |quota| quota.to_string());
    let value = |name, stored: String| match faults.value(name) {
        "" => stored,
        typed => typed.to_owned(),
    };
    html! {
        h2 { "Limits" }
        form method="post" action=(view.tenant_path("/limits")) {
            (once(view))
            (input(
                Field { name: "quota", label: "Monthly quota", hint: "Records writes in a calendar month, or none for no limit." },
                "text", &value("quota", quota), faults
            ))
            (input(
                Field { name: "reads", label: "Reads per second and key", hint: "At least 1." },
                "text", &value("reads", tenant.reads_per_second.to_string()), faults
            ))
            button { "Save the limits" }
        }
    }
}

pub(crate) async fn set_settings(change: Change<'_>) -> Result<Response, Failure> {
    // The page offers a list, so another value was not chosen there.
    let discovery = change.form().get("discovery").parse().ok();
    let discovery = discovery.ok_or(Failure::BadRequest("discovery must be true or false"))?;
    save(change, TenantChanges { discovery: Some(discovery), ..TenantChanges::default() }).await
}

pub(crate) async fn set_limits(change: Change<'_>) -> Result<Response, Failure> {
    let mut faults = Faults::of_form(change.form());
    let quota = faults.parse("quota", |typed| {
        typed.parse::<MonthlyQuota>().map_err(|what| AdminError::InvalidInput(format!("quota {what}")))
    });
    let reads = faults.parse("reads", read_limit);
    let (Some(quota), Some(reads)) = (quota, reads) else {
        return with_faults(change.view(), &faults).await;
    };
    let changes =
        TenantChanges { discovery: None, monthly_quota: Some(quota), reads_per_second: Some(reads) };
    save(change, changes).await
}

async fn save(change: Change<'_>, changes: TenantChanges) -> Result<Response, Failure> {
    let context = change.context();
    let (page, slug) = (context.tenant_path("/settings?done=saved"), &context.tenant()?.slug);
    change.run(page, async |client, actor| tenants::change(client, actor, slug, &changes).await).await
}

fn read_limit(text: &str) -> Result<i32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        AdminError::InvalidInput(format!("reads must be a whole number from 1 to {}", i32::MAX))
    })
}

pub(crate) async fn add_member(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::of_form(change.form());
    let email = faults.parse("email", MemberEmail::parse);
    let name = faults.parse("name", Name::of_person);
    let (Some(email), Some(name)) = (email, name) else {
        return with_faults(change.view(), &faults).await;
    };
    let (page, slug) = (context.tenant_path("/settings?done=member-added"), context.tenant()?.slug.as_str());
    let bound = context.app.bounds.members;
    change
        .run(page, async |client, actor| {
            tenants::add_member(client, actor, (slug, bound), &email, &name).await
        })
        .await
}

pub(crate) async fn remove_member(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::of_form(change.form());
    let Some(email) = faults.parse("email", MemberEmail::parse) else {
        return with_faults(change.view(), &faults).await;
    };
    let (page, slug) = (context.tenant_path("/settings?done=member-removed"), &context.tenant()?.slug);
    change.run(page, async |client, actor| tenants::remove_member(client, actor, slug, &email).await).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_limit_is_a_positive_number() {
        assert_eq!(read_limit("1").unwrap(), 1);
        for wrong in ["", "0", "-1", "1.5", "2147483648"] {
            assert!(read_limit(wrong).is_err(), "{wrong}");
        }
    }
}
