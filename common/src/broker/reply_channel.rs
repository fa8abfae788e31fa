//! The channel on which one queue is called: it publishes with confirms, receives the replies on the direct reply-to, and
//! keeps the reservations of messages until they are replied to.

use super::confirm_channel::{ConfirmChannel, is_in_queue};
use super::connection::{Broker, Link};
use super::mac::{MessageKeys, Purpose, SignedFields};
use super::rpc::{CallError, PERSISTENT, RpcRequest, headers};
use super::time_limit::{in_time, no_response};
use super::topology::Queue;
use crate::cpu_bound::run_cpu_bound;
use crate::limited;
use crate::log_limit::LogLimit;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::BasicConsumeOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Confirmation, PublisherConfirm};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

static FORGED_REPLIES: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

static LOST: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

const REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// The wait before a lost reply channel is opened again.
const REOPEN_WAIT: Duration = Duration::from_millis(50);

/// How often the reservations of abandoned messages are checked, and whether the broker still confirms messages.
const CHECK: Duration = Duration::from_secs(5);

/// A connection on which messages are stuck is left at most so often: calls of other queues are lost with it.
const LEAVE_INTERVAL: Duration = Duration::from_secs(60);

/// A reservation that lasts until a message is replied to, whether or not its caller still waits, such as a share of the
/// backlog. It is dropped when the broker refuses the message, after the reply, and when no reply came within the time for
/// which the message may still wait.
pub trait Hold: Debug + Send + Sync {
    /// The message has been replied to.
    fn replied(&self);
    /// How long the message may still wait for the worker, by the current estimate. Called when its caller gets a response
    /// before a reply has arrived.
    fn unreplied_hold_time(&self) -> Duration;
    /// Called after a reconnect, when no reply can arrive any more, because the reply channel was lost. Releases the reservation once
    /// the message cannot be waiting in its queue any more.
    fn release_after_longest_wait(self: Box<Self>);
}

/// The reservations for one message.
pub type Holds = Vec<Box<dyn Hold>>;

/// A channel with its reply consumer, on one connection.
#[derive(Debug)]
pub(super) struct ReplyChannel {
    channel: ConfirmChannel,
    link: Arc<Link>,
    queue: Queue,
    keys: MessageKeys,
    pending: Mutex<HashMap<Uuid, PendingReply>>,
    confirms: Confirms,
}

/// What the broker did with the messages.
#[derive(Debug, Default)]
struct Confirms {
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Messages whose confirm is late.
    late: AtomicUsize,
}

/// A message that has not been replied to.
#[derive(Debug)]
struct PendingReply {
    reply: oneshot::Sender<Vec<u8>>,
    holds: Holds,
    /// Set when the caller no longer waits for the reply.
    abandoned: Option<Abandoned>,
}

/// When the caller stopped waiting for a reply, and until when its message may still wait for the worker.
#[derive(Clone, Copy, Debug)]
struct Abandoned {
    since: Instant,
    until: Instant,
}

/// A pending call. When it ends without a reply, the reservations of its message stay, unless it was not published.
pub(super) struct PendingCall<'s> {
    reply_channel: &'s ReplyChannel,
    id: Uuid,
    pub(super) reply: oneshot::Receiver<Vec<u8>>,
    /// Whether the message is in the queue, or may be.
    pub(super) is_published: bool,
}

impl<'s> PendingCall<'s> {
    pub(super) fn register(reply_channel: &'s ReplyChannel, id: Uuid, holds: Holds) -> Self {
        let (sender, reply) = oneshot::channel();
        reply_channel.pending.lock().insert(id, PendingReply { reply: sender, holds, abandoned: None });
        Self { reply_channel, id, reply, is_published: true }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.reply_channel.pending.lock();
        let keeps = |call: &PendingReply| self.is_published && !call.holds.is_empty();
        if let Some(call) = calls.get_mut(&self.id).filter(|call| keeps(call)) {
            let since = Instant::now();
            let keep_for = call.holds.iter().map(|hold| hold.unreplied_hold_time()).max().unwrap_or_default();
            call.abandoned = Some(Abandoned { since, until: since + keep_for });
        } else {
            // Dropped outside of the lock, because a reservation may take a lock of its own.
            let ended = calls.remove(&self.id);
            drop(calls);
            drop(ended);
        }
    }
}

impl ReplyChannel {
    pub(super) fn is_open(&self) -> bool {
        self.channel.channel().status().connected() && !self.link.connection.status().blocked()
    }

