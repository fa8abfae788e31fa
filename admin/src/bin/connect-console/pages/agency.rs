//! The page of an agency: its settings, and its limits, which operators set (D23).

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::{number, time};
use crate::layout;
use crate::pages::form::{Faults, Field, input, once, select, summary};
use admin::console::Role;
use admin::input::MonthlyQuota;
use admin::tenants::{self, Tenant, TenantChanges};
use admin::{AdminError, Result};
use maud::{Markup, html};
use warp::reply::Response;

const DISCOVERY: [(&str, &str); 2] = [("true", "on"), ("false", "off")];

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// The page with the faults of one of its forms, and what was typed there.
async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let content = html! {
        (summary(faults))
        dl {
            dt { "Slug" } dd { code { (tenant.slug) } span.soft { " as partners send it in X-Connect-Tenant" } }
            dt { "Enquiry prefix" } dd { code { (tenant.enquiry_prefix) } span.soft { " as in " (tenant.enquiry_prefix) "-2026-000001" } }
            dt { "Traveller Discovery" } dd { (if tenant.discovery { "on" } else { "off" }) }
            dt { "Monthly quota of records writes" } dd { (tenant.monthly_quota.map_or_else(|| "no limit".to_owned(), number)) }
            dt { "Read limit" } dd { (tenant.reads_per_second) " reads per second and key" }
            dt { "Created" } dd { (time(tenant.created_at)) }
        }
        @if view.may(Role::Admin) { (settings_form(&view, tenant, faults)) }
        @if view.may(Role::Operator) { (limits_form(&view, tenant, faults)) }
    };
    Ok(layout::page_with(&view, faults.status(), "Agency", &content))
}

fn settings_form(view: &View<'_>, tenant: &Tenant, faults: &Faults) -> Markup {
    let chosen = if tenant.discovery { "true" } else { "false" };
    let stored = tenant.attention_email.as_deref().unwrap_or_default();
    let email = Some(faults.value("attention-email")).filter(|typed| !typed.is_empty()).unwrap_or(stored);
    let hint = if view.app.sends_mails {
        "Gets a mail about what needs attention on the overview, and when it has recovered: at most one an hour for each cause. Leave it empty for no mails."
    } else {
        "The operator has set no mail server, so no mails are sent. The address is kept for when there is one."
    };
    html! {
        h2 { "Settings" }
        form method="post" action=(view.tenant_path("/settings")) {
            (once(view))
            (select(
                Field { name: "discovery", label: "Traveller Discovery", hint: "If it is off, discovery events still update contacts and enquiries, but no discovery is stored." },
                &DISCOVERY, chosen, &Faults::none()
            ))
            (input(Field { name: "attention-email", label: "Email for what needs attention", hint }, "email", email, faults))
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
    let mut faults = Faults::of_form(change.form());
    let email = faults.parse("attention-email", |typed| if typed.is_empty() { "none" } else { typed }.parse());
    let Some(email) = email else { return with_faults(change.view(), &faults).await };
    let changes =
        TenantChanges { discovery: Some(discovery), attention_email: Some(email), ..TenantChanges::default() };
    save(change, changes).await
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
        TenantChanges { monthly_quota: Some(quota), reads_per_second: Some(reads), ..TenantChanges::default() };
    save(change, changes).await
}

async fn save(change: Change<'_>, changes: TenantChanges) -> Result<Response, Failure> {
    let context = change.context();
    let (page, slug) = (context.tenant_path("/settings?done=saved"), &context.tenant()?.slug);
    change.run(page, async |client, actor| tenants::change(client, actor, slug, &changes).await).await
}

fn read_limit(text: &str) -> Result<i32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| AdminError::InvalidInput(format!("reads must be a whole number from 1 to {}", i32::MAX)))
}
