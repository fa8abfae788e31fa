//! The handlers of the routes, and what all of them share. Each reads like D1, from top to bottom.

mod events;
pub(crate) mod feed;
pub(crate) mod read;
mod write;

use crate::admission::Share;
use crate::auth::{Auth, AuthError, Verified};
use crate::http::RequestHead;
use crate::http::route::Endpoint;
use crate::publish::QueuePublisher;
use crate::publish::events::EventPublisher;
use crate::publish::writes::WritePublisher;
use crate::reads::{ReadLimit, RecordReader};
use crate::refusal::{OverloadReason, Refusal};
use crate::refused::KeyRequestRecorder;
use crate::replay::ReplayStore;
use crate::store::records::RecordQuery;
use crate::store::{clients, leads, trips};
use bytes::Bytes;
use common::http::{BodyFault, BodyReader, BodyStream};
use common::model::Scope;
use common::signature::Scheme;
use common::write::WriteTarget;
use feed::FeedWaits;
use read::{client_id, client_key, lead_external_id, lead_id};
use std::sync::Arc;
use warp::Reply;
use warp::reply::Response;

/// What all handlers share.
pub(crate) struct Services {
    pub(crate) bodies: BodyReader,
    pub(crate) auth: Auth,
    /// Why requests were refused, for the owners of their keys.
    pub(crate) refused: KeyRequestRecorder,
    pub(crate) replays: Arc<ReplayStore>,
    pub(crate) events: EventPublisher,
    pub(crate) writes: WritePublisher,
    pub(crate) reads: RecordReader,
    /// Reads per second of each key.
    pub(crate) read_limit: ReadLimit,
    /// Requests that wait for a delivery.
    pub(crate) feed_waits: FeedWaits,
}

impl From<BodyFault> for Refusal {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge(max) => Self::PayloadTooLarge(max),
            BodyFault::Late => Self::RequestTimeout,
            BodyFault::Broken => Self::InvalidRequest("body: cannot be read".to_owned()),
            BodyFault::NoMemory => OverloadReason::Body.refuse(),
        }
    }
}

/// A request that passed steps 1 to 6 of D1; its signature is not used up yet.
#[derive(Debug)]
struct VerifiedRequest {
    body: Bytes,
    verified: Verified,
}

impl Services {
    /// Responds to a request of an endpoint that needs `scope`. `id` is the one in its path, not validated yet.
    pub(crate) async fn respond(
        &self, head: &RequestHead, body: impl BodyStream, endpoint: Endpoint, scope: Scope, id: &str,
    ) -> Response {
        let scheme = if endpoint == Endpoint::SendEvents { Scheme::V1 } else { Scheme::V2 };
        let request = match self.verify(head, body, scheme, scope).await {
            Ok(request) => request,
            Err(refusal) => return refusal.into_response(),
        };
        // Boxed, because what is around moves the future of a request several times, and this is most of it.
        let result = Box::pin(self.handle(head, &request, endpoint, id)).await;
        self.refused.note_result(head, &request.body, &request.verified, &result);
        result.unwrap_or_else(Refusal::into_response)
    }

    /// Each endpoint, and what it does with a verified request.
    async fn handle(
        &self, head: &RequestHead, request: &VerifiedRequest, endpoint: Endpoint, id: &str,
    ) -> Result<Response, Refusal> {
        let (client, lead) = (|| client_id(id), || lead_id(id));
        match endpoint {
            Endpoint::SendEvents => events::handle(self, head, request).await,
            Endpoint::ReadFeed => feed::handle(self, head, request).await,
            Endpoint::FindClients => read::list(self, request, client_key(head), clients::view).await,
            Endpoint::FindLeads => read::list(self, request, lead_external_id(head), leads::view).await,
            Endpoint::GetClient => {
                read::record(self, head, request, client().map(RecordQuery::Client), clients::view).await
            }
            Endpoint::GetLead => read::record(self, head, request, lead().map(RecordQuery::Lead), leads::view).await,
            Endpoint::GetTrip => read::record(self, head, request, lead().map(RecordQuery::Trip), trips::view).await,
            Endpoint::CreateClient => write::handle(self, head, request, Ok(WriteTarget::NewClient)).await,
            Endpoint::CreateLead => write::handle(self, head, request, Ok(WriteTarget::NewLead)).await,
            Endpoint::ChangeClient => write::handle(self, head, request, client().map(WriteTarget::Client)).await,
            Endpoint::ChangeLead => write::handle(self, head, request, lead().map(WriteTarget::Lead)).await,
            Endpoint::ChangeTrip => write::handle(self, head, request, lead().map(WriteTarget::Trip)).await,
            // They need no scope, so that they never get here.
            Endpoint::GetOpenApi | Endpoint::GetDocs => Err(Refusal::NotFound),
        }
    }

    /// Reads the body, then checks steps 1 to 6 of D1. The body comes first because the signature covers it, and
    /// because an unknown key must take as long as a wrong signature.
    ///
    /// 413 when the body is too large, 408 when it does not arrive in time, 400 when the connection or its encoding
    /// breaks, 503 `overloaded` when the memory for bodies, or the peer's share of it, is used up; 401 and 403 as in
    /// D1, counted by reason and noted for the owner of the key (D35); 503 `replay_store_unavailable` when the keys
    /// cannot be checked.
    async fn verify(
        &self, head: &RequestHead, body: impl BodyStream, scheme: Scheme, scope: Scope,
    ) -> Result<VerifiedRequest, Refusal> {
        let body = self.bodies.read(head.body_source(), body, || head.origin.begin_body()).await?;
        match self.auth.verify(head, &body, scheme, scope).await {
            Ok(verified) => Ok(VerifiedRequest { body, verified }),
            Err(AuthError::Unavailable(refusal, signer)) => {
                let refused = Err(refusal);
                if let Some(signer) = signer {
                    self.refused.note_result(head, &body, &signer, &refused);
                }
                refused
            }
            Err(AuthError::Failed(failed)) => {
                self.refused.note_failed(head, &body, &failed, scope);
                Err(failed.refuse())
            }
        }
    }

    /// Parses work and admits it to a queue: takes the tenant's share of so many units as it has, then uses up the
    /// signature (step 7), and only then says what is wrong with the body. So a request that is refused as `overloaded`
    /// may be sent again unchanged, and a replay learns nothing about its body. Nothing is parsed for a tenant without a
    /// share: a flood of full batches would take the processor from the others.
    ///
    /// 401 of a known replay, then 503 `overloaded`, then as [`ReplayStore::use_up`], then the refusal of `parse`, which
    /// takes no share.
    async fn admit<W>(
        &self, verified: &Verified, publisher: &QueuePublisher, idempotency_key: Option<String>,
        parse: impl FnOnce() -> Result<(u64, W), Refusal>,
    ) -> Result<(Share, W), Refusal> {
        let entry = self.replays.entry(verified, idempotency_key)?;
        let tenant = verified.caller().tenant_id;
        publisher.backlog().check(tenant)?;
        let admitted = match parse() {
            Ok((units, work)) => Ok((publisher.take_share(tenant, units)?, work)),
            Err(refusal) => Err(refusal),
        };
        self.replays.use_up(verified, entry).await?;
        admitted
    }
}
