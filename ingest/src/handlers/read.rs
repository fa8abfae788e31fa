//! GETs of the records routes.

use super::Services;
use super::records::Known;
use super::resource::Resource;
use crate::conditions::has_already;
use crate::error::Refusal;
use crate::query;
use crate::reads::{ClientKey, not_found, readable};
use crate::request::RequestHead;
use crate::store::records::{RecordQuery, Wanted};
use crate::store::{Unreadable, clients, leads, trips};
use chrono::{DateTime, Utc};
use common::limited;
use common::log_limit::LogLimit;
use common::model::{ClientId, LeadId};
use common::write::{WriteRefusal, etag};
use serde::Serialize;
use tokio::time::Instant;
use tokio_postgres::Row;
use warp::http::header::{CONTENT_TYPE, ETAG};
use warp::http::{HeaderMap, HeaderValue, StatusCode};
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
    let (verified, reads) = (&known.verified, &services.reads);
    let (key, per_second) = (&verified.caller().key, verified.reads_per_second());
    let has_room = services.read_limit.has_room(key, per_second, Instant::now());
    let query = query_for(head, resource);
    // Looked up while the signature is written: a read waits for one round trip, not for two. Whatever was found, the
    // signature speaks first, then the limit; a signature that is refused isn't counted.
    let wanted = query.as_ref().ok().filter(|_| has_room).cloned();
    let found = services.auth.admit_read(verified, reads, wanted).await?;
    services.read_limit.take(key, per_second, Instant::now())?;
    let query = query?;
    let found = match found {
        Some(found) => found,
        None => {
            let wanted = Wanted { tenant: verified.caller().tenant_id, query };
            reads.find(wanted, verified.deadline()).await
        }
    };
    show(head, resource, &reads.rows(found)?)
}

/// What is to be looked up. 404 for what can't be an id, 400 for a look-up by nothing.
fn query_for(head: &RequestHead, resource: &Resource) -> Result<RecordQuery, Refusal> {
    Ok(match resource {
        Resource::Clients => RecordQuery::ClientBy(client_key(head)?),
        Resource::Client(id) => RecordQuery::Client(client_id(id)?),
        Resource::Leads => RecordQuery::LeadsBy(lead_external_id(head)?),
        Resource::Lead(id) => RecordQuery::Lead(lead_id(id)?),
        Resource::Trip(id) => RecordQuery::Trip(lead_id(id)?),
    })
}

/// What was found.
fn show(head: &RequestHead, resource: &Resource, rows: &[Row]) -> Result<Response, Refusal> {
    let first = || rows.first().ok_or_else(not_found);
    match resource {
        Resource::Clients => list(rows, clients::view),
        Resource::Leads => list(rows, leads::view),
        Resource::Client(_) => {
            let row = first()?;
            record(&head.headers, readable(version(row))?, || readable(clients::view(row)))
        }
        Resource::Lead(_) => {
            let row = first()?;
            record(&head.headers, readable(version(row))?, || readable(leads::view(row)))
        }
        Resource::Trip(_) => {
            let row = first()?;
            record(&head.headers, readable(version(row))?, || readable(trips::view(row)))
        }
    }
}

/// The column `updated_at`: null where an enquiry has no trip.
fn version(row: &Row) -> Result<Option<DateTime<Utc>>, Unreadable> {
    Ok(row.try_get("updated_at")?)
}

fn list<V: Serialize>(
    rows: &[Row],
    view: impl Fn(&Row) -> Result<V, Unreadable>,
) -> Result<Response, Refusal> {
    data(&rows.iter().map(|row| readable(view(row))).collect::<Result<Vec<V>, Refusal>>()?)
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

/// A single record with its version; 304 when the caller has that one (D19), and then `view` isn't made. 409
/// `trip_not_open` when there is no version, which only the trip of an enquiry without one lacks.
fn record<V: Serialize>(
    headers: &HeaderMap,
    version: Option<DateTime<Utc>>,
    view: impl FnOnce() -> Result<V, Refusal>,
) -> Result<Response, Refusal> {
    let etag = etag(version.ok_or(Refusal::Write(WriteRefusal::TripNotOpen))?);
    let mut response = if has_already(headers, &etag) { not_modified() } else { data(&view()?)? };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use warp::http::header::IF_NONE_MATCH;

    #[test]
    fn a_record_that_the_caller_has_is_neither_read_from_its_row_nor_written_as_json() {
        let version = DateTime::from_timestamp_millis(1_767_225_600_123).unwrap();
        let read = Cell::new(0);
        let view = || {
            read.set(read.get() + 1);
            Ok("a record")
        };
        let unless =
            |etag: &str| HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(etag).unwrap())]);
        for has in [etag(version), "*".to_owned(), format!("\"x\", W/{}", etag(version))] {
            let response = record(&unless(&has), Some(version), view).unwrap();
            assert_eq!((response.status(), read.get()), (StatusCode::NOT_MODIFIED, 0), "{has}");
            assert_eq!(response.headers()[ETAG], etag(version).as_str());
        }
        let response = record(&unless("\"x\""), Some(version), view).unwrap();
        assert_eq!((response.status(), read.get()), (StatusCode::OK, 1));
        let without_trip = record(&unless("*"), None, view).unwrap_err();
        assert_eq!(without_trip, Refusal::Write(WriteRefusal::TripNotOpen));
    }
}
