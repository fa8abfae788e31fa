//! Advisor actions, published as the CRM does (operator's contract: Advisor actions). The worker validates an action and
//! decides whether it is allowed.

use crate::audit::{Actor, AuditAction, record_before};
use crate::{AdminError, tenants};
use common::advisor::ActionReply;
use common::broker::{CallError, Rpc, RpcRequest};
use common::clock;
use common::message::ActionMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Client;
use uuid::Uuid;

/// An action. Serialized, it is the message's body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Opens a lead for a client.
    OpenLead(OpenLead),
    /// Assigns a lead to a member, who is notified.
    Assign(Assign),
    /// Moves a lead to a stage.
    Stage(StageChange),
    /// Moves a lead to the stage archived.
    Archive(LeadOnly),
    /// Moves a lead to the stage travelled.
    Travelled(LeadOnly),
    /// Marks the proposal of a lead's trip as sent, for the first time or again.
    ProposalSend(ProposalSend),
    /// Marks the sent proposal as viewed by the traveler.
    ProposalView(LeadOnly),
    /// Discards the proposal of a lead's trip.
    ProposalDiscard(LeadOnly),
    /// Confirms a booking of a lead.
    BookingConfirm(BookingConfirm),
    /// Cancels a booking, whether an event or an advisor confirmed it.
    BookingCancel(BookingCancel),
}

impl Action {
    /// What its audit record says: the action, the slug of the tenant, and the id of the lead or client if it names one.
    fn audited(&self) -> (AuditAction, &str, Option<&str>) {
        let (name, of) = match self {
            Self::OpenLead(OpenLead { tenant, client, .. }) => {
                return (AuditAction::Advisor("advisor.open-lead"), tenant, client.as_deref());
            }
            Self::BookingCancel(BookingCancel { tenant, .. }) => {
                return (AuditAction::Advisor("advisor.booking-cancel"), tenant, None);
            }
            Self::Assign(Assign { of, .. }) => ("advisor.assign", of),
            Self::Stage(StageChange { of, .. }) => ("advisor.stage", of),
            Self::Archive(of) => ("advisor.archive", of),
            Self::Travelled(of) => ("advisor.travelled", of),
            Self::ProposalSend(ProposalSend { of, .. }) => ("advisor.proposal-send", of),
            Self::ProposalView(of) => ("advisor.proposal-view", of),
            Self::ProposalDiscard(of) => ("advisor.proposal-discard", of),
            Self::BookingConfirm(BookingConfirm { of, .. }) => ("advisor.booking-confirm", of),
        };
        (AuditAction::Advisor(name), &of.tenant, Some(&of.lead))
    }
}

/// The lead of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadOnly {
    /// Slug of the tenant.
    pub tenant: String,
    /// Id of the lead.
    pub lead: String,
}

/// The fields of `open-lead`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenLead {
    /// Slug of the tenant.
    pub tenant: String,
    /// Id of an existing client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Email of the client, who is matched by it or created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Full name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether no trip workspace is opened.
    pub no_trip: bool,
    /// Title of the lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Destination of the trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
}

/// The fields of `assign`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assign {
    /// Identifies the lead.
    #[serde(flatten)]
    pub of: LeadOnly,
    /// Email of an active member.
    pub owner: String,
}

/// The fields of `stage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageChange {
    /// Identifies the lead.
    #[serde(flatten)]
    pub of: LeadOnly,
    /// The stage, such as `follow_up`.
    pub stage: String,
    /// Reason for the move; required for `lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The fields of `proposal-send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalSend {
    /// Identifies the lead.
    #[serde(flatten)]
    pub of: LeadOnly,
    /// Title of the proposal.
    pub title: String,
    /// URL at which the traveler opens it.
    pub url: String,
    /// Channel by which it is sent, such as `email`.
    pub channel: String,
}

/// The fields of `booking-confirm`. Amounts are decimal numbers in major units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BookingConfirm {
    /// Identifies the lead.
    #[serde(flatten)]
    pub of: LeadOnly,
    /// Reference of the booking.
    pub booking_ref: String,
    /// The booking's amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// ISO 4217 code of the amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Corporate credit to count as paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_used: Option<String>,
}

/// The fields of `booking-cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BookingCancel {
    /// Slug of the tenant.
    pub tenant: String,
    /// Reference of the booking.
    pub booking_ref: String,
    /// Reason for the cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Publishes an action with the message id `id`, and returns the worker's reply. An action is applied once for each id.
/// `reply_timeout` includes the time until the broker is connected.
///
/// The audit record is added before the action is published, so it also stands if the worker refuses the action. Its target is
/// the action's lead or client; the message id if the action names neither by id, because an email or a booking reference may
/// be a person's data.
pub async fn publish(
    client: &mut Client,
    actor: &Actor,
    rpc: &Rpc,
    id: Uuid,
    action: &Action,
    reply_timeout: Duration,
) -> Result<ActionReply, AdminError> {
    let deadline = Instant::now() + reply_timeout;
    if !matches!(timeout_at(deadline, rpc.ready()).await, Ok(Some(()))) {
        return Err(AdminError::BrokerUnavailable);
    }
    let (audited, tenant, named) = action.audited();
    let tenant = tenants::find(&*client, tenant).await?;
    let target = named.and_then(|id| Uuid::try_parse(id).ok()).unwrap_or(id).to_string();
    record_before(client, actor, audited, &target, Some(tenant)).await?;
    let meta = json(&ActionMeta { published_at: clock::now(), traceparent: None })?;
    let body = json(action)?;
    let request = RpcRequest {
        id,
        meta: &meta,
        traceparent: None,
        body: body.as_bytes(),
        confirm_within: reply_timeout,
        deadline,
    };
    let reply = rpc.call(request, Vec::new(), || ()).await.map_err(|error| match error {
        CallError::Unavailable => AdminError::BrokerUnavailable,
        CallError::Refused => AdminError::CrmQueueFull,
        CallError::NoReply => AdminError::NoReply { id },
    })?;
    parse_reply(&reply)
}

fn json(value: &impl Serialize) -> Result<String, AdminError> {
    serde_json::to_string(value).map_err(|error| AdminError::Unreadable(error.to_string()))
}

/// Parses the reply: the result of the action, or the error with which it was refused.
fn parse_reply(reply: &[u8]) -> Result<ActionReply, AdminError> {
    let unreadable = |error: serde_json::Error| AdminError::Unreadable(error.to_string());
    let reply: Value = serde_json::from_slice(reply).map_err(unreadable)?;
    if reply["ok"] == true {
        return serde_json::from_value(reply).map_err(unreadable);
    }
    let text = |field: &str| reply[field].as_str().unwrap_or("unknown").to_owned();
    Err(AdminError::ActionRefused {
        status_code: reply["statusCode"].as_u64().unwrap_or_default(),
        code: text("code"),
        message: text("message"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_status_code_and_message() {
        let refused = br#"{"statusCode": 404, "code": "not_found", "message": "No such record"}"#;
        assert_eq!(parse_reply(refused).unwrap_err().to_string(), "404 not_found: No such record");
    }
}
