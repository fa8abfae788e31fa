//! Small requests share messages: those that arrive while a publish of the same caller is under way are published together.
//!
//! Nothing waits for a timer. A request that finds no publish of its caller under way is published at once, in a message
//! of its own; the requests that arrive until the broker has confirmed it, or for `CONNECT_PUBLISH_TIMEOUT`, form the next message.
//! Callers do not wait for each other: the broker confirms the messages of different callers independently.

mod publish;
mod waiting;

pub(super) use publish::Publisher;

use super::RequestMessage;
use crate::admission::Share;
use common::broker::CallError;
use common::caller::Caller;
use common::metrics::BUNDLE_REQUESTS;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tracing::Span;
use waiting::{PublishState, WaitingRequest};

/// Maximum number of bytes of a request that may share a message.
const SMALL_BYTES: usize = 32 * 1024;

impl Publisher {
    /// Publishes a request and returns its own reply. If it is small and `may_wait`, it may share its message with others of its
    /// caller.
    pub(super) async fn submit(
        self: &Arc<Self>, caller: &Caller, message: RequestMessage, share: Share, may_wait: bool,
    ) -> Result<Vec<u8>, CallError> {
        if !may_wait || message.size() > SMALL_BYTES {
            metrics::histogram!(BUNDLE_REQUESTS).record(1);
            return self.queue.call_detached(message, vec![Box::new(share)]).await;
        }
        let (confirm_by, reply_by) = (message.confirm_by, message.reply_by);
        let (sender, mut result) = oneshot::channel();
        let state = Arc::new(PublishState::default());
        let span = Span::current();
        let waiting = WaitingRequest { message, share: Some(share), span, state: Arc::clone(&state), result: sender };
        self.enqueue(caller, waiting);
        let received = match timeout_at(confirm_by, &mut result).await {
            Ok(received) => received,
            // The request was not published, and will not be.
            Err(_) if state.decide() => return Err(CallError::Unavailable),
            Err(_) => timeout_at(reply_by, result).await.map_err(|_| CallError::NoReply)?,
        };
        received.unwrap_or(Err(CallError::NoReply))
    }
}
