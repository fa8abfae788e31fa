//! GETs of the records routes.

use super::{Services, VerifiedRequest};
use crate::auth::Verified;
use crate::http::conditions::is_not_modified;
use crate::http::{RequestHead, query};
use crate::reads::{not_found, or_internal_error};
use crate::refusal::{Refusal, json_response};
use crate::store::RowError;
use crate::store::clients::ClientIdentity;
use crate::store::records::{RecordLookup, RecordQuery};
use chrono::{DateTime, Utc};
use common::limited;
use common::log_limit::LogLimit;
use common::model::{ClientId, Email, LeadId};
use common::version::etag;
use common::write::WriteRefusal;
use serde::Serialize;
use tokio::time::Instant;
use tokio_postgres::Row;
use warp::http::header::ETAG;
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

/// The parameters by which clients are found, and those by which enquiries are. One of them is required.
pub(crate) const CLIENT_PARAMETERS: [&str; 3] = ["email", "externalId", "phone"];
pub(crate) const LEAD_PARAMETERS: [&str; 1] = ["externalId"];
/// Limits the log lines of records that cannot be serialized.
static UNWRITABLE: LogLimit<1> = LogLimit::new();

/// Returns all records that a query finds.
pub(super) async fn list<V: Serialize>(
    services: &Services, VerifiedRequest { verified, .. }: &VerifiedRequest, query: Result<RecordQuery, Refusal>,
    view: fn(&Row) -> Result<V, RowError>,
) -> Result<Response, Refusal> {
    let rows = find(services, verified, query).await?;
    data(&rows.iter().map(|row| or_internal_error(view(row))).collect::<Result<Vec<V>, Refusal>>()?)
}

/// Returns the record that a query finds, with its version; 304, without calling `view`, when the caller has that
/// version (D19). 409 `trip_not_open` without a version, which is the case only for a lead that has no trip.
pub(super) async fn record<V: Serialize>(
    services: &Services, head: &RequestHead, VerifiedRequest { verified, .. }: &VerifiedRequest,
    query: Result<RecordQuery, Refusal>, view: fn(&Row) -> Result<V, RowError>,
) -> Result<Response, Refusal> {
    let rows = find(services, verified, query).await?;
    let row = rows.first().ok_or_else(not_found)?;
    // Null if a lead has no trip.
    let version: Option<DateTime<Utc>> = or_internal_error(row.try_get("updated_at").map_err(RowError::from))?;
    let etag = etag(version.ok_or(Refusal::Write(WriteRefusal::TripNotOpen))?);
    let is_known = is_not_modified(&head.headers, &etag);
    let mut response =
        if is_known { json_response(StatusCode::NOT_MODIFIED, "") } else { data(&or_internal_error(view(row))?)? };
    response.headers_mut().insert(ETAG, HeaderValue::try_from(etag).map_err(|_| Refusal::Internal)?);
    Ok(response)
}

/// Uses the signature up, counts the read, and runs its query. A refusal instead of a query is returned after that.
pub(super) async fn find(
    services: &Services, verified: &Verified, query: Result<RecordQuery, Refusal>,
) -> Result<Vec<Row>, Refusal> {
    let reads = &services.reads;
    let (key, per_second) = (&verified.caller().key, verified.reads_per_second());
    let would_admit = services.read_limit.would_admit(key, per_second, Instant::now());
    // The look-up and the replay entry share one round trip. A refused signature takes precedence over the read limit, and
    // both over the result; a refused signature is not counted as a read.
    let admitted_query = query.as_ref().ok().filter(|_| would_admit).cloned();
    let found = reads.admit_and_find(verified, admitted_query).await?;
    services.read_limit.take(key, per_second, Instant::now())?;
    let query = query?;
    let found = match found {
        Some(found) => found,
        None => {
            let lookup = RecordLookup { tenant: verified.caller().tenant_id, query };
            reads.find(lookup, verified.deadline()).await
        }
    };
    reads.rows(found)
}

/// 404 for a malformed id (D18).
pub(super) fn client_id(text: &str) -> Result<ClientId, Refusal> {
    ClientId::parse(text).ok_or_else(not_found)
}

/// 404 for a malformed id (D18).
pub(super) fn lead_id(text: &str) -> Result<LeadId, Refusal> {
    LeadId::parse(text).ok_or_else(not_found)
}

/// 400 without a field to look for.
pub(super) fn client_key(head: &RequestHead) -> Result<RecordQuery, Refusal> {
    let ([email, external_id, phone], faults) = query::parse_parameters(head.query(), CLIENT_PARAMETERS);
    query::refuse(&faults)?;
    // No client has an address that is none.
    let email =
        email.map(|sent| Email::parse(&sent).map_or_else(|_| sent.trim().to_owned(), |email| email.key().to_owned()));
    ClientIdentity::first(email, external_id, phone.as_deref())
        .map(RecordQuery::ClientBy)
        .ok_or(Refusal::LookupFieldRequired("One of email, externalId or phone is required"))
}

/// 400 without a field to look for.
pub(super) fn lead_external_id(head: &RequestHead) -> Result<RecordQuery, Refusal> {
    let ([external_id], faults) = query::parse_parameters(head.query(), LEAD_PARAMETERS);
    query::refuse(&faults)?;
    external_id
        .map(|id| RecordQuery::LeadsBy(id.trim().to_owned()))
        .ok_or(Refusal::LookupFieldRequired("externalId is required"))
}

fn data(view: &impl Serialize) -> Result<Response, Refusal> {
    #[derive(Serialize)]
    struct Data<'a, V> {
        data: &'a V,
    }
    json(&Data { data: view })
}

pub(super) fn json(body: &impl Serialize) -> Result<Response, Refusal> {
    let body = serde_json::to_vec(body).map_err(|error| {
        limited!(UNWRITABLE[0], error, %error, "serializing a record failed; responding 500");
        Refusal::Internal
    })?;
    Ok(json_response(StatusCode::OK, body))
}
