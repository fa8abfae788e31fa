//! `POST /events` (specification: POST /api/v1/crm/connect/events).

use super::{Services, VerifiedRequest};
use crate::admission::batch_units;
use crate::http::RequestHead;
use crate::publish::events::ValidBatch;
use crate::refusal::{Refusal, json_response};
use bytes::Bytes;
use common::cpu_bound::run_cpu_bound;
use common::event::read_batch;
use warp::http::StatusCode;
use warp::reply::Response;

/// Parses the batch, admits it, has the worker apply it, and responds with its result.
pub(super) async fn handle(
    services: &Services, head: &RequestHead, VerifiedRequest { body, verified }: &VerifiedRequest,
) -> Result<Response, Refusal> {
    let caller = verified.caller();
    let parse = || parse_valid_batch(head, body, &caller.tenant);
    let (share, batch) = services.admit(verified, &services.events.publisher.queue, None, parse).await?;
    let result = services.events.submit(head.request_context, caller, batch, body, share).await?;
    Ok(json_response(StatusCode::OK, result))
}

/// Parses and validates a batch, and counts its backlog units; 400 with all invalid places. What was parsed is not kept
/// while the request waits.
fn parse_valid_batch(head: &RequestHead, body: &Bytes, tenant: &str) -> Result<(u64, ValidBatch), Refusal> {
    let dry_run = head.dry_run.clone()?;
    run_cpu_bound(body.len(), || match read_batch(body, tenant) {
        Ok(envelopes) => {
            let valid = ValidBatch {
                // At most 100, see `BATCH_MAX`.
                events: u16::try_from(envelopes.len()).unwrap_or(u16::MAX),
                dry_run,
            };
            Ok((batch_units(&envelopes, body.len(), dry_run), valid))
        }
        Err(faults) => Err(Refusal::InvalidRequest(faults.to_string())),
    })
}
