//! The signature check: why a signature does not verify, and how to make one.

pub(crate) mod check;
mod samples;

use crate::context::View;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::format::time;
use crate::layout;
use crate::pages::form::{Faults, Field, input, summary, text_area};
use admin::refusals::{self, RefusedRequest};
use admin::signature_check::CheckedRequest;
use maud::{Markup, html};
use warp::reply::Response;

/// The empty form, with what is known of a refused request.
pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let refused = refused(&view, &view.request.query).await?;
    let request = CheckedRequest {
        key: refused.as_ref().map_or_else(String::new, |refused| refused.key_prefix.clone()),
        method: refused.as_ref().map_or("POST", |refused| refused.method.as_str()).to_owned(),
        target: refused
            .as_ref()
            .map_or("/api/v1/crm/connect/events", |refused| refused.route.as_str())
            .to_owned(),
        timestamp: refused
            .as_ref()
            .and_then(|refused| refused.signed_at)
            .map_or_else(String::new, |t| t.to_string()),
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

fn content(
    view: &View<'_>,
    request: &CheckedRequest,
    refused: Option<&RefusedRequest>,
    faults: &Faults,
) -> Markup {
    html! {
        p { "Enter a request as your program sends it. Nothing is stored, and no signature is shown: the page only tells whether yours is right, and which mistake explains it." }
        @if let Some(refused) = refused {
            p { "It is compared with the request " code { (refused.request_id) } " that was refused " (time(refused.at)) ". Its body and signature are not stored: enter them." }
        }
        (summary(faults))
        (form(view, request, refused, faults))
        (samples::all())
    }
}

fn form(
    view: &View<'_>,
    request: &CheckedRequest,
    refused: Option<&RefusedRequest>,
    faults: &Faults,
) -> Markup {
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
