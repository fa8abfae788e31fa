//! Advisor actions, published as the CRM does (operator's contract: Advisor actions). The worker validates an action and
//! decides whether it is allowed.

use crate::audit::{Actor, AuditAction, record_before};
use crate::{AdminError, Result, tenants};
use common::advisor::{ActionName, ActionReply};
use common::broker::{CallError, Rpc, RpcRequest};
use common::clock;
use common::message::ActionMeta;
use serde_json::Value;
use std::future::pending;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Client;
use uuid::Uuid;

/// What the audit record of an action says: the action, and the id of the lead or client if it names one. With the slug of the
/// tenant.
fn audited(action: &Value) -> Result<(AuditAction, &str, Option<&str>)> {
    let text = |field: &str| action.get(field).and_then(Value::as_str);
    let named = |name: &&ActionName| text("action") == Some(name.as_str());
    let unknown = || AdminError::InvalidInput("action must be one of the contract".to_owned());
    let name = ActionName::ALL.iter().find(named).ok_or_else(unknown)?;
    let tenant = text("tenant").unwrap_or_default();
    Ok((AuditAction::Advisor(*name), tenant, text("lead").or_else(|| text("client"))))
}

/// Publishes an action (`{"action", "tenant", ..}`) with the message id `id`, and returns the worker's reply. An action is applied once for each id.
/// `reply_timeout` includes the time until the broker is connected.
///
/// The audit record is added before the action is published, so it also stands if the worker refuses the action. Its target is
/// the action's lead or client; the message id if the action names neither by id, because an email or a booking reference may
/// be a person's data.
pub async fn publish(
    client: &mut Client, actor: &Actor, rpc: &Rpc, id: Uuid, action: &Value, reply_timeout: Duration,
) -> Result<ActionReply> {
    let deadline = Instant::now() + reply_timeout;
    if !matches!(timeout_at(deadline, rpc.ready()).await, Ok(Some(()))) {
        return Err(AdminError::BrokerUnavailable);
    }
    let (audited, tenant, named) = audited(action)?;
    let tenant = tenants::find(&*client, tenant).await?;
    let target = named.and_then(|id| Uuid::try_parse(id).ok()).unwrap_or(id).to_string();
    record_before(client, actor, audited, &target, Some(tenant)).await?;
    let meta = ActionMeta { published_at: clock::database_now(), traceparent: None };
    let meta = serde_json::to_string(&meta).map_err(|error| AdminError::Unreadable(error.to_string()))?;
    let body = action.to_string();
    let request = RpcRequest {
        id,
        meta: &meta,
        traceparent: None,
        body: body.as_bytes(),
        confirm_within: reply_timeout,
        deadline,
    };
    let reply = rpc.call(request, Vec::new(), || (), pending()).await.map_err(|error| match error {
        CallError::Unavailable => AdminError::BrokerUnavailable,
        CallError::Refused => AdminError::CrmQueueFull,
        CallError::NoReply => AdminError::NoReply { id },
    })?;
    parse_reply(&reply)
}

/// Parses the reply: the result of the action, or the error with which it was refused.
fn parse_reply(reply: &[u8]) -> Result<ActionReply> {
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
