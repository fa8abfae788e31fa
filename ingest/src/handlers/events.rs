//! `POST /events` (specification: POST /api/v1/crm/connect/events).

use super::Services;
use crate::auth::Verified;
use crate::http::{RequestHead, dry_run, response};
use crate::publish::events::ValidBatch;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::cpu_bound::run_cpu_bound;
use common::event::read_batch;
use common::http::BodyStream;
use common::model::Scope;
use common::signature::Scheme;
use warp::Reply;
use warp::http::StatusCode;
use warp::reply::Response;

/// Responds to a batch with its result, or with a refusal.
pub(crate) async fn post(services: &Services, head: &RequestHead, body: impl BodyStream) -> Response {
    let mut response = match ingest(services, head, body).await {
        Ok(result) => response::json(StatusCode::OK, result),
        Err(refusal) => refusal.into_response(),
    };
    dry_run::mark(&head.headers, response.headers_mut());
    response
}

/// The checks of D1, then those of the body. Limits and the broker are checked before the signature is used up.
async fn ingest(services: &Services, head: &RequestHead, body: impl BodyStream) -> Result<Vec<u8>, Refusal> {
    let bytes = &services.read_body(head, body).await?;
    let verified = services.auth.verify(head, bytes, Scheme::V1, Scope::EventsIngest).await?;
    let result = ingest_verified(services, head, bytes, &verified).await;
    services.refused.note_result(head, bytes, &verified, &result);
    result
}

/// What follows steps 1 to 6 of D1.
async fn ingest_verified(
    services: &Services,
    head: &RequestHead,
    bytes: &Bytes,
    verified: &Verified,
) -> Result<Vec<u8>, Refusal> {
    let caller = verified.caller();
    let _permit = services.limits.acquire(caller.tenant_id)?;
    let share = services.events.take_share(caller.tenant_id, bytes)?;
    // The body is parsed while the replay entry is written; a refused signature takes precedence over a refused body.
    let (admitted, batch) = tokio::join!(services.auth.admit(verified, None), async {
        parse_valid_batch(head, bytes, &caller.tenant)
    });
    admitted?;
    services.events.submit(head.request_context, caller, batch?, share).await
}

/// Parses and validates a batch; 400 with all invalid places.
fn parse_valid_batch(head: &RequestHead, body: &Bytes, tenant: &str) -> Result<ValidBatch, Refusal> {
    let dry_run = dry_run::is_dry_run(&head.headers)?;
    run_cpu_bound(body.len(), || match read_batch(body, tenant) {
        Ok(batch) => Ok(ValidBatch {
            // At most 100, see `BATCH_MAX`.
            events: u16::try_from(batch.envelopes.len()).unwrap_or(u16::MAX),
            text: body.slice_ref(batch.text.as_bytes()),
            body: body.clone(),
            dry_run,
        }),
        Err(faults) => Err(Refusal::InvalidRequest(faults.to_string())),
    })
}
