//! `POST /events` (specification: POST /api/v1/crm/connect/events).

use super::Services;
use crate::error::Refusal;
use crate::heavy::work_on;
use crate::request::RequestHead;
use crate::submit::ValidBatch;
use bytes::{Buf, Bytes};
use common::event::read_batch;
use common::model::Scope;
use common::signature::Scheme;
use futures_util::Stream;
use warp::Reply;
use warp::http::HeaderValue;
use warp::http::header::CONTENT_TYPE;
use warp::reply::Response;

/// Takes a batch in and answers with its result, or with a refusal.
pub async fn post<S, B, E>(services: &Services, head: &RequestHead, body: S) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    match ingest(services, head, body).await {
        Ok(result) => {
            let mut response = Response::new(result.into());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// The checks of D1, then those of the body. What can refuse for want of room or of a broker comes before the signature
/// is used up.
async fn ingest<S, B, E>(services: &Services, head: &RequestHead, body: S) -> Result<Vec<u8>, Refusal>
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let bytes = &services.bodies.read(head, body).await?;
    let verified = services.auth.verify(head, bytes, Scheme::V1, Scope::EventsIngest).await?;
    let caller = verified.caller();
    let _place = services.limits.enter(caller.tenant_id)?;
    services.events.check_ready()?;
    let share = services.events.admit(caller.tenant_id, bytes)?;
    // The body is read while the signature is written; the signature speaks first.
    let (admitted, batch) =
        tokio::join!(services.auth.admit(&verified, None), async { read(bytes, &caller.tenant) });
    admitted?;
    services.events.submit(head.trail, caller, batch?, share).await
}

/// Reads a valid batch; 400 with all places at fault for any other.
fn read(body: &Bytes, tenant: &str) -> Result<ValidBatch, Refusal> {
    work_on(body.len(), || match read_batch(body, tenant) {
        Ok(batch) => Ok(ValidBatch {
            // At most 100, see `BATCH_MAX`.
            events: u16::try_from(batch.envelopes.len()).unwrap_or(u16::MAX),
            text: body.slice_ref(batch.text.as_bytes()),
            body: body.clone(),
        }),
        Err(faults) => Err(Refusal::InvalidRequest(faults.to_string())),
    })
}
