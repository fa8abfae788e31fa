//! Request and reply over a queue: publish with confirm, wait for the answer on the direct reply-to.

use super::connection::Broker;
use super::hold::Holds;
use super::mac::MAC_HEADER;
use super::session::{Session, Waiting, keep_session};
use super::topology::Queue;
use crate::metrics::{self as names, PUBLISHES, REPLY_WAIT};
use crate::trace::TRACEPARENT;
use lapin::types::{AMQPValue, FieldTable};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Header that carries a message's metadata as JSON.
pub(super) const META_HEADER: &str = "x-connect-meta";
/// Messages survive a restart of the broker.
pub(super) const PERSISTENT: u8 = 2;

/// Calls one queue. Bounded by its callers: every call waits, so there are as many pending ones as calls.
#[derive(Clone, Debug)]
pub struct Rpc {
    session: watch::Receiver<Option<Arc<Session>>>,
    queue: Queue,
    queue_name: String,
}

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
        let confirmed = session.publish(&self.queue_name, request);
        tokio::select! {
            // The answer may overtake the confirm: then the message is published.
            biased;
            answer = &mut waiting.answer => return answer.map_err(|_| CallError::NoAnswer),
            confirmed = confirmed => {
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
