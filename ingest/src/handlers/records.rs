//! The records routes (specification: Records routes).

use super::resource::{Access, Resource};
use super::{Services, read, write};
use crate::auth::Verified;
use crate::http::{RequestHead, dry_run};
use crate::limits::InFlightPermit;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::http::{BodyStream, discard};
use common::model::Scope;
use common::signature::Scheme;
use warp::Reply;
use warp::reply::Response;

/// A request that passed steps 1 to 6 of D1, with its permit; its signature is not used up yet.
pub(super) struct VerifiedRequest {
    pub(super) body: Bytes,
    pub(super) verified: Verified,
    /// Until the request has ended, or waits for something that others do.
    pub(super) permit: Option<InFlightPermit>,
}

/// Responds to a request for `resource`.
pub(crate) async fn handle(
    services: &Services,
    head: &RequestHead,
    body: impl BodyStream,
    resource: &Resource,
) -> Response {
    let Some((access, scope)) = resource.access(&head.method) else {
        discard(head.body_source(), body);
        return Refusal::MethodNotAllowed(resource.route().methods()).into_response();
    };
    let handled = match verify_request(services, head, body, scope).await {
        Ok(request) => {
            let result = match access {
                Access::Read => read::handle(services, head, &request, resource).await,
                Access::Write => write::handle(services, head, &request, resource).await,
            };
            services.refused.note_result(head, &request.body, &request.verified, &result);
            result
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = handled.unwrap_or_else(Refusal::into_response);
    if access == Access::Write {
        dry_run::mark(&head.headers, response.headers_mut());
    }
    response
}

/// Steps 1 to 6 of D1, and the limit of requests under way.
pub(super) async fn verify_request(
    services: &Services,
    head: &RequestHead,
    body: impl BodyStream,
    scope: Scope,
) -> Result<VerifiedRequest, Refusal> {
    let body = services.read_body(head, body).await?;
    let verified = services.auth.verify(head, &body, Scheme::V2, scope).await?;
    let permit = services.limits.acquire(verified.caller().tenant_id)?;
    Ok(VerifiedRequest { body, verified, permit: Some(permit) })
}
