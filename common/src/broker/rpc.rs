//! Request and reply over a queue: publishes with a confirm and waits for the reply on the direct reply-to.

use super::connection::Broker;
use super::mac::MAC_HEADER;
use super::reply_channel::{Holds, PendingCall, ReplyChannel, run_reply_channel};
use super::topology::Queue;
use crate::metrics::{self as names, PUBLISHES, REPLY_WAIT};
use crate::trace::TRACEPARENT;
use futures_util::FutureExt;
use lapin::types::{AMQPValue, FieldTable};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Header that carries a message's metadata as JSON.
pub(super) const META_HEADER: &str = "x-connect-meta";
/// Messages survive a restart of the broker.
pub(super) const PERSISTENT: u8 = 2;

/// Publishes to one queue and waits for replies. It has no limit of its own: each caller waits for its call, and callers are limited.
#[derive(Clone, Debug)]
pub struct Rpc {
    reply_channel: watch::Receiver<Option<Arc<ReplyChannel>>>,
    queue: Queue,
    queue_name: String,
}

/// A message that asks for a reply.
#[derive(Clone, Copy, Debug)]
pub struct RpcRequest<'a> {
    /// Unique id: the correlation id of the reply, and the message id.
    pub id: Uuid,
    /// JSON metadata for the consumer.
    pub meta: &'a str,
    /// The trace context, as a W3C `traceparent`.
    pub traceparent: Option<&'a str>,
    /// The body, which the MAC covers.
    pub body: &'a [u8],
    /// How long the broker may take to confirm.
    pub confirm_within: Duration,
    /// The time after which the caller no longer waits for the reply.
    pub deadline: Instant,
}

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// No connection, or the broker blocks publishers: nothing was published.
    #[error("the broker cannot be reached")]
    Unavailable,
    /// The queue is full or does not exist: nothing was published.
    #[error("the queue refused the message")]
    Refused,
    /// The message was, or may have been, published, but no reply came in time.
    #[error("no reply in time")]
    NoReply,
}

/// How long a call waits for its reply alone, before it waits for the broker's confirm or refusal as well.
const CONFIRM_WAITS: Duration = Duration::from_millis(20);

/// Outcome label of a call that was replied to.
const REPLIED: &str = "replied";

impl CallError {
    /// Each error once, for registering the counters.
    pub const ALL: [Self; 3] = [Self::Unavailable, Self::Refused, Self::NoReply];

    /// Value of the label `outcome` of `connect_publish_total`.
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::NoReply => "no_reply",
        }
    }
}

impl Rpc {
    /// Opens the reply channel of `queue` in the background, and reopens it until `shutdown`.
    pub fn start(broker: &Broker, queue: Queue, shutdown: CancellationToken) -> Self {
        let (sender, reply_channel) = watch::channel(None);
        crate::critical_task::spawn("reply channel", run_reply_channel(broker.clone(), queue, sender, shutdown));
        for outcome in CallError::ALL.map(CallError::outcome).into_iter().chain([REPLIED]) {
            names::register_counter(PUBLISHES, &[("queue", queue.as_str()), ("outcome", outcome)]);
        }
        Self { reply_channel, queue, queue_name: broker.queue_name(queue) }
    }

    /// Whether a call can be made now: there is a channel, and the broker does not block publishers.
    pub fn is_ready(&self) -> bool {
        self.reply_channel.borrow().as_ref().is_some_and(|reply_channel| reply_channel.is_open())
    }

    /// Waits until a call can be made. `None` once the program shuts down.
    pub async fn ready(&self) -> Option<()> {
        let mut reply_channel = self.reply_channel.clone();
        let open = reply_channel
            .wait_for(|reply_channel| reply_channel.as_ref().is_some_and(|reply_channel| reply_channel.is_open()))
            .await;
        open.ok().map(drop)
    }

    /// Returns [`CallError::Unavailable`], and counts it as a call, when no call can be made now.
    pub fn check_ready(&self) -> Result<(), CallError> {
        if self.is_ready() {
            return Ok(());
        }
        self.count(CallError::Unavailable.outcome());
        Err(CallError::Unavailable)
    }

    fn count(&self, outcome: &'static str) {
        metrics::counter!(PUBLISHES, "queue" => self.queue.as_str(), "outcome" => outcome).increment(1);
    }

    /// Publishes and waits for the reply. `holds` are kept until it arrives, even after the request's deadline. Calls `on_confirm`
    /// once the broker has confirmed the message, which a reply proves as well, unless the call ends before. A confirm that comes
    /// before the reply is seen at once after `confirm_wanted`, otherwise after some milliseconds.
    pub async fn call(
        &self, request: RpcRequest<'_>, holds: Holds, on_confirm: impl FnOnce() + Send,
        confirm_wanted: impl Future<Output = ()> + Send,
    ) -> Result<Vec<u8>, CallError> {
        let started = Instant::now();
        let reply = self.try_call(request, holds, on_confirm, confirm_wanted).await;
        self.count(reply.as_ref().map_or_else(|error| error.outcome(), |_| REPLIED));
        if reply.is_ok() {
            metrics::histogram!(REPLY_WAIT, "queue" => self.queue.as_str()).record(started.elapsed());
        }
        reply
    }

    async fn try_call(
        &self, request: RpcRequest<'_>, holds: Holds, on_confirm: impl FnOnce() + Send,
        confirm_wanted: impl Future<Output = ()> + Send,
    ) -> Result<Vec<u8>, CallError> {
        let reply_channel = self.reply_channel.borrow().clone().filter(|reply_channel| reply_channel.is_open());
        let reply_channel = reply_channel.ok_or(CallError::Unavailable)?;
        let mut pending_call = PendingCall::register(&reply_channel, request.id, holds);
        let confirm_waits = CONFIRM_WAITS.min(request.confirm_within / 2);
        let mut publishing = pin!(reply_channel.publish(&self.queue_name, request));
        // The first poll hands the message over. Its confirm is not waited for yet: usually the reply is next, and proves
        // that the message was published, and each wake-up of this task may be one of its thread.
        let confirmed = match publishing.as_mut().now_or_never() {
            Some(confirmed) => confirmed,
            None => tokio::select! {
                // The reply may arrive before the confirm: then the message is published.
                biased;
                reply = &mut pending_call.reply => {
                    return reply.map_err(|_| CallError::NoReply).inspect(|_| on_confirm());
                }
                confirmed = async {
                    drop(timeout(confirm_waits, confirm_wanted).await);
                    publishing.await
                } => confirmed,
            },
        };
        pending_call.is_published = confirmed != Err(CallError::Unavailable) && confirmed != Err(CallError::Refused);
        confirmed?;
        on_confirm();
        match timeout_at(request.deadline, &mut pending_call.reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) | Err(_) => Err(CallError::NoReply),
        }
    }
}

/// The headers of what the programs publish.
pub(super) fn headers(meta: &str, traceparent: Option<&str>, mac: AMQPValue) -> FieldTable {
    let mut headers = FieldTable::default();
    headers.insert(MAC_HEADER.into(), mac);
    headers.insert(META_HEADER.into(), AMQPValue::LongString(meta.into()));
    if let Some(traceparent) = traceparent {
        headers.insert(TRACEPARENT.into(), AMQPValue::LongString(traceparent.into()));
    }
    headers
}
