//! POSTs and PATCHes of the records routes.

use super::{Services, VerifiedRequest};
use crate::admission::write_units;
use crate::http::RequestHead;
use crate::http::conditions::{idempotency_key, if_match};
use crate::publish::writes::ValidWrite;
use crate::refusal::{Refusal, json_response};
use common::cpu_bound::run_cpu_bound;
use common::record::{BodyError, ClientBody, LeadBody, LeadPatch, TripPatch, parse};
use common::write::{WriteRefusal, WriteTarget, Written};
use warp::http::header::ETAG;
use warp::http::{HeaderName, HeaderValue, Method, StatusCode};
use warp::reply::Response;

/// In a response that an earlier request with the same `Idempotency-Key` has got (D17).
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Validates the request, admits it, and has the worker write.
pub(super) async fn handle(
    services: &Services, head: &RequestHead, VerifiedRequest { body, verified }: &VerifiedRequest,
    target: Result<WriteTarget, Refusal>,
) -> Result<Response, Refusal> {
    let creates = head.method == Method::POST;
    let key = creates.then(|| idempotency_key(&head.headers)).transpose();
    let came_with = key.as_ref().ok().cloned().flatten();
    // The header is not signed: the signature of a dry run must not be good for a real write with the same key (D3).
    let came_with = came_with.filter(|_| head.dry_run == Ok(false));
    let parse = || key.and_then(|key| parse_valid_write(head, target, key, body));
    let (share, write) = services.admit(verified, &services.writes.publisher.queue, came_with, parse).await?;
    written(services.writes.submit(head.request_context, verified.caller(), write, body, share).await?)
}

/// Checks that the id and the condition are well formed and that the body is valid, and counts its backlog units.
fn parse_valid_write(
    head: &RequestHead, target: Result<WriteTarget, Refusal>, idempotency_key: Option<String>, body: &[u8],
) -> Result<(u64, ValidWrite), Refusal> {
    let dry_run = head.dry_run.clone()?;
    let target = target?;
    let if_match = if idempotency_key.is_some() { None } else { if_match(&head.headers)? };
    run_cpu_bound(body.len(), || check_body(target, body))
        .map_err(|refused| Refusal::Write(WriteRefusal::from(refused)))?;
    let write = ValidWrite { target, path: head.uri.path().to_owned(), idempotency_key, if_match, dry_run };
    Ok((write_units(body.len(), dry_run), write))
}

fn check_body(target: WriteTarget, body: &[u8]) -> Result<(), BodyError> {
    match target {
        WriteTarget::NewClient | WriteTarget::Client(_) => parse::<ClientBody>(body).map(drop),
        WriteTarget::NewLead => parse::<LeadBody>(body).map(drop),
        WriteTarget::Lead(_) => parse::<LeadPatch>(body).map(drop),
        WriteTarget::Trip(_) => parse::<TripPatch>(body).map(drop),
    }
}

/// The worker's reply as a response.
fn written(written: Written) -> Result<Response, Refusal> {
    let status = StatusCode::from_u16(written.status).map_err(|_| Refusal::Internal)?;
    let etag = HeaderValue::try_from(written.etag).map_err(|_| Refusal::Internal)?;
    let body: Box<str> = written.body.into();
    let mut response = json_response(status, body.into_string());
    let headers = response.headers_mut();
    if !etag.is_empty() {
        headers.insert(ETAG, etag);
    }
    if written.replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}
