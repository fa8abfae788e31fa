//! The channel on which one queue is called: publishes with confirms, replies on the direct reply-to, and what is held for
//! messages until they are replied to.

use super::connection::{Broker, Link};
use super::hold::Holds;
use super::mac::{Covered, MessageKeys, Purpose};
use super::rpc::{CallError, PERSISTENT, RpcRequest, headers};
use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Which forged replies are logged, by queue.
static FORGED_REPLIES: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Which lost reply channels are logged, by queue.
static LOST: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Bytes of a body from which on signing it is kept from holding up the other tasks of its thread.
const LARGE: usize = 128 * 1024;

/// How often there is a look for messages whose reply nobody waits for any more.
const UNREPLIED_CHECK: Duration = Duration::from_secs(5);

/// A channel with its reply consumer, on one connection.
#[derive(Debug)]
pub(super) struct Session {
    channel: Channel,
    link: Arc<Link>,
    queue: Queue,
    keys: MessageKeys,
    pending: Mutex<HashMap<Uuid, Pending>>,
}

/// A message that has not been replied to.
#[derive(Debug)]
struct Pending {
    reply: oneshot::Sender<Vec<u8>>,
    holds: Holds,
    /// Set when nobody waits for the reply any more.
    abandoned: Option<Abandoned>,
}

/// Since when nobody waits for a reply any more, and until when its message may wait for the worker.
#[derive(Clone, Copy, Debug)]
struct Abandoned {
    since: Instant,
    until: Instant,
}

/// A pending call. When it ends without a reply, what is held for its message stays, unless it was not published.
pub(super) struct Waiting<'s> {
    session: &'s Session,
    id: Uuid,
    pub(super) answer: oneshot::Receiver<Vec<u8>>,
    /// Whether the message is in the queue, or may be.
    pub(super) is_published: bool,
}

impl<'s> Waiting<'s> {
    pub(super) fn register(session: &'s Session, id: Uuid, holds: Holds) -> Self {
        let (reply, answer) = oneshot::channel();
        session.pending().insert(id, Pending { reply, holds, abandoned: None });
        Self { session, id, answer, is_published: true }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut pending = self.session.pending();
        let keeps = |pending: &Pending| self.is_published && !pending.holds.is_empty();
        if let Some(pending) = pending.get_mut(&self.id).filter(|pending| keeps(pending)) {
            let since = Instant::now();
            let hold = pending.holds.iter().map(|hold| hold.unreplied_hold()).max().unwrap_or_default();
            pending.abandoned = Some(Abandoned { since, until: since + hold });
        } else {
            // Outside the lock: what is held may take its own.
            let ended = pending.remove(&self.id);
            drop(pending);
            drop(ended);
        }
    }
}

