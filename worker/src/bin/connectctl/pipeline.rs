//! `connectctl pipeline`: the enquiries of an agency, as advisors work on them.

use crate::arguments::{Limit, OfTenant};
use crate::context::Context;
use crate::lookup;
use crate::output::Show;
use crate::rows::{self, FromRow};
use anyhow::{Context as _, anyhow};
use chrono::{DateTime, Utc};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use common::clock;
use common::model::{Brief, ClientId, LeadId, Stage, TripId};
use common::view::{BriefView, LeadView, OwnerView};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use uuid::Uuid;

const NEWEST: &str = "-- leads.pipeline
SELECT l.lead_id, l.enquiry_number, l.title, l.stage, l.follow_up, l.client_id, t.trip_id, l.external_id,
    l.owner_email, m.name AS owner_name, COALESCE(t.brief, l.brief)::text AS brief, l.created_at, l.updated_at,
    l.attribution::text AS attribution,
    c.as_of, c.membership_id, c.corporate_name, c.available_paise, c.granted_paise, c.redeemable_percent
FROM leads l
LEFT JOIN trips t ON t.lead_id = l.lead_id AND t.tenant_id::text = l.tenant_id::text
LEFT JOIN members m ON m.tenant_id = l.tenant_id AND m.email = l.owner_email
-- Found by its whole key, whatever the planner expects of the table.
LEFT JOIN LATERAL (
    SELECT * FROM client_credits c WHERE c.tenant_id = l.tenant_id AND c.client_id = l.client_id LIMIT 1
) c ON true
WHERE l.tenant_id = $1
    AND ($2::text IS NULL OR l.stage = $2)
    AND ($3::text IS NULL OR l.attribution ->> 'campaign' = $3)
ORDER BY l.lead_id DESC LIMIT $4";

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl pipeline --tenant acme --stage inquiry --campaign spring-2026"
)]
pub(crate) struct Wanted {
    #[command(flatten)]
    tenant: OfTenant,
    /// Only enquiries at this stage
    #[arg(long, value_parser = stages())]
    stage: Option<Stage>,
    /// Only enquiries of this marketing campaign
    #[arg(long)]
    campaign: Option<String>,
    #[command(flatten)]
    limit: Limit,
}

fn stages() -> impl clap::builder::TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::as_str))
        .try_map(|name| Stage::parse(&name).ok_or_else(|| format!("unknown stage {name:?}")))
}

/// A lead as the API shows it, with what only advisors see.
#[derive(Serialize)]
struct Enquiry {
    #[serde(flatten)]
    lead: LeadView,
    attribution: Option<Box<RawValue>>,
    /// Only while the enquiry is open (D15b).
    credit: Option<Credit>,
}

/// Corporate credit; amounts in hundredths of a rupee.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Credit {
    membership_id: Option<String>,
    corporate_name: Option<String>,
    available_paise: Option<i64>,
    granted_paise: Option<i64>,
    redeemable_percent: Option<f64>,
    #[serde(serialize_with = "clock::serialize")]
    as_of: DateTime<Utc>,
}

impl FromRow for Enquiry {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        let lead = lead(row)?;
        let credit = if lead.stage.is_open() { credit(row)? } else { None };
        Ok(Self { lead, attribution: rows::raw(row.try_get("attribution")?)?, credit })
    }
}

fn lead(row: &Row) -> anyhow::Result<LeadView> {
    let stage: String = row.try_get("stage")?;
    let brief: Brief = serde_json::from_str(row.try_get("brief")?).context("a stored brief can't be read")?;
    Ok(LeadView {
        id: LeadId(row.try_get("lead_id")?),
        enquiry_number: row.try_get("enquiry_number")?,
        title: row.try_get("title")?,
        stage: Stage::parse(&stage).ok_or_else(|| anyhow!("unknown stage {stage:?}"))?,
        follow_up: row.try_get("follow_up")?,
        client_id: ClientId(row.try_get("client_id")?),
        trip_id: row.try_get::<_, Option<Uuid>>("trip_id")?.map(TripId),
        external_id: row.try_get("external_id")?,
        owner: owner(row)?,
        brief: BriefView::from(brief),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

/// Members are never deleted, so an owner has a name; the email would do for one.
fn owner(row: &Row) -> anyhow::Result<Option<OwnerView>> {
    let email: Option<String> = row.try_get("owner_email")?;
    let name: Option<String> = row.try_get("owner_name")?;
    Ok(email.map(|email| OwnerView { name: name.unwrap_or_else(|| email.clone()), email }))
}

fn credit(row: &Row) -> anyhow::Result<Option<Credit>> {
    let Some(as_of) = row.try_get("as_of")? else {
        return Ok(None);
    };
    Ok(Some(Credit {
        membership_id: row.try_get("membership_id")?,
        corporate_name: row.try_get("corporate_name")?,
        available_paise: row.try_get("available_paise")?,
        granted_paise: row.try_get("granted_paise")?,
        redeemable_percent: row.try_get("redeemable_percent")?,
        as_of,
    }))
}

impl Show for Enquiry {
    const COLUMNS: &'static [&'static str] = &[
        "Enquiry",
        "Title",
        "Stage",
        "Follow up",
        "Owner",
        "Campaign",
        "Credit (paise)",
        "Updated at",
        "Lead id",
    ];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.lead.enquiry_number.clone()),
            Some(self.lead.title.clone()),
            Some(self.lead.stage.to_string()),
            self.lead.follow_up.then(|| "yes".to_owned()),
            self.lead.owner.as_ref().map(|owner| owner.name.clone()),
            self.attribution.as_deref().and_then(campaign),
            self.credit.as_ref().and_then(|credit| credit.available_paise).map(|paise| paise.to_string()),
            Some(clock::to_text(self.lead.updated_at)),
            Some(self.lead.id.to_string()),
        ]
    }
}

fn campaign(attribution: &RawValue) -> Option<String> {
    let block: serde_json::Value = serde_json::from_str(attribution.get()).ok()?;
    Some(block.get("campaign")?.as_str()?.to_owned())
}

pub(crate) async fn run(wanted: Wanted, context: &Context) -> anyhow::Result<()> {
    let tenant = lookup::tenant(context, &wanted.tenant).await?;
    let stage = wanted.stage.map(Stage::as_str);
    let enquiries: Vec<Enquiry> =
        rows::newest(context, NEWEST, &[&tenant.0, &stage, &wanted.campaign], &wanted.limit).await?;
    context.output.many(&enquiries)
}