    /// Publishes and waits for the broker's confirm. If the confirm is late, a task goes on waiting for it, and drops the reservations
    /// if the broker refuses the message after all.
    pub(super) async fn publish(self: &Arc<Self>, queue: &str, request: RpcRequest<'_>) -> Result<(), CallError> {
        let confirm_by = Instant::now() + request.confirm_within;
        let sent = timeout_at(confirm_by, self.send(queue, request)).await;
        let mut confirm = sent.map_err(|_| CallError::NoReply)?.map_err(|_| CallError::Unavailable)?;
        match timeout_at(confirm_by, &mut confirm).await {
            Ok(confirmation) => self.check(&confirmation),
            Err(_) => {
                self.confirms.late.fetch_add(1, Ordering::Relaxed);
                drop(tokio::spawn(Arc::clone(self).await_late_confirm(request.id, confirm)));
                Err(CallError::NoReply)
            }
        }
    }

    /// Drops the reservations of a message if the broker refuses it after all. Ends when the channel closes.
    async fn await_late_confirm(self: Arc<Self>, id: Uuid, confirm: PublisherConfirm) {
        let confirmation = confirm.await;
        self.confirms.late.fetch_sub(1, Ordering::Relaxed);
        if self.check(&confirmation) == Err(CallError::Refused) {
            // Dropped outside of the lock, because a reservation may take a lock of its own.
            let refused = self.pending.lock().remove(&id);
            drop(refused);
        }
    }

    async fn send(&self, queue: &str, request: RpcRequest<'_>) -> lapin::Result<PublisherConfirm> {
        let id = request.id.to_string();
        let mac = run_cpu_bound(request.body.len(), || {
            let (id, meta) = (Some(id.as_str()), Some(request.meta.as_bytes()));
            let covered = SignedFields { message_id: id, correlation_id: id, meta, body: request.body };
            self.keys.sign(Purpose::Message(self.queue), covered)
        });
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_correlation_id(id.as_str().into())
            .with_message_id(id.as_str().into())
            .with_reply_to(REPLY_TO.into())
            .with_headers(headers(request.meta, request.traceparent, mac));
        self.channel.publish(queue, request.body, properties).await
    }

