//! Scanning a dead-letter queue.
//!
//! AMQP has no way to read a message without consuming it. A [`DeadLetterScan`] fetches messages window by window and keeps those
//! that stay until the scan ends, because they would be delivered again otherwise. The broker requeues them when their channel
//! closes, for whatever reason. A message that is requeued into its original queue is acknowledged only after the broker has
//! confirmed it there: a crash in between leaves it in both queues, which consumers tolerate, and never in neither.

mod letter;

pub(super) use letter::requeue_properties;
pub use letter::{DeadLetter, DeadLetterCause};

use super::confirm_channel::{ConfirmChannel, is_in_queue};
use super::mac::{MacError, MessageKeys, Purpose};
use super::operator_connection::{OperatorConnection, OperatorConnectionError};
use super::time_limit::in_time;
use super::topology::Queue;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, PublisherConfirm};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of messages of a window.
const WINDOW_MESSAGES: u64 = 256;
/// Messages of the first window, before any message size is known.
const WINDOW_FIRST: u64 = 8;
/// Target size of a window in bytes, estimated from the average size of the messages before it.
const WINDOW_BYTES: u64 = 16 << 20;
/// Windows of a channel. A quorum queue restores the order of the messages of a closed channel only while it knows of at
/// most 32 consumers; each window is one.
const WINDOWS_PER_CHANNEL: u32 = 24;
/// How long to wait for the next message before the broker is asked whether the queue is empty.
const IDLE: Duration = Duration::from_millis(500);
/// How many times the broker may report messages without delivering one.
const IDLES_MAX: u32 = 20;
/// Maximum time that the broker may take to confirm the messages that a window requeues.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

/// What to do with a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterAction {
    /// It stays in the dead-letter queue.
    Keep,
    /// The message is acknowledged, which deletes it.
    Remove,
    /// It is published to the queue that it came from, as a new message, and deleted here.
    Requeue,
}

/// How many dead letters of a scan were kept, removed and requeued so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterCounts {
    /// Dead letters that stay in the dead-letter queue.
    pub kept: u32,
    /// Dead letters that were deleted.
    pub removed: u32,
    /// Dead letters that are in their original queue again.
    pub requeued: u32,
}

impl DeadLetterCounts {
    /// The number of dead letters handled so far.
    pub const fn total(self) -> u32 {
        self.kept + self.removed + self.requeued
    }

    const fn add(&mut self, more: Self) {
        self.kept += more.kept;
        self.removed += more.removed;
        self.requeued += more.requeued;
    }
}

/// A single pass over the dead letters of a queue, oldest first. It handles at most as many as the queue held at the start,
/// so that a message that is requeued and dead-lettered again is not handled twice. Messages that the scan holds
/// unacknowledged are invisible to other consumers.
pub struct DeadLetterScan<'v> {
    operator_connection: &'v OperatorConnection,
    kind: Queue,
    queue: String,
    dead: String,
    /// In the order in which they were opened: the messages of an earlier channel are older.
    consuming_channels: Vec<Channel>,
    publishing: ConfirmChannel,
    /// Dead letters that have not been fetched yet.
    remaining: u32,
    fetched: FetchTotals,
    counts: DeadLetterCounts,
}

/// The number and size of the messages fetched so far.
#[derive(Clone, Copy, Debug, Default)]
struct FetchTotals {
    windows: u32,
    messages: u64,
    bytes: u64,
}

/// Dead letters that are fetched and not settled yet. They stay in the queue when the window is dropped.
pub struct Window<'w, 'v> {
    scan: &'w mut DeadLetterScan<'v>,
    channel: Channel,
    deliveries: Vec<Delivery>,
    letters: Vec<DeadLetter>,
}

impl std::fmt::Debug for DeadLetterScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetterScan")
            .field("dead", &self.dead)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Window<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("letters", &self.letters).finish_non_exhaustive()
    }
}

impl OperatorConnection {
    /// Begins a scan of the dead letters of `queue`, of at most `most`.
    pub async fn scan_dead_letters(
        &self, queue: Queue, most: Option<u32>,
    ) -> Result<DeadLetterScan<'_>, OperatorConnectionError> {
        let dead = self.dead_queue_name(queue);
        let depth = self.depth(&dead).await?.ok_or_else(|| OperatorConnectionError::NoQueue(dead.clone()))?;
        let publishing = in_time(ConfirmChannel::open(&self.connection)).await?;
        Ok(DeadLetterScan {
            operator_connection: self,
            kind: queue,
            queue: self.queue_name(queue),
            dead,
            consuming_channels: Vec::new(),
            publishing,
            remaining: depth.ready.min(most.unwrap_or(u32::MAX)),
            fetched: FetchTotals::default(),
            counts: DeadLetterCounts::default(),
        })
    }
}

