//! The result of a signature check.

use super::{content, refused};
use crate::context::View;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::pages::form::Faults;
use admin::signature_check::{BODY_MAX, CheckStep, CheckedRequest, SignatureReport, Verdict, check};
use hyper::StatusCode;
use maud::{Markup, html};
use warp::reply::Response;

/// Longest text of a field other than the body, in bytes.
const FIELD_MAX: usize = 4_096;
/// Characters of the text to sign that are shown.
const SHOWN: usize = 4_000;

/// Checks the request of a form. Reads only.
pub(crate) async fn result(view: View<'_>, form: Fields) -> Result<Response, Failure> {
    let refused = refused(&view, &form).await?;
    let request = CheckedRequest {
        key: form.get("key").to_owned(),
        method: form.get("method").to_owned(),
        target: form.get("path").to_owned(),
        timestamp: form.get("t").to_owned(),
        signature: form.get("signature").to_owned(),
        // Untrimmed: a line break at its end matters.
        body: form.all("body").next().unwrap_or_default().to_owned(),
    };
    let faults = faults(&request);
    if !faults.is_empty() {
        let content = content(&view, &request, refused.as_ref(), &faults);
        return Ok(layout::page_with(&view, StatusCode::UNPROCESSABLE_ENTITY, "Check a signature", &content));
    }
    let (client, keys, tenant) = (view.client(), &view.app.master_keys, view.tenant()?.id);
    let report = check(client, keys, tenant, &request, refused.as_ref()).await?;
    let page = html! {
        (shown(&report))
        h2 { "Check again" }
        (content(&view, &request, refused.as_ref(), &Faults::none()))
    };
    Ok(layout::page(&view, "Check a signature", &page))
}

fn faults(request: &CheckedRequest) -> Faults {
    let mut faults = Faults::none();
    let CheckedRequest { key, method, target, timestamp, signature, body } = request;
    let fields =
        [("key", key), ("method", method), ("path", target), ("t", timestamp), ("signature", signature)];
    for (name, value) in fields {
        if value.len() > FIELD_MAX {
            faults.add(name, "is too long");
        }
    }
    for (name, value) in [("key", key), ("method", method), ("path", target)] {
        if value.is_empty() {
            faults.add(name, "must not be empty");
        }
    }
    if body.len() > BODY_MAX {
        faults
            .add("body", "must have at most 256 KiB: check a shorter one that is signed by the same program");
    }
    faults
}

fn shown(report: &SignatureReport) -> Markup {
    let cut = report.to_sign.char_indices().nth(SHOWN).map(|(at, _)| at);
    html! {
        @match report.first_failure() {
            Some(step) => { div.alert role="alert" { p { strong { "First difference: " (step.name) } } p { (step.text) } } }
            None => { p.notice role="status" { "No difference was found." } }
        }
        ol.timeline { @for step in &report.steps { (step_item(step)) } }
        h2 { "Text to sign" }
        pre.wrapped { code data-copy { (&report.to_sign[..cut.unwrap_or(report.to_sign.len())]) } }
        p.soft {
            (report.to_sign.len()) " bytes" @if cut.is_some() { ", of which the beginning is shown" }
            ". The signature is the HMAC-SHA256 of these bytes under the secret, in hex."
        }
    }
}

fn step_item(step: &CheckStep) -> Markup {
    let (class, verdict) = match step.verdict {
        Verdict::Passed => ("good", "right"),
        Verdict::Failed => ("bad", "differs"),
        Verdict::Skipped => ("soft", "not checked"),
    };
    html! {
        li { span.stage { (step.name) } " " span class=(class) { (verdict) } br; (step.text) }
    }
}
