//! Publishing with confirms: the one way in which this project's messages get into a queue.

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, Connection, PublisherConfirm};

/// A channel on which the broker confirms each message.
#[derive(Clone, Debug)]
pub(super) struct ConfirmChannel(Channel);

impl ConfirmChannel {
    /// Opens a channel on `connection`.
    pub(super) async fn open(connection: &Connection) -> lapin::Result<Self> {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self(channel))
    }

    pub(super) const fn channel(&self) -> &Channel {
        &self.0
    }

    /// Sends a message to the queue of that full name; the confirm follows, see [`is_in_queue`]. Mandatory: the broker returns a
    /// message for a queue that does not exist instead of dropping it.
    pub(super) async fn publish(
        &self,
        queue: &str,
        body: &[u8],
        properties: BasicProperties,
    ) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        self.0.basic_publish("".into(), queue.into(), options, body, properties).await
    }

    /// Closes the channel once everything is confirmed.
    pub(super) async fn close(self, reason: &str) -> lapin::Result<()> {
        self.0.close(200, reason.into()).await
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