impl Session {
    pub(super) fn is_open(&self) -> bool {
        self.channel.status().connected() && !self.link.connection.status().blocked()
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Uuid, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes and waits for the broker's confirm. One that comes late still counts for what is held: the broker may refuse
    /// the message then.
    pub(super) async fn publish(
        self: &Arc<Self>,
        queue: &str,
        request: RpcRequest<'_>,
    ) -> Result<(), CallError> {
        let confirm_by = Instant::now() + request.confirm_within;
        let sent = timeout_at(confirm_by, self.send(queue, request)).await;
        let mut confirm = sent.map_err(|_| CallError::NoAnswer)?.map_err(|_| CallError::Unavailable)?;
        match timeout_at(confirm_by, &mut confirm).await {
            Ok(confirmation) => check(&confirmation),
            Err(_) => {
                drop(tokio::spawn(Arc::clone(self).await_late_confirm(request.id, confirm)));
                Err(CallError::NoAnswer)
            }
        }
    }

    /// Drops what is held for a message when the broker refuses it. Ends with the channel at the latest.
    async fn await_late_confirm(self: Arc<Self>, id: Uuid, confirm: PublisherConfirm) {
        if check(&confirm.await) == Err(CallError::Refused) {
            // Outside the lock: what is held may take its own.
            let refused = self.pending().remove(&id);
            drop(refused);
        }
    }

    async fn send(&self, queue: &str, request: RpcRequest<'_>) -> lapin::Result<PublisherConfirm> {
        // Mandatory: a message for a queue that is gone comes back instead of vanishing.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let id = request.id.to_string();
        let mac = work_on(request.body.len(), || {
            let (id, meta) = (Some(id.as_str()), Some(request.meta.as_bytes()));
            let covered = Covered { message_id: id, correlation_id: id, meta, body: request.body };
            self.keys.sign(Purpose::Message(self.queue), covered)
        });
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_correlation_id(id.as_str().into())
            .with_message_id(id.as_str().into())
            .with_reply_to(REPLY_TO.into())
            .with_headers(headers(request.meta, request.traceparent, mac));
        self.channel.basic_publish("".into(), queue.into(), options, request.body, properties).await
    }

    /// Hands a reply to its call. One that is forged is ignored: the call goes on waiting for the right one.
    fn resolve(&self, delivery: Delivery) {
        let purpose = Purpose::Reply(self.queue);
        if let Err(why) = self.keys.verify(purpose, &delivery.properties, &delivery.data) {
            limited!(FORGED_REPLIES[self.queue as usize], warn, queue = self.queue.as_str(), %why, "forged reply ignored");
            return;
        }
        let id = delivery.properties.correlation_id().as_ref().map(ShortString::as_str);
        let pending = id.and_then(|id| Uuid::try_parse(id).ok()).and_then(|id| self.pending().remove(&id));
        if let Some(Pending { reply, holds, .. }) = pending {
            holds.iter().for_each(|hold| hold.replied());
            drop(holds);
            // Nobody listens any more when the caller's deadline has passed.
            drop(reply.send(delivery.data));
        }
    }

    /// Gives up messages whose reply nobody waits for any more, once a look at the queue found it empty: they were taken. A
    /// reply can be lost, and a dead-lettered message may have none. What a worker has taken and not applied yet is no
    /// more than it is handed ahead. While the queue is never empty, they are given up when they may not wait any more.
    async fn give_up_unreplied(&self, broker: &Broker) {
        let looked = Instant::now();
        if self.pending().values().all(|pending| pending.abandoned.is_none()) {
            return;
        }
        let depth = broker.depth(&broker.queue_name(self.queue)).await;
        let is_empty = depth.is_some_and(|depth| depth.ready == 0);
        let is_lost = |pending: &mut Pending| {
            pending
                .abandoned
                .is_some_and(|abandoned| is_empty && abandoned.since <= looked || abandoned.until <= looked)
        };
        let lost: Vec<Pending> =
            self.pending().extract_if(|_, pending| is_lost(pending)).map(|(_, pending)| pending).collect();
        // Outside the lock: what is held may take its own.
        drop(lost);
    }
}

/// What the broker's confirmation says.
fn check(confirmation: &lapin::Result<Confirmation>) -> Result<(), CallError> {
    match confirmation {
        Ok(Confirmation::Ack(None)) => Ok(()),
        Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested) => {
            Err(CallError::Refused)
        }
        // The connection broke before the confirm: it may be there or not.
        Err(_) => Err(CallError::NoAnswer),
    }
}

/// Runs `work` on a body of `size` bytes. For a large one the other tasks of this thread are handed to another thread
/// meanwhile, where there is one.
fn work_on<T>(size: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if size >= LARGE && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

pub(super) async fn keep_session(
    broker: Broker,
    queue: Queue,
    current: watch::Sender<Option<Arc<Session>>>,
    shutdown: CancellationToken,
) {
    let mut orphaned = Holds::new();
    while let Some(Some(link)) = shutdown.run_until_cancelled(broker.link()).await {
        // Not before there is a connection: without one the worker may have none either.
        for hold in orphaned.drain(..) {
            hold.outlive();
        }
        if let Err(error) = serve(link, &broker, queue, &current, &shutdown).await {
            limited!(LOST[queue as usize], warn, queue = queue.as_str(), %error, "reply channel lost");
        }
        // What was pending can't be answered any more: its senders go, and its callers are told. Nothing is published
        // without a session, so that no more is orphaned than was pending.
        if let Some(session) = current.send_replace(None) {
            let lost = std::mem::take(&mut *session.pending());
            orphaned.extend(lost.into_values().flat_map(|pending| pending.holds));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn serve(
    link: Arc<Link>,
    broker: &Broker,
    queue: Queue,
    current: &watch::Sender<Option<Arc<Session>>>,
    shutdown: &CancellationToken,
) -> lapin::Result<()> {
    let channel = link.connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut replies =
        channel.basic_consume(REPLY_TO.into(), "".into(), no_ack, FieldTable::default()).await?;
    let (keys, pending) = (broker.keys().clone(), Mutex::default());
    let session = Arc::new(Session { channel, link, queue, keys, pending });
    current.send_replace(Some(Arc::clone(&session)));
    // Beside the replies: a look waits for the broker.
    let mut giving_up = std::pin::pin!(async {
        loop {
            tokio::time::sleep(UNREPLIED_CHECK).await;
            session.give_up_unreplied(broker).await;
        }
    });
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            reply = replies.next() => match reply {
                Some(reply) => session.resolve(reply?),
                None => return Ok(()),
            },
            () = &mut giving_up => {}
        }
    }
}
