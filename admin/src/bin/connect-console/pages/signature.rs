//! The signature check: why a signature does not verify, and how to make one.

use crate::context::View;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::format::time;
use crate::layout;
use crate::pages::form::{Faults, Field, input, summary, text_area};
use admin::refusals::{self, RefusedRequest};
use admin::signature_check::{BODY_MAX, CheckStep, CheckedRequest, SignatureReport, Verdict, check};
use maud::{Markup, html};
use warp::reply::Response;

/// The empty form, with what is known of a refused request.
pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let refused = refused(&view, &view.request.query).await?;
    let request = CheckedRequest {
        key: refused.as_ref().map_or_else(String::new, |refused| refused.key_prefix.clone()),
        method: refused.as_ref().map_or("POST", |refused| refused.method.as_str()).to_owned(),
        target: refused.as_ref().map_or("/api/v1/crm/connect/events", |refused| refused.route.as_str()).to_owned(),
        timestamp: refused.as_ref().and_then(|refused| refused.signed_at).map_or_else(String::new, |t| t.to_string()),
        ..CheckedRequest::default()
    };
    Ok(layout::page(&view, "Check a signature", &content(&view, &request, refused.as_ref(), &Faults::none())))
}

/// The refused request that a query or form names, if it names one.
async fn refused(view: &View<'_>, fields: &Fields) -> Result<Option<RefusedRequest>, Failure> {
    Ok(match fields.optional("request") {
        Some(id) => Some(refusals::find_in(view.client(), view.tenant()?.id, id).await?),
        None => None,
    })
}

fn content(view: &View<'_>, request: &CheckedRequest, refused: Option<&RefusedRequest>, faults: &Faults) -> Markup {
    html! {
        p { "Enter a request as your program sends it. Nothing is stored, and no signature is shown: the page only tells whether yours is right, and which mistake explains it." }
        @if let Some(refused) = refused {
            p { "It is compared with the request " code { (refused.request_id) } " that was refused " (time(refused.at)) ". Its body and signature are not stored: enter them." }
        }
        (summary(faults))
        (form(view, request, refused, faults))
        (samples())
    }
}

fn form(view: &View<'_>, request: &CheckedRequest, refused: Option<&RefusedRequest>, faults: &Faults) -> Markup {
    let target = "With the query, exactly as sent, with the ids in place of braces.";
    let timestamp = "Seconds since 1970. Leave it empty if the signature has it.";
    let signature = "The value of X-Connect-Signature, or the MAC alone.";
    let body = "As it is before it is signed. Line breaks of other systems are recognized.";
    html! {
        form method="post" action=(view.tenant_path("/signature")) {
            @if let Some(refused) = refused { input type="hidden" name="request" value=(refused.request_id); }
            (input(Field { name: "key", label: "Key", hint: "The value of X-Connect-Key." }, "text", &request.key, faults))
            (input(Field { name: "method", label: "Method", hint: "" }, "text", &request.method, faults))
            (input(Field { name: "path", label: "Path", hint: target }, "text", &request.target, faults))
            (input(Field { name: "t", label: "Timestamp (t)", hint: timestamp }, "text", &request.timestamp, faults))
            (input(Field { name: "signature", label: "Signature", hint: signature }, "text", &request.signature, faults))
            (text_area(Field { name: "body", label: "Body", hint: body }, &request.body, faults))
            button { "Check" }
        }
    }
}

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
        return Ok(layout::page_with(&view, faults.status(), "Check a signature", &content));
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
    let fields = [("key", key), ("method", method), ("path", target), ("t", timestamp), ("signature", signature)];
    for (name, value) in fields {
        if value.len() > FIELD_MAX {
            faults.add(name, format!("{name} is too long"));
        }
    }
    for (name, value) in [("key", key), ("method", method), ("path", target)] {
        if value.is_empty() {
            faults.add(name, format!("{name} must not be empty"));
        }
    }
    if body.len() > BODY_MAX {
        faults.add("body", "body must have at most 256 KiB: check a shorter one that is signed by the same program");
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
            "Length in bytes: " (report.to_sign.len()) @if cut.is_some() { ", of which the beginning is shown" }
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

const SHELL: &str = include_str!("signature/sign.sh");
const PYTHON: &str = include_str!("signature/sign.py");
const NODE: &str = include_str!("signature/sign.js");
const RUST: &str = include_str!("signature/sign.rs");

/// How to make a signature, in four languages. A test runs each of them.
fn samples() -> Markup {
    html! {
        h2 { "Make a signature" }
        p { "Sign the bytes that are sent: serialize the body once, sign the result, and send the same result." }
        @for (name, code) in [("Shell and openssl", SHELL), ("Python 3", PYTHON), ("Node 18 or later", NODE), ("Rust (hmac, sha2, hex)", RUST)] {
            h3 { (name) }
            pre { code data-copy { (code.trim_end()) } }
        }
    }
}
