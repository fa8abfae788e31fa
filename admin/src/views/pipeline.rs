//! The leads of a tenant, as advisors work on them.

use crate::{AdminError, Newest, store, tenants};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::Stage;
use common::view::LeadView;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Client;

/// Which leads are listed.
#[derive(Clone, Debug, Default, Deserialize)]
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

/// The leads of a tenant.
pub async fn pipeline(
    client: &Client,
    tenant: &str,
    filter: &PipelineFilter,
    limit: u32,
) -> Result<Newest<PipelineLead>, AdminError> {
    let tenant = tenants::find(client, tenant).await?;
    store::leads::pipeline(client, tenant, filter, limit).await
}

/// The lead with the id `id`.
pub async fn lead(client: &Client, tenant: &str, id: &str) -> Result<PipelineLead, AdminError> {
    let (tenant_id, lead) = super::find_lead(client, tenant, id).await?;
    let found = store::leads::shown(client, tenant_id, lead).await?;
    found.ok_or_else(|| AdminError::LeadNotFound { lead: id.to_owned(), tenant: tenant.to_owned() })
}
