//! Advisors, whose actions the CRM publishes to the broker. Each operation is the life of a lead of its own.

use super::caller::Caller;
use super::oracle::WriteKind;
use futures_util::StreamExt as _;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The pseudo-queue of RabbitMQ for replies on the channel that publishes.
const REPLIES: &str = "amq.rabbitmq.reply-to";
/// Delivery mode of messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Longest wait for a connection, and for a reply.
const WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// A channel with its replies.
struct Session {
    /// Keeps the channel open.
    _connection: Connection,
    channel: Channel,
    replies: Consumer,
}

/// Performs actions until the run is over.
pub(super) async fn run(caller: &Caller<'_>) {
    let (mut session, mut operation) = (None, 0);
    while !caller.run.load_ended() {
        live(caller, &mut session, operation).await;
        operation += 1;
    }
}

/// The email of the client of an operation.
pub(super) fn email(name: &str) -> String {
    format!("a{name}@advisor.example")
}

async fn live(caller: &Caller<'_>, session: &mut Option<Session>, operation: u64) -> Option<()> {
    let mut random = caller.random(operation);
    let tenant = random.below(caller.stack.keys.len());
    let name = format!("{}-{}-{operation}", caller.run.seed, caller.number);
    let slug = caller.stack.keys[tenant].tenant.clone();
    let mut act = async |step: &str, fields: Value| {
        let mut body = json!({"action": step, "tenant": slug});
        for (field, value) in fields.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        perform(caller, session, tenant, &format!("{name}-{step}"), &body).await
    };
    let opened = act("open-lead", json!({"email": email(&name)})).await?;
    let lead = &opened["leadId"];
    act("stage", json!({"lead": lead, "stage": "follow_up"})).await?;
    if random.once_in(2) {
        let booking = json!({"lead": lead, "bookingRef": format!("A-{name}"), "amount": 10, "currency": "INR"});
        caller.run.oracle().note_write(tenant, WriteKind::Booking, &format!("A-{name}"), None);
        act("booking-confirm", booking).await?;
        caller.run.oracle().note_write(tenant, WriteKind::Booking, &format!("A-{name}"), Some(""));
        if random.once_in(2) {
            act("booking-cancel", json!({"bookingRef": format!("A-{name}")})).await?;
        }
    }
    Some(())
}

/// Publishes an action, again and again under the same id, until there is a reply.
async fn perform(
    caller: &Caller<'_>, session: &mut Option<Session>, tenant: usize, id: &str, body: &Value,
) -> Option<Value> {
    caller.run.oracle().note_write(tenant, WriteKind::Action, id, None);
    loop {
        let begun = Instant::now();
        match timeout(WITHIN, call(caller, session, id, body)).await {
            Ok(Ok(reply)) if reply["ok"] == true => {
                caller.run.note_success(begun);
                caller.run.totals.actions.fetch_add(1, Ordering::Relaxed);
                caller.run.oracle().note_write(tenant, WriteKind::Action, id, Some(&reply.to_string()));
                return Some(reply);
            }
            Ok(Ok(reply)) if reply["statusCode"].as_u64().is_some_and(|status| status < 500) => {
                caller.run.oracle().add_violation(format!("action {id} was refused: {reply}; {body}"));
                return None;
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => {
                *session = None;
                caller.run.totals.failed_connections.fetch_add(1, Ordering::Relaxed);
            }
        }
        if caller.run.retries_ended() {
            return None;
        }
        sleep(PAUSE).await;
    }
}

async fn call(caller: &Caller<'_>, session: &mut Option<Session>, id: &str, body: &Value) -> lapin::Result<Value> {
    if session.is_none() {
        *session = Some(open(caller.stack.queues.url()).await?);
    }
    let Some(Session { channel, replies, .. }) = session else { unreachable!("it was opened") };
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(id.into())
        .with_correlation_id(id.into())
        .with_reply_to(REPLIES.into());
    let queue = format!("{}.crm", caller.stack.queues.prefix());
    let body = body.to_string();
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await?.await?;
    while let Some(reply) = replies.next().await {
        let reply = reply?;
        // A reply to an earlier try of another action may arrive late.
        if reply.properties.correlation_id().as_ref().is_some_and(|sent| sent.as_str() == id) {
            return Ok(serde_json::from_slice(&reply.data).unwrap_or_default());
        }
    }
    Ok(Value::Null)
}

async fn open(url: &str) -> lapin::Result<Session> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let replies = channel.basic_consume(REPLIES.into(), "".into(), options, FieldTable::default()).await?;
    Ok(Session { _connection: connection, channel, replies })
}