impl<'v> DeadLetterScan<'v> {
    /// The upper limit of dead letters that are still to come.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The counts of the windows settled so far.
    pub const fn counts(&self) -> DeadLetterCounts {
        self.counts
    }

    /// The next dead letters; `None` at the end. Those of the previous window that were not settled stay in the queue.
    pub async fn next_window(&mut self) -> Result<Option<Window<'_, 'v>>, OperatorConnectionError> {
        let wanted = self.fetched.next_window(self.remaining);
        if wanted == 0 {
            return Ok(None);
        }
        let channel = self.channel().await?;
        let deliveries = self.fetch(&channel, wanted).await?;
        if deliveries.is_empty() {
            self.remaining = 0;
            return Ok(None);
        }
        self.remaining -= u32::try_from(deliveries.len()).unwrap_or(self.remaining).min(self.remaining);
        let read = |delivery: &Delivery| DeadLetter::from_properties(&delivery.properties, delivery.data.len());
        let letters = deliveries.iter().map(read).collect();
        Ok(Some(Window { scan: self, channel, deliveries, letters }))
    }

    /// The channel of the next window.
    async fn channel(&mut self) -> Result<Channel, OperatorConnectionError> {
        let is_full = self.fetched.windows.is_multiple_of(WINDOWS_PER_CHANNEL);
        if let Some(current) = self.consuming_channels.last().filter(|_| !is_full) {
            return Ok(current.clone());
        }
        let channel = in_time(self.operator_connection.connection.create_channel()).await?;
        // A transaction sends the acknowledgements of a window together. Outside of one the queue processes only about 30
        // at a time, and those that still wait when the channel closes would be lost.
        in_time(channel.tx_select()).await?;
        self.consuming_channels.push(channel.clone());
        Ok(channel)
    }

    /// Fetches the next `wanted` messages, or fewer when the queue is empty. Each window has its own consumer, so that the
    /// broker delivers no more than that, even after some of them are acknowledged.
    async fn fetch(&mut self, channel: &Channel, wanted: u16) -> Result<Vec<Delivery>, OperatorConnectionError> {
        // The broker requeues the messages of several consumers in the order of their tags.
        let tag = format!("scan-{:06}", self.fetched.windows);
        self.fetched.windows += 1;
        in_time(channel.basic_qos(wanted, BasicQosOptions::default())).await?;
        let (queue, tag) = (self.dead.as_str().into(), tag.as_str());
        let consumer = channel.basic_consume(queue, tag.into(), BasicConsumeOptions::default(), FieldTable::default());
        let mut consumer = in_time(consumer).await?;
        let mut deliveries = Vec::with_capacity(wanted.into());
        let mut idle = 0;
        while deliveries.len() < usize::from(wanted) {
            match timeout(IDLE, consumer.next()).await {
                Ok(Some(delivery)) => {
                    let delivery = delivery?;
                    self.fetched.add(&delivery);
                    deliveries.push(delivery);
                }
                Ok(None) => return Err(OperatorConnectionError::NoQueue(self.dead.clone())),
                // Another consumer has received them.
                Err(_) if self.is_empty().await? => break,
                Err(_) if idle == IDLES_MAX => return Err(OperatorConnectionError::Stuck),
                Err(_) => idle += 1,
            }
        }
        in_time(channel.basic_cancel(tag.into(), BasicCancelOptions::default())).await?;
        Ok(deliveries)
    }

    async fn is_empty(&self) -> Result<bool, OperatorConnectionError> {
        Ok(self.operator_connection.depth(&self.dead).await?.is_none_or(|depth| depth.ready == 0))
    }

    /// Publishes a message to its original queue, without waiting for the confirm.
    async fn publish(&self, delivery: &Delivery) -> lapin::Result<PublisherConfirm> {
        let properties = requeue_properties(&delivery.properties);
        self.publishing.publish(&self.queue, &delivery.data, properties).await
    }

    /// Ends the scan: dead letters that stay return to their places in the queue.
    pub async fn finish(self) -> Result<DeadLetterCounts, OperatorConnectionError> {
        in_time(self.publishing.close("done")).await?;
        // The oldest first.
        for channel in self.consuming_channels {
            in_time(channel.close(200, "done".into())).await?;
        }
        Ok(self.counts)
    }
}

