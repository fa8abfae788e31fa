//! Leads and clients.

use super::{execute, exists, newest, one, raw_json, read_row};
use crate::input::{CompanyDomain, Name};
use crate::{AdminError, Newest, Result};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{Brief, ClientId, LeadId, Stage, TenantId, TripId};
use common::view::{BriefView, ClientView, LeadView, OwnerView};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

/// Which leads are listed.
#[derive(Clone, Debug, Default)]
pub struct PipelineFilter {
    /// Only leads at this stage.
    pub stage: Option<Stage>,
    /// Only leads of this marketing campaign.
    pub campaign: Option<String>,
}

/// A lead as the API shows it, with the fields that only advisors see.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineLead {
    /// As the API shows it.
    #[serde(flatten)]
    pub lead: LeadView,
    /// The marketing block of the event that opened the lead.
    pub attribution: Option<Box<RawValue>>,
    /// Present only while the lead is open (D15b).
    pub credit: Option<Credit>,
}

/// Corporate credit; amounts in hundredths of a rupee.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// Id of the traveler's membership in the corporate program.
    pub membership_id: Option<String>,
    /// Name of the company.
    pub corporate_name: Option<String>,
    /// What can be spent.
    pub available_paise: Option<i64>,
    /// Granted credit in paise.
    pub granted_paise: Option<i64>,
    /// The part of an amount that may be paid with credit.
    pub redeemable_percent: Option<f64>,
    /// When these values were valid.
    #[serde(serialize_with = "clock::serialize")]
    pub as_of: DateTime<Utc>,
}

/// A lead in the list of a client's leads.
#[derive(Clone, Debug)]
pub struct ClientLead {
    /// UUIDv7 (D18).
    pub id: LeadId,
    /// `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// Title advisors see.
    pub title: String,
    /// Name of the stage.
    pub stage: String,
}

/// A lead as advisors see it, with its trip, owner and credit.
macro_rules! lead_columns {
    () => {
        "SELECT l.lead_id, l.enquiry_number, l.title, l.stage, l.follow_up, l.client_id, t.trip_id, l.external_id,
        l.owner_email, m.name AS owner_name, COALESCE(t.brief, l.brief)::text AS brief, l.created_at, l.updated_at,
        l.attribution::text AS attribution,
        c.as_of, c.membership_id, c.corporate_name, c.available_paise, c.granted_paise, c.redeemable_percent
    FROM leads l
    LEFT JOIN trips t ON t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text
    LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email
    -- In a LATERAL subquery, so that the plan uses the whole key whatever the planner knows of the table.
    LEFT JOIN LATERAL (
        SELECT * FROM client_credits c WHERE c.tenant_id = l.tenant_id AND c.client_id = l.client_id LIMIT 1
    ) c ON true
"
    };
}

common::statements! {
    const LEAD_EXISTS = "-- leads.exists
    SELECT FROM leads WHERE tenant_id = $1 AND lead_id = $2";

    const PIPELINE = concat!(
        "-- leads.pipeline\n",
        lead_columns!(),
        "WHERE l.tenant_id = $1
        AND ($2::text IS NULL OR l.stage = $2)
        AND ($3::text IS NULL OR l.attribution ->> 'campaign' = $3)
    ORDER BY l.lead_id DESC LIMIT $4"
    );

    const SHOWN_LEAD = concat!("-- leads.shown\n", lead_columns!(), "WHERE l.tenant_id = $1 AND l.lead_id = $2");

    /// The newest leads of a client.
    const OF_CLIENT = "-- leads.of_client
    SELECT lead_id, enquiry_number, title, stage FROM leads
    WHERE client_id = $2 AND tenant_id IS NOT DISTINCT FROM $1 ORDER BY lead_id DESC LIMIT $3";

    const CLIENT_EXISTS = "-- clients.exists
    SELECT FROM clients WHERE tenant_id = $1 AND client_id = $2";

    const SHOWN_CLIENT = "-- clients.shown
    SELECT client_id, name, email, phone, company, external_id, client_type, marketing_opt_in, created_at, updated_at
    FROM clients WHERE tenant_id = $1 AND client_id = $2";

    const CREATE_COMPANY = "-- clients.create_company
    INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
    VALUES ($1, $2, $3, 'company', $4, $5, $5)";
}

