//! POSTs and PATCHes of the records routes.

use super::Services;
use super::read::{client_id, lead_id};
use super::records::Known;
use super::resource::Resource;
use crate::auth::IdempotencyKey;
use crate::conditions::if_match;
use crate::error::Refusal;
use crate::heavy::work_on;
use crate::request::RequestHead;
use crate::writes::Write;
use common::record::{ClientBody, LeadBody, LeadPatch, Refused, TripPatch, parse};
use common::write::{IfMatch, WriteRefusal, WriteTarget, Written};
use warp::http::header::{CONTENT_TYPE, ETAG};
use warp::http::{HeaderName, HeaderValue, StatusCode};
use warp::reply::Response;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Uses the signature up, checks the rest, and has the worker write.
pub(super) async fn answer(
    services: &Services,
    head: &RequestHead,
    known: &Known,
    resource: &Resource,
) -> Result<Response, Refusal> {
    let bytes = &known.body;
    services.writes.check_ready()?;
    let share = services.writes.admit(known.verified.caller().tenant_id, bytes)?;
    let key = if resource.is_list() { IdempotencyKey::read(&head.headers).map(Some) } else { Ok(None) };
    let came_with = key.as_ref().ok().cloned().flatten();
    // The body is read while the signature is written; the signature speaks first, then the key.
    let (admitted, checked) =
        tokio::join!(services.auth.admit(&known.verified, came_with), async { check(head, resource, bytes) });
    admitted?;
    let idempotency_key = key?.map(|key| key.as_str().to_owned());
    let (target, if_match) = checked?;
    let write = Write { target, path: head.uri.path().to_owned(), idempotency_key, if_match };
    written(services.writes.submit(head.trail, known.verified.caller(), write, bytes, share).await?)
}

/// The record is one that can exist, the condition is well formed, the body valid.
fn check(
    head: &RequestHead,
    resource: &Resource,
    body: &[u8],
) -> Result<(WriteTarget, Option<IfMatch>), Refusal> {
    let target = match resource {
        Resource::Clients => WriteTarget::NewClient,
        Resource::Client(id) => WriteTarget::Client(client_id(id)?),
        Resource::Leads => WriteTarget::NewLead,
        Resource::Lead(id) => WriteTarget::Lead(lead_id(id)?),
        Resource::Trip(id) => WriteTarget::Trip(lead_id(id)?),
    };
    let if_match = if resource.is_list() { None } else { if_match(&head.headers)? };
    work_on(body.len(), || check_body(target, body))
        .map_err(|refused| Refusal::Write(WriteRefusal::from(refused)))?;
    Ok((target, if_match))
}

fn check_body(target: WriteTarget, body: &[u8]) -> Result<(), Refused> {
    match target {
        WriteTarget::NewClient | WriteTarget::Client(_) => parse::<ClientBody>(body).map(drop),
        WriteTarget::NewLead => parse::<LeadBody>(body).map(drop),
        WriteTarget::Lead(_) => parse::<LeadPatch>(body).map(drop),
        WriteTarget::Trip(_) => parse::<TripPatch>(body).map(drop),
    }
}

/// The worker's answer as it is.
fn written(written: Written) -> Result<Response, Refusal> {
    let status = StatusCode::from_u16(written.status).map_err(|_| Refusal::Internal)?;
    let etag = HeaderValue::try_from(written.etag).map_err(|_| Refusal::Internal)?;
    let body: Box<str> = written.body.into();
    let mut response = Response::new(body.into_string().into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ETAG, etag);
    if written.replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