impl FetchTotals {
    fn add(&mut self, delivery: &Delivery) {
        self.messages += 1;
        self.bytes += u64::try_from(delivery.data.len()).unwrap_or(u64::MAX);
    }

    /// The size of the next window when `remaining` messages remain: as many of the average size so far as fit.
    fn next_window(self, remaining: u32) -> u16 {
        let fit = match self.bytes.checked_div(self.messages) {
            None => WINDOW_FIRST,
            Some(average) => (WINDOW_BYTES / average.max(1)).clamp(1, WINDOW_MESSAGES),
        };
        u16::try_from(fit.min(remaining.into())).unwrap_or(u16::MAX)
    }
}

impl Window<'_, '_> {
    /// The dead letters, oldest first.
    pub fn letters(&self) -> &[DeadLetter] {
        &self.letters
    }

    /// The bodies of the dead letters, in the same order. They may hold personal data.
    pub fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        self.deliveries.iter().map(|delivery| delivery.data.as_slice())
    }

    /// For each dead letter, in the same order: whether one of the programs published it, and nobody has changed it.
    pub fn verify_macs(&self, keys: &MessageKeys) -> Vec<Result<(), MacError>> {
        let purpose = Purpose::Message(self.scan.kind);
        let verify = |delivery: &Delivery| keys.verify(purpose, &delivery.properties, &delivery.data);
        self.deliveries.iter().map(verify).collect()
    }

    /// Applies the action that `decide` returns to each dead letter. When the original queue refuses a message, the rest of
    /// the window is still settled, the refused message stays, and the error ends the scan.
    pub async fn settle(
        self, decide: impl FnMut(&DeadLetter) -> DeadLetterAction,
    ) -> Result<(), OperatorConnectionError> {
        let Self { scan, channel, deliveries, letters } = self;
        let actions: Vec<DeadLetterAction> = letters.iter().map(decide).collect();
        let publish = publish(scan, &deliveries, &actions);
        let published = timeout(CONFIRM_WITHIN, publish).await.map_err(|_| OperatorConnectionError::Stuck)??;
        let mut settled = DeadLetterCounts::default();
        for ((delivery, action), published) in deliveries.iter().zip(actions).zip(&published) {
            match action {
                DeadLetterAction::Remove => settled.removed += 1,
                DeadLetterAction::Requeue if *published => settled.requeued += 1,
                DeadLetterAction::Keep | DeadLetterAction::Requeue => {
                    settled.kept += 1;
                    continue;
                }
            }
            in_time(channel.basic_ack(delivery.delivery_tag, BasicAckOptions::default())).await?;
        }
        in_time(channel.tx_commit()).await?;
        scan.counts.add(settled);
        if published.contains(&false) {
            return Err(OperatorConnectionError::Refused(scan.queue.clone()));
        }
        Ok(())
    }
}

/// For each delivery: whether the broker confirmed it in its original queue; true for those that are not requeued.
async fn publish(
    scan: &DeadLetterScan<'_>, deliveries: &[Delivery], actions: &[DeadLetterAction],
) -> Result<Vec<bool>, OperatorConnectionError> {
    let mut confirms = Vec::with_capacity(deliveries.len());
    for (delivery, action) in deliveries.iter().zip(actions) {
        confirms.push(match action {
            DeadLetterAction::Requeue => Some(scan.publish(delivery).await?),
            DeadLetterAction::Keep | DeadLetterAction::Remove => None,
        });
    }
    let mut published = Vec::with_capacity(confirms.len());
    for confirm in confirms {
        published.push(match confirm {
            Some(confirm) => is_in_queue(&confirm.await?),
            None => true,
        });
    }
    Ok(published)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_bounded_in_messages_and_bytes() {
        let after = |messages, bytes| FetchTotals { windows: 1, messages, bytes };
        assert_eq!(FetchTotals::default().next_window(1_000), 8);
        assert_eq!(FetchTotals::default().next_window(3), 3);
        assert_eq!(after(8, 800).next_window(1_000), 256);
        assert_eq!(after(8, 0).next_window(1_000), 256);
        assert_eq!(after(8, 8 << 20).next_window(1_000), 16);
        assert_eq!(after(8, 8 << 28).next_window(1_000), 1);
        assert_eq!(after(8, 800).next_window(0), 0);
    }
}
