//! `clients` with their `travelers`, as the API returns them.

use super::RowError;
use common::model::{ClientId, decimal_digits};
use common::view::{ClientView, TravelerView};
use tokio_postgres::Row;

/// An identity by which clients are looked up, in its stored form (D10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientIdentity {
    /// The key of an address ([`common::model::Email::key`]).
    Email(String),
    /// Trimmed.
    ExternalId(String),
    /// Digits only.
    Phone(String),
}

impl ClientIdentity {
    /// The first of the three that is not empty (specification: GET /clients); `None` when all are.
    pub(crate) fn first(email: Option<String>, external_id: Option<String>, phone: Option<&str>) -> Option<Self> {
        email
            .map(Self::Email)
            .or(external_id.map(|id| Self::ExternalId(id.trim().to_owned())))
            .or_else(|| phone.map(decimal_digits).filter(|digits| !digits.is_empty()).map(Self::Phone))
    }
}

macro_rules! select {
    ($name:literal, $from:literal, $condition:literal) => {
        concat!(
            "-- clients.",
            $name,
            "
    SELECT c.client_id, c.name, c.email, c.phone, c.company, c.external_id, c.marketing_opt_in, c.client_type,
           c.created_at, c.updated_at, r.names, r.types, r.ages, r.emails, r.phones",
            $from,
            " CROSS JOIN LATERAL (
        SELECT array_agg(v.name) AS names, array_agg(v.type) AS types, array_agg(v.age) AS ages,
               array_agg(v.email) AS emails, array_agg(v.phone) AS phones
        FROM (SELECT t.name, t.type, t.age, t.email, t.phone FROM travelers t
              WHERE t.tenant_id = c.tenant_id AND t.client_id = c.client_id ORDER BY t.position) v) r",
            $condition
        )
    };
}

common::statements! {
    /// By their ids: those of many requests at once, each with its tenant, told apart by `place`.
    pub(crate) const BY_IDS = select!(
        "by_ids",
        ", w.place
        FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, client_id, place)
        CROSS JOIN LATERAL (SELECT * FROM clients c
                            WHERE c.tenant_id = w.tenant_id AND c.client_id = w.client_id LIMIT 1) AS c",
        ""
    );

    /// By its email, lower case.
    pub(crate) const BY_EMAIL =
        select!("by_email", " FROM clients c", " WHERE c.email_key = $2 AND c.tenant_id::text = $1::uuid::text");

    /// By the caller's own id.
    pub(crate) const BY_EXTERNAL_ID = select!(
        "by_external_id",
        " FROM clients c",
        " WHERE c.external_id = $2 AND c.tenant_id::text = $1::uuid::text"
    );

    /// By the digits of its phone: the oldest that has it (D10).
    pub(crate) const BY_PHONE = select!(
        "by_phone",
        " FROM clients c",
        " WHERE c.phone_digits = $2 AND c.tenant_id::text = $1::uuid::text ORDER BY c.created_at, c.client_id LIMIT 1"
    );
}

/// Decodes a row of any statement of this module.
pub(crate) fn view(row: &Row) -> Result<ClientView, RowError> {
    Ok(ClientView {
        id: ClientId(row.try_get("client_id")?),
        name: row.try_get("name")?,
        email: row.try_get("email")?,
        phone: row.try_get("phone")?,
        company: row.try_get("company")?,
        external_id: row.try_get("external_id")?,
        marketing_opt_in: row.try_get("marketing_opt_in")?,
        client_type: row.try_get("client_type")?,
        travelers: travelers(row)?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

/// The roster. Its columns are null when it is empty.
fn travelers(row: &Row) -> Result<Vec<TravelerView>, RowError> {
    let Some(names) = row.try_get::<_, Option<Vec<String>>>("names")? else { return Ok(Vec::new()) };
    let types: Vec<String> = row.try_get("types")?;
    let ages: Vec<Option<i16>> = row.try_get("ages")?;
    let emails: Vec<Option<String>> = row.try_get("emails")?;
    let phones: Vec<Option<String>> = row.try_get("phones")?;
    let columns = names.into_iter().zip(types).zip(ages).zip(emails).zip(phones);
    Ok(columns.map(|((((name, kind), age), email), phone)| TravelerView { name, kind, age, email, phone }).collect())
}
