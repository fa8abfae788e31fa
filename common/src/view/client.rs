//! A client, as shown.

use crate::clock;
use crate::model::ClientId;
use chrono::{DateTime, Utc};
use serde::Serialize;

/// A client (specification: Client).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientView {
    /// UUIDv7 (D18).
    pub id: ClientId,
    /// Full name.
    pub name: String,
    /// As sent.
    pub email: Option<String>,
    /// As sent.
    pub phone: Option<String>,
    /// Label, at most 500 characters.
    pub company: Option<String>,
    /// The caller's own id for the person.
    pub external_id: Option<String>,
    /// Marketing consent.
    pub marketing_opt_in: bool,
    /// `individual` or `company` (D13).
    pub client_type: String,
    /// The roster, in its order.
    pub travelers: Vec<TravelerView>,
    /// When the client was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// Last change; the ETag is derived from it (D19).
    #[serde(serialize_with = "clock::serialize")]
    pub updated_at: DateTime<Utc>,
}

/// One of a client's travelers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TravelerView {
    /// Full name.
    pub name: String,
    /// `adult`, `child` or `infant`.
    #[serde(rename = "type")]
    pub kind: String,
    /// In years.
    pub age: Option<i16>,
    /// As sent.
    pub email: Option<String>,
    /// As sent.
    pub phone: Option<String>,
}
