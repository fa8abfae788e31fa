//! The records routes (specification: Records routes).

use super::resource::{Access, Resource};
use super::{Services, read, write};
use crate::http::RequestHead;
use crate::refusal::Refusal;
use common::http::{BodyStream, discard};
use common::signature::Scheme;
use warp::Reply;
use warp::reply::Response;

/// Responds to a request for `resource`.
pub(crate) async fn handle(
    services: &Services, head: &RequestHead, body: impl BodyStream, resource: &Resource,
) -> Response {
    let Some((access, scope)) = resource.access(&head.method) else {
        discard(head.body_source(), body);
        return Refusal::MethodNotAllowed(resource.route().methods()).into_response();
    };
    let handled = match services.verify(head, body, Scheme::V2, scope).await {
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
    handled.unwrap_or_else(Refusal::into_response)
}