    fn check(&self, confirmation: &lapin::Result<Confirmation>) -> Result<(), CallError> {
        match confirmation {
            Ok(confirmation) if is_in_queue(confirmation) => {
                self.confirms.accepted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(_) => {
                self.confirms.refused.fetch_add(1, Ordering::Relaxed);
                Err(CallError::Refused)
            }
            // The connection was lost before the confirm: the message may be in the queue or not.
            Err(_) => Err(CallError::NoReply),
        }
    }

    /// Whether no message waits in the queue, as far as the broker says.
    async fn is_empty(&self, broker: &Broker) -> bool {
        broker.depth(&broker.queue_name(self.queue)).await.is_some_and(|depth| depth.ready == 0)
    }

    /// Waits until the channel is of no use: it is closed, or nothing was accepted for a while although confirms are late, or
    /// although the queue is empty. A node that its cluster has lost may take messages for a queue that it cannot reach.
    async fn until_useless(&self, broker: &Broker, not_before: Instant) {
        let count = || {
            let Confirms { accepted, refused, late } = &self.confirms;
            let late = late.load(Ordering::Relaxed) > 0 && !self.link.connection.status().blocked();
            (accepted.load(Ordering::Relaxed), refused.load(Ordering::Relaxed), late)
        };
        let (mut before, mut was_refused) = (count(), false);
        loop {
            sleep(CHECK).await;
            let now = count();
            let is_refused = now.0 == before.0 && now.1 > before.1 && self.is_empty(broker).await;
            let is_stuck = is_refused && was_refused || now.0 == before.0 && now.2 && before.2;
            // The library may not end the replies of a channel that was opened while its connection was lost.
            let is_open = self.channel.channel().status().connected();
            if !is_open || is_stuck && Instant::now() >= not_before {
                return;
            }
            (before, was_refused) = (now, is_refused);
            self.drop_unreplied(broker).await;
        }
    }

    /// Passes a reply to its call. A forged one is ignored, and the call continues to wait.
    fn resolve(&self, delivery: Delivery) {
        let purpose = Purpose::Reply(self.queue);
        if let Err(why) = self.keys.verify(purpose, &delivery.properties, &delivery.data) {
            limited!(FORGED_REPLIES[self.queue as usize], warn, queue = self.queue.as_str(), %why, "forged reply ignored; the call continues to wait");
            return;
        }
        let id = delivery.properties.correlation_id().as_ref().map(ShortString::as_str);
        let pending = id.and_then(|id| Uuid::try_parse(id).ok()).and_then(|id| self.pending.lock().remove(&id));
        if let Some(PendingReply { reply, holds, .. }) = pending {
            // It may have overtaken the confirm.
            self.confirms.accepted.fetch_add(1, Ordering::Relaxed);
            holds.iter().for_each(|hold| hold.replied());
            drop(holds);
            // Sending fails if the caller's deadline has passed, because the receiver was dropped then.
            drop(reply.send(delivery.data));
        }
    }

    /// Drops the reservations of abandoned messages once the queue was found empty, because the messages were consumed then.
    /// Their replies may have been lost, and dead-lettered messages may have none. A message that a
    /// worker has received and not applied yet loses its reservation too early; the prefetch bounds how many. If the queue is never
    /// empty, reservations are dropped when their hold time has passed.
    async fn drop_unreplied(&self, broker: &Broker) {
        let looked = Instant::now();
        if self.pending.lock().values().all(|pending| pending.abandoned.is_none()) {
            return;
        }
        let is_empty = self.is_empty(broker).await;
        let is_lost = |pending: &mut PendingReply| {
            pending
                .abandoned
                .is_some_and(|abandoned| is_empty && abandoned.since <= looked || abandoned.until <= looked)
        };
        let lost: Vec<PendingReply> =
            self.pending.lock().extract_if(|_, pending| is_lost(pending)).map(|(_, pending)| pending).collect();
        // Dropped outside of the lock, because a reservation may take a lock of its own.
        drop(lost);
    }
}

pub(super) async fn run_reply_channel(
    broker: Broker, queue: Queue, current: watch::Sender<Option<Arc<ReplyChannel>>>, shutdown: CancellationToken,
) {
    let (mut orphaned, mut leave_at) = (Holds::new(), Instant::now());
    while let Some(Some(link)) = shutdown.run_until_cancelled(broker.link()).await {
        // Only now, after a reconnect, does their hold time begin: without a broker the worker may have applied nothing meanwhile.
        for hold in orphaned.drain(..) {
            hold.release_after_longest_wait();
        }
        if let Err(error) = serve(link, &broker, queue, (&current, &mut leave_at), &shutdown).await {
            limited!(LOST[queue as usize], warn, queue = queue.as_str(), %error, "reply channel lost; reopening it");
        }
        // Pending calls cannot be replied to any more: dropping their senders tells the callers. Nothing is published while
        // no channel is open, so only reservations that are pending now are affected.
        if let Some(reply_channel) = current.send_replace(None) {
            let lost = std::mem::take(&mut *reply_channel.pending.lock());
            orphaned.extend(lost.into_values().flat_map(|pending| pending.holds));
        }
        shutdown.run_until_cancelled(sleep(REOPEN_WAIT)).await;
    }
}

async fn serve(
    link: Arc<Link>, broker: &Broker, queue: Queue,
    (current, leave_at): (&watch::Sender<Option<Arc<ReplyChannel>>>, &mut Instant), shutdown: &CancellationToken,
) -> lapin::Result<()> {
    let channel = in_time(ConfirmChannel::open(&link.connection)).await?;
    let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consuming = channel.channel().basic_consume(REPLY_TO.into(), "".into(), no_ack, FieldTable::default());
    let mut replies = in_time(consuming).await?;
    let (keys, pending) = (broker.keys().clone(), Mutex::default());
    let confirms = Confirms::default();
    let reply_channel = Arc::new(ReplyChannel { channel, link, queue, keys, pending, confirms });
    current.send_replace(Some(Arc::clone(&reply_channel)));
    // Concurrent with the replies, because it asks the broker.
    let mut until_useless = std::pin::pin!(reply_channel.until_useless(broker, *leave_at));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            reply = replies.next() => match reply {
                Some(reply) => reply_channel.resolve(reply?),
                None => return Ok(()),
            },
            () = &mut until_useless => {
                // Another broker is tried.
                *leave_at = Instant::now() + LEAVE_INTERVAL;
                let link = Arc::clone(&reply_channel.link);
                tokio::spawn(async move { in_time(link.connection.close(320, "no confirms".into())).await });
                return Err(no_response());
            }
        }
    }
}
