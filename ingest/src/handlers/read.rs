//! GETs of the records routes.

use super::Services;
use super::records::Known;
use super::resource::Resource;
use crate::auth::Verified;
use crate::conditions::has_already;
use crate::error::Refusal;
use crate::query;
use crate::reads::ClientKey;
use crate::request::RequestHead;
use chrono::{DateTime, Utc};
use common::limited;
use common::log_limit::LogLimit;
use common::model::{ClientId, LeadId};
use common::write::{WriteRefusal, etag};
use serde::Serialize;
use tokio::time::Instant;
use warp::http::header::{CONTENT_TYPE, ETAG};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

/// Which records that can't be written as JSON are logged.
static UNWRITABLE: LogLimit<1> = LogLimit::new();

/// Uses the signature up, counts the read, and shows what was asked for.
pub(super) async fn answer(
    services: &Services,
    head: &RequestHead,
    known: &Known,
    resource: &Resource,
) -> Result<Response, Refusal> {
    let verified = &known.verified;
    let (key, per_second) = (&verified.caller().key, verified.reads_per_second());
    let has_room = services.read_limit.has_room(key, per_second, Instant::now());
    let shown =
        async { Ok(if has_room { Some(show(services, head, verified, resource).await) } else { None }) };
    // Looked up while the signature is written: a read waits for one round trip, not for two. Whatever was found, the
    // signature speaks first, then the limit; a signature that is refused doesn't wait for it and isn't counted.
    let (_, shown) = tokio::try_join!(services.auth.admit(verified, None), shown)?;
    services.read_limit.take(key, per_second, Instant::now())?;
    match shown {
        Some(shown) => shown,
        None => show(services, head, verified, resource).await,
    }
}

/// What was asked for.
async fn show(
    services: &Services,
    head: &RequestHead,
    verified: &Verified,
    resource: &Resource,
) -> Result<Response, Refusal> {
    let (reads, tenant, deadline) = (&services.reads, verified.caller().tenant_id, verified.deadline());
    match resource {
        Resource::Clients => {
            let key = client_key(head)?;
            data(&reads.find_client(tenant, &key, deadline).await?)
        }
        Resource::Client(id) => {
            let client = reads.client(tenant, client_id(id)?, deadline).await?;
            record(head, &client, client.updated_at)
        }
        Resource::Leads => {
            let external_id = lead_external_id(head)?;
            data(&reads.find_leads(tenant, &external_id, deadline).await?)
        }
        Resource::Lead(id) => {
            let lead = reads.lead(tenant, lead_id(id)?, deadline).await?;
            record(head, &lead, lead.updated_at)
        }
        Resource::Trip(id) => {
            let trip = reads.trip(tenant, lead_id(id)?, deadline).await?;
            record(head, &trip, trip.updated_at)
        }
    }
}

/// 404 for a text that can't be an id (D18).
pub(super) fn client_id(text: &str) -> Result<ClientId, Refusal> {
    ClientId::parse(text).ok_or(Refusal::Write(WriteRefusal::NotFound))
}

/// 404 for a text that can't be an id (D18).
pub(super) fn lead_id(text: &str) -> Result<LeadId, Refusal> {
    LeadId::parse(text).ok_or(Refusal::Write(WriteRefusal::NotFound))
}

fn client_key(head: &RequestHead) -> Result<ClientKey, Refusal> {
    let [email, external_id, phone] = query::read(head.query(), ["email", "externalId", "phone"])?;
    ClientKey::first(email, external_id, phone.as_deref())
        .ok_or(Refusal::LookupFieldRequired("One of email, externalId or phone is required"))
}

fn lead_external_id(head: &RequestHead) -> Result<String, Refusal> {
    let [external_id] = query::read(head.query(), ["externalId"])?;
    external_id.map(|id| id.trim().to_owned()).ok_or(Refusal::LookupFieldRequired("externalId is required"))
}

/// A single record with its version; 304 when the caller has that one (D19).
fn record(head: &RequestHead, view: &impl Serialize, updated_at: DateTime<Utc>) -> Result<Response, Refusal> {
    let etag = etag(updated_at);
    let mut response = if has_already(&head.headers, &etag) { not_modified() } else { data(view)? };
    response.headers_mut().insert(ETAG, HeaderValue::try_from(etag).map_err(|_| Refusal::Internal)?);
    Ok(response)
}

fn not_modified() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// `{"data": ..}`
fn data(view: &impl Serialize) -> Result<Response, Refusal> {
    #[derive(Serialize)]
    struct Data<'a, V> {
        data: &'a V,
    }
    let body = serde_json::to_vec(&Data { data: view }).map_err(|error| {
        limited!(UNWRITABLE[0], error, %error, "a record can't be written");
        Refusal::Internal
    })?;
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
