//! Request and reply over a queue: publish with confirm, wait for the answer on the direct reply-to.

use super::connection::{Broker, Link};
use super::mac::{Covered, MAC_HEADER, MessageKeys, Purpose};
use super::topology::Queue;
use crate::metrics::{self as names, PUBLISHES, REPLY_WAIT};
use crate::trace::TRACEPARENT;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Header that carries a message's metadata as JSON.
pub(super) const META_HEADER: &str = "x-connect-meta";
const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Messages survive a restart of the broker.
pub(super) const PERSISTENT: u8 = 2;
/// Bytes of a body from which on signing it is kept from holding up the other tasks of its thread.
const LARGE: usize = 128 * 1024;

/// When a message is given up that nobody waits for any more, and how often that is looked at.
const LOST_AFTER: Duration = Duration::from_secs(600);
const LOST_LOOK: Duration = Duration::from_secs(30);

/// Calls one queue. Bounded by its callers: every call waits, so there are as many pending ones as calls.
#[derive(Clone, Debug)]
pub struct Rpc {
    session: watch::Receiver<Option<Arc<Session>>>,
    queue: Queue,
    queue_name: String,
}

/// What is kept until a message is replied to, whether or not its caller still waits: a share of a bound. Dropped when the
/// broker has refused the message, after its reply, and when there will be none: the connection broke, or ten minutes
/// have passed.
pub trait Hold: Debug + Send + Sync {
    /// The message has been replied to.
    fn replied(&self);
}

/// What is kept for a message.
pub type Holds = Vec<Box<dyn Hold>>;

/// A message that wants an answer.
#[derive(Clone, Copy, Debug)]
pub struct RpcRequest<'a> {
    /// Ties the answer to the request; unique. Also the message's own id.
    pub id: Uuid,
    /// JSON for the other end.
    pub meta: &'a str,
    /// The header that other tools see, too: the place in a trace.
    pub traceparent: Option<&'a str>,
    /// The message.
    pub body: &'a [u8],
    /// How long the broker may take to confirm.
    pub confirm_within: Duration,
    /// When an answer is of no use any more.
    pub deadline: Instant,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// No connection, or the broker blocks publishers: nothing was published.
    #[error("the broker can't be reached")]
    Unavailable,
    /// The queue is full or gone: nothing was published.
    #[error("the queue refused the message")]
    Refused,
    /// Published or perhaps published, but no answer came in time.
    #[error("no answer in time")]
    NoAnswer,
}

/// What a call that is answered counts as.
const ANSWERED: &str = "answered";

impl CallError {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unavailable, Self::Refused, Self::NoAnswer];

    /// The metric's label.
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// A channel with its reply consumer, on one connection.
#[derive(Debug)]
struct Session {
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
    /// Since when nobody waits for the reply any more.
    abandoned: Option<Instant>,
}

impl Rpc {
    /// Begins to serve calls to `queue` in the background, until `shutdown`.
    pub fn start(broker: &Broker, queue: Queue, shutdown: CancellationToken) -> Self {
        let (sender, session) = watch::channel(None);
        crate::vital::spawn("reply channel", keep_session(broker.clone(), queue, sender, shutdown));
        for outcome in CallError::ALL.map(CallError::outcome).into_iter().chain([ANSWERED]) {
            names::show(PUBLISHES, &[("queue", queue.as_str()), ("outcome", outcome)]);
        }
        Self { session, queue, queue_name: broker.queue_name(queue) }
    }

    /// Whether a call can be made now: there is a channel, and the broker doesn't block publishers.
    pub fn is_ready(&self) -> bool {
        self.session.borrow().as_ref().is_some_and(|session| session.is_open())
    }

    /// Waits until a call can be made. `None` once the program shuts down.
    pub async fn ready(&self) -> Option<()> {
        let mut session = self.session.clone();
        let open =
            session.wait_for(|session| session.as_ref().is_some_and(|session| session.is_open())).await;
        open.ok().map(drop)
    }

    /// [`CallError::Unavailable`], counted as a call, when none can be made now.
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

    /// Publishes and waits for the answer. `holds` are kept until there is one, beyond the request's deadline, too.
    pub async fn call(&self, request: RpcRequest<'_>, holds: Holds) -> Result<Vec<u8>, CallError> {
        self.call_then(request, holds, || ()).await
    }

    /// The same; calls `confirmed` once the broker has confirmed the message, and drops it when it is answered or given
    /// up before.
    pub async fn call_then(
        &self,
        request: RpcRequest<'_>,
        holds: Holds,
        confirmed: impl FnOnce() + Send,
    ) -> Result<Vec<u8>, CallError> {
        let started = Instant::now();
        let answer = self.try_call(request, holds, confirmed).await;
        self.count(answer.as_ref().map_or_else(|error| error.outcome(), |_| ANSWERED));
        if answer.is_ok() {
            metrics::histogram!(REPLY_WAIT, "queue" => self.queue.as_str()).record(started.elapsed());
        }
        answer
    }

