//! `leads` as the API returns them: with the trip's brief once there is one (D20), and the owner's name.

use super::RowError;
use common::model::{Brief, ClientId, LeadId, Stage, TripId};
use common::view::{LeadView, OwnerView};
use tokio_postgres::Row;
use uuid::Uuid;

macro_rules! select {
    ($name:literal, $from:literal, $condition:literal) => {
        concat!(
            "-- leads.",
            $name,
            "
    SELECT l.lead_id, l.enquiry_number, l.title, l.stage, l.follow_up, l.client_id, t.trip_id, l.external_id,
           l.owner_email, m.name AS owner_name, COALESCE(t.brief, l.brief)::text AS brief, l.created_at, l.updated_at",
            $from,
            "
    LEFT JOIN LATERAL (SELECT * FROM trips t
                       WHERE t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text LIMIT 1) AS t ON true
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email",
            $condition
        )
    };
}

common::statements! {
    /// By their ids: those of many requests at once, each with its tenant, told apart by `place`.
    pub(crate) const BY_IDS = select!(
        "by_ids",
        ", w.place
        FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY w (tenant_id, lead_id, place)
        CROSS JOIN LATERAL (SELECT * FROM leads l
                            WHERE l.tenant_id = w.tenant_id AND l.lead_id = w.lead_id LIMIT 1) AS l",
        ""
    );

    /// By the caller's own id, which may occur more than once: the newest first (D11), limited to 100.
    pub(crate) const BY_EXTERNAL_ID = select!(
        "by_external_id",
        " FROM leads l",
        " WHERE l.external_id = $2 AND l.tenant_id::text = $1::uuid::text ORDER BY l.lead_id DESC LIMIT 100"
    );
}

/// Decodes a row of any statement of this module.
pub(crate) fn view(row: &Row) -> Result<LeadView, RowError> {
    Ok(LeadView {
        id: LeadId(row.try_get("lead_id")?),
        enquiry_number: row.try_get("enquiry_number")?,
        title: row.try_get("title")?,
        stage: stage(row)?,
        follow_up: row.try_get("follow_up")?,
        client_id: ClientId(row.try_get("client_id")?),
        trip_id: row.try_get::<_, Option<Uuid>>("trip_id")?.map(TripId),
        external_id: row.try_get("external_id")?,
        owner: owner(row)?,
        brief: brief(row)?.into(),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

pub(super) fn stage(row: &Row) -> Result<Stage, RowError> {
    let stage: &str = row.try_get("stage")?;
    Stage::parse(stage).ok_or_else(|| RowError::Stage(stage.to_owned()))
}

pub(super) fn brief(row: &Row) -> Result<Brief, RowError> {
    Ok(serde_json::from_str(row.try_get("brief")?)?)
}

/// The columns `owner_email` and `owner_name`. Members are never deleted, so an owner has a name.
pub(super) fn owner(row: &Row) -> Result<Option<OwnerView>, RowError> {
    let email: Option<String> = row.try_get("owner_email")?;
    let name: Option<String> = row.try_get("owner_name")?;
    Ok(email.map(|email| OwnerView { name: name.unwrap_or_else(|| email.clone()), email }))
}
