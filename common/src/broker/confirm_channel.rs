//! Publishing with confirms: the one way in which this project's messages get into a queue.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, Connection, PublisherConfirm};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct ConfirmChannel {
    channel: Channel,
    /// Held while a message gets its number and its place among those to send. The library takes them one after the other
    /// (lapin 4.12), and the broker counts what arrives: messages of two threads could get each other's confirms.
    numbering: Arc<Mutex<()>>,
}

impl ConfirmChannel {
    /// Opens a channel on `connection`.
    pub(super) async fn open(connection: &Connection) -> lapin::Result<Self> {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { channel, numbering: Arc::default() })
    }

    pub(super) const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends a message to the queue of that full name; the confirm follows, see [`is_in_queue`]. Mandatory: the broker returns a
    /// message for a queue that does not exist instead of dropping it.
    pub(super) async fn publish(
        &self, queue: &str, body: &[u8], properties: BasicProperties,
    ) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut publish = pin!(self.channel.basic_publish("".into(), queue.into(), options, body, properties));
        // Both happen when it is polled first.
        let mut is_numbered = false;
        poll_fn(|context| {
            let _numbering = (!std::mem::replace(&mut is_numbered, true)).then(|| self.numbering.lock());
            publish.as_mut().poll(context)
        })
        .await
    }

    /// Closes the channel once everything is confirmed.
    pub(super) async fn close(self, reason: &str) -> lapin::Result<()> {
        self.channel.close(200, reason.into()).await
    }
}

/// Whether a confirm says that the message is on disk in its queue. Otherwise the message is not in it, because the queue is
/// full or does not exist.
pub(super) const fn is_in_queue(confirmation: &Confirmation) -> bool {
    matches!(confirmation, Confirmation::Ack(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_acknowledgement_without_a_returned_message_is_in_the_queue() {
        assert!(is_in_queue(&Confirmation::Ack(None)));
        assert!(!is_in_queue(&Confirmation::Nack(None)));
        assert!(!is_in_queue(&Confirmation::NotRequested));
    }
}