    async fn try_call(
        &self,
        request: RpcRequest<'_>,
        holds: Holds,
        on_confirm: impl FnOnce() + Send,
    ) -> Result<Vec<u8>, CallError> {
        let session = self.session.borrow().clone().filter(|session| session.is_open());
        let session = session.ok_or(CallError::Unavailable)?;
        let mut waiting = Waiting::register(&session, request.id, holds);
        let confirmed = timeout(request.confirm_within, session.publish(&self.queue_name, request));
        tokio::select! {
            // The answer may overtake the confirm: then the message is published.
            biased;
            answer = &mut waiting.answer => return answer.map_err(|_| CallError::NoAnswer),
            confirmed = confirmed => {
                let confirmed = confirmed.unwrap_or(Err(CallError::NoAnswer));
                waiting.is_published = confirmed != Err(CallError::Unavailable) && confirmed != Err(CallError::Refused);
                confirmed?;
            }
        }
        on_confirm();
        match timeout_at(request.deadline, &mut waiting.answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(CallError::NoAnswer),
        }
    }
}

/// A pending call. When it ends without a reply, what is held for its message stays, unless it was not published.
struct Waiting<'s> {
    session: &'s Session,
    id: Uuid,
    answer: oneshot::Receiver<Vec<u8>>,
    /// Whether the message is in the queue, or may be.
    is_published: bool,
}

impl<'s> Waiting<'s> {
    fn register(session: &'s Session, id: Uuid, holds: Holds) -> Self {
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
            pending.abandoned = Some(Instant::now());
        } else {
            // Outside the lock: what is held may take its own.
            let ended = pending.remove(&self.id);
            drop(pending);
            drop(ended);
        }
    }
}

impl Session {
    fn is_open(&self) -> bool {
        self.channel.status().connected() && !self.link.connection.status().blocked()
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes and waits for the broker's confirm.
    async fn publish(&self, queue: &str, request: RpcRequest<'_>) -> Result<(), CallError> {
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
        let published =
            self.channel.basic_publish("".into(), queue.into(), options, request.body, properties).await;
        match published.map_err(|_| CallError::Unavailable)?.await {
            Ok(Confirmation::Ack(None)) => Ok(()),
            Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested) => {
                Err(CallError::Refused)
            }
            // The connection broke before the confirm: it may be there or not.
            Err(_) => Err(CallError::NoAnswer),
        }
    }

    /// Hands a reply to its call. One that is forged is ignored: the call goes on waiting for the right one.
    fn resolve(&self, delivery: Delivery) {
        let purpose = Purpose::Reply(self.queue);
        if let Err(why) = self.keys.verify(purpose, &delivery.properties, &delivery.data) {
            tracing::warn!(queue = self.queue.as_str(), %why, "forged reply ignored");
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

    /// Gives up messages whose reply nobody has waited for in a long time: they were lost, or dead-lettered.
    fn forget_lost(&self) {
        let is_lost =
            |pending: &mut Pending| pending.abandoned.is_some_and(|since| since.elapsed() >= LOST_AFTER);
        let lost: Vec<Pending> =
            self.pending().extract_if(|_, pending| is_lost(pending)).map(|(_, pending)| pending).collect();
        drop(lost);
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

/// Runs `work` on a body of `size` bytes. For a large one the other tasks of this thread are handed to another thread
/// meanwhile, where there is one.
fn work_on<T>(size: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if size >= LARGE && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

async fn keep_session(
    broker: Broker,
    queue: Queue,
    current: watch::Sender<Option<Arc<Session>>>,
    shutdown: CancellationToken,
) {
    while let Some(Some(link)) = shutdown.run_until_cancelled(broker.link()).await {
        if let Err(error) = serve(link, (queue, broker.keys()), &current, &shutdown).await {
            tracing::warn!(%error, "reply channel lost");
        }
        // What was pending can't be answered any more: its senders go, and its callers are told.
        if let Some(session) = current.send_replace(None) {
            let lost = std::mem::take(&mut *session.pending());
            drop(lost);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn serve(
    link: Arc<Link>,
    (queue, keys): (Queue, &MessageKeys),
    current: &watch::Sender<Option<Arc<Session>>>,
    shutdown: &CancellationToken,
) -> lapin::Result<()> {
    let channel = link.connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut replies =
        channel.basic_consume(REPLY_TO.into(), "".into(), no_ack, FieldTable::default()).await?;
    let session = Arc::new(Session { channel, link, queue, keys: keys.clone(), pending: Mutex::default() });
    current.send_replace(Some(Arc::clone(&session)));
    let mut look = tokio::time::interval(LOST_LOOK);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            reply = replies.next() => match reply {
                Some(reply) => session.resolve(reply?),
                None => return Ok(()),
            },
            _ = look.tick() => session.forget_lost(),
        }
    }
}