pub(crate) async fn is_known_lead(client: &Client, tenant: TenantId, lead: LeadId) -> Result<bool> {
    exists(client, LEAD_EXISTS, &[&tenant.0, &lead.0]).await
}

pub(crate) async fn pipeline(
    client: &Client, tenant: TenantId, filter: &PipelineFilter, limit: u32,
) -> Result<Newest<PipelineLead>> {
    let stage = filter.stage.map(Stage::as_str);
    newest(client, PIPELINE, &[&tenant.0, &stage, &filter.campaign], limit, pipeline_lead).await
}

pub(crate) async fn shown_lead(client: &Client, tenant: TenantId, lead: LeadId) -> Result<Option<PipelineLead>> {
    one(client, SHOWN_LEAD, &[&tenant.0, &lead.0], pipeline_lead).await
}

/// The newest leads of a client.
pub(crate) async fn leads_of_client(
    client: &Client, tenant: TenantId, id: ClientId, limit: u32,
) -> Result<Newest<ClientLead>> {
    let read = |row: &Row| Ok(read_row!(row => ClientLead { id = "lead_id" as LeadId, enquiry_number, title, stage }));
    newest(client, OF_CLIENT, &[&tenant.0, &id.0], limit, read).await
}

fn pipeline_lead(row: &Row) -> Result<PipelineLead> {
    let lead = lead(row)?;
    let credit = if lead.stage.is_open() { credit(row)? } else { None };
    Ok(PipelineLead { lead, attribution: raw_json(row.try_get("attribution")?)?, credit })
}

fn lead(row: &Row) -> Result<LeadView> {
    let stage: String = row.try_get("stage")?;
    let brief: Brief = serde_json::from_str(row.try_get("brief")?)
        .map_err(|error| AdminError::Unreadable(format!("a stored brief cannot be parsed: {error}")))?;
    let unknown = || AdminError::Unreadable(format!("unknown stage {stage:?}"));
    Ok(read_row!(row => LeadView {
        id = "lead_id" as LeadId, enquiry_number, title, stage: Stage::parse(&stage).ok_or_else(unknown)?,
        follow_up, client_id = "client_id" as ClientId,
        trip_id: row.try_get::<_, Option<Uuid>>("trip_id")?.map(TripId), external_id, owner: owner(row)?,
        brief: BriefView::from(brief), created_at, updated_at
    }))
}

/// The owner with their name. Members are never deleted, so there is a name; without one the email is used.
fn owner(row: &Row) -> Result<Option<OwnerView>> {
    let email: Option<String> = row.try_get("owner_email")?;
    let name: Option<String> = row.try_get("owner_name")?;
    Ok(email.map(|email| OwnerView { name: name.unwrap_or_else(|| email.clone()), email }))
}

fn credit(row: &Row) -> Result<Option<Credit>> {
    let Some(as_of) = row.try_get("as_of")? else {
        return Ok(None);
    };
    Ok(Some(read_row!(row => Credit {
        membership_id, corporate_name, available_paise, granted_paise, redeemable_percent, as_of: as_of
    })))
}

pub(crate) async fn is_known_client(client: &Client, tenant: TenantId, id: ClientId) -> Result<bool> {
    exists(client, CLIENT_EXISTS, &[&tenant.0, &id.0]).await
}

/// A client as the settings area shows it: without the roster.
pub(crate) async fn shown_client(client: &Client, tenant: TenantId, id: ClientId) -> Result<Option<ClientView>> {
    let read = |row: &Row| {
        Ok(read_row!(row => ClientView {
            id = "client_id" as ClientId, name, email, phone, company, external_id, client_type,
            marketing_opt_in, created_at, updated_at, travelers: Vec::new()
        }))
    };
    one(client, SHOWN_CLIENT, &[&tenant.0, &id.0], read).await
}

pub(crate) async fn create_company_account(
    tx: &Transaction<'_>, tenant: TenantId, id: ClientId, name: &Name, domain: &CompanyDomain,
) -> Result<()> {
    let (name, domain) = (name.as_str(), domain.as_str());
    execute(tx, CREATE_COMPANY, &[&tenant.0, &id.0, &name, &domain, &clock::database_now()]).await?;
    Ok(())
}
