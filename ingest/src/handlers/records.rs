//! The records routes (specification: Records routes).

use super::resource::{Act, Resource};
use super::{Services, read, write};
use crate::auth::Verified;
use crate::body::discard;
use crate::error::Refusal;
use crate::limits::Place;
use crate::request::RequestHead;
use bytes::{Buf, Bytes};
use common::signature::Scheme;
use futures_util::Stream;
use warp::Reply;
use warp::reply::Response;

/// A request whose credentials hold, with its place; its signature isn't used up yet.
pub(super) struct Known {
    pub(super) body: Bytes,
    pub(super) verified: Verified,
    _place: Place,
}

/// Answers a request for `resource`.
pub async fn answer<S, B, E>(
    services: &Services,
    head: &RequestHead,
    body: S,
    resource: &Resource,
) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let Some(act) = resource.act(&head.method) else {
        discard(head, body);
        return Refusal::MethodNotAllowed(resource.route().methods()).into_response();
    };
    let answered = match check(services, head, body, resource, act).await {
        Ok(known) => match act {
            Act::Read => read::answer(services, head, &known, resource).await,
            Act::Write => write::answer(services, head, &known, resource).await,
        },
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(Refusal::into_response)
}

/// Steps 1 to 6 of D1, and what can refuse for want of room.
async fn check<S, B, E>(
    services: &Services,
    head: &RequestHead,
    body: S,
    resource: &Resource,
    act: Act,
) -> Result<Known, Refusal>
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let body = services.bodies.read(head, body).await?;
    let verified = services.auth.verify(head, &body, Scheme::V2, resource.scope(act)).await?;
    let place = services.limits.enter(verified.caller().tenant_id)?;
    Ok(Known { body, verified, _place: place })
}
