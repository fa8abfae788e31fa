//! Going through a dead-letter queue.
//!
//! AMQP has no way to look at a message without taking it. A [`Walk`] takes messages window by window and keeps those
//! that are to stay until its end, or else they would come again. The broker takes them back when their channel is
//! closed, however that comes about. What is put back into its queue is acknowledged only after the broker has
//! confirmed it there: a crash in between leaves it in both, which its consumer must bear anyway, and never in neither.

mod letter;

pub use letter::{DeadLetter, Death};

use super::topology::Queue;
use super::visit::{Visit, VisitError};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, PublisherConfirm};
use std::time::Duration;
use tokio::time::timeout;

/// Most messages of a window.
const WINDOW_MESSAGES: u64 = 256;
/// Messages of the first window, when nothing is known of their size.
const WINDOW_FIRST: u64 = 8;
/// Bytes of a window that is made of messages like those before it.
const WINDOW_BYTES: u64 = 16 << 20;
/// Windows of a channel. A quorum queue takes back what a closed channel had in its order as long as it knows of at most
/// 32 consumers; each window is one.
const WINDOWS_OF_CHANNEL: u32 = 24;
/// Wait for the next message after which the broker is asked whether there is one.
const IDLE: Duration = Duration::from_millis(500);
/// Times that it says so and none comes.
const IDLES_MAX: u32 = 20;
/// Longest that the broker may take to confirm what a window puts back.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

/// What becomes of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays.
    Keep,
    /// It is gone for good.
    Remove,
    /// It goes back into the queue that it came from, as a new message.
    Requeue,
}

/// What became of those seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// They stay.
    pub kept: u32,
    /// They are gone.
    pub removed: u32,
    /// They are back in their queue.
    pub requeued: u32,
}

impl Walked {
    /// All that were seen.
    pub const fn seen(self) -> u32 {
        self.kept + self.removed + self.requeued
    }

    const fn add(&mut self, more: Self) {
        self.kept += more.kept;
        self.removed += more.removed;
        self.requeued += more.requeued;
    }
}

/// A way through the dead letters of a queue, once, from the oldest on. At most as many are seen as were there at the
/// start: what is put back and dies again is not seen a second time. Nobody else sees what a walk has in its hands.
pub struct Walk<'v> {
    visit: &'v Visit,
    queue: String,
    dead: String,
    /// What was taken on the first is older than what was taken on the next.
    taking: Vec<Channel>,
    publishing: Channel,
    /// Not taken yet.
    left: u32,
    taken: Taken,
    walked: Walked,
}

/// What was taken so far.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    windows: u32,
    messages: u64,
    bytes: u64,
}

/// Some dead letters, taken and not settled yet. They stay when it is dropped.
pub struct Window<'w, 'v> {
    walk: &'w mut Walk<'v>,
    channel: Channel,
    deliveries: Vec<Delivery>,
    letters: Vec<DeadLetter>,
}

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("dead", &self.dead).field("left", &self.left).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Window<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("letters", &self.letters).finish_non_exhaustive()
    }
}

impl Visit {
    /// Begins a walk through the dead letters of `queue`, at most `most` of them.
    pub async fn walk(&self, queue: Queue, most: Option<u32>) -> Result<Walk<'_>, VisitError> {
        let dead = self.dead_queue_name(queue);
        let depth = self.depth(&dead).await?.ok_or_else(|| VisitError::NoQueue(dead.clone()))?;
        let publishing = self.connection.create_channel().await?;
        publishing.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Walk {
            visit: self,
            queue: self.queue_name(queue),
            dead,
            taking: Vec::new(),
            publishing,
            left: depth.ready.min(most.unwrap_or(u32::MAX)),
            taken: Taken::default(),
            walked: Walked::default(),
        })
    }
}

impl<'v> Walk<'v> {
    /// How many are still to come, at most.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// What became of those before.
    pub const fn walked(&self) -> Walked {
        self.walked
    }

    /// The next dead letters; `None` when all were seen. Those of the window before that weren't settled stay.
    pub async fn next_window(&mut self) -> Result<Option<Window<'_, 'v>>, VisitError> {
        let wanted = self.taken.next_window(self.left);
        if wanted == 0 {
            return Ok(None);
        }
        let channel = self.channel().await?;
        let deliveries = self.take(&channel, wanted).await?;
        if deliveries.is_empty() {
            self.left = 0;
            return Ok(None);
        }
        self.left -= u32::try_from(deliveries.len()).unwrap_or(self.left).min(self.left);
        let read = |delivery: &Delivery| DeadLetter::read(&delivery.properties, delivery.data.len());
        let letters = deliveries.iter().map(read).collect();
        Ok(Some(Window { walk: self, channel, deliveries, letters }))
    }

    /// The channel of the next window.
    async fn channel(&mut self) -> Result<Channel, VisitError> {
        let is_full = self.taken.windows.is_multiple_of(WINDOWS_OF_CHANNEL);
        if let Some(current) = self.taking.last().filter(|_| !is_full) {
            return Ok(current.clone());
        }
        let channel = self.visit.connection.create_channel().await?;
        // The acknowledgements of a window go to the queue as one. It takes only some 30 at a time, and those that
        // would still wait for that when the channel is closed would be lost.
        channel.tx_select().await?;
        self.taking.push(channel.clone());
        Ok(channel)
    }

    /// Takes the next `wanted`, fewer when there are no more. A consumer of its own for each window hands out no more
    /// than that, also when some of them are acknowledged.
    async fn take(&mut self, channel: &Channel, wanted: u16) -> Result<Vec<Delivery>, VisitError> {
        // In the order of their names, the broker takes back what consumers had.
        let tag = format!("walk-{:06}", self.taken.windows);
        self.taken.windows += 1;
        channel.basic_qos(wanted, BasicQosOptions::default()).await?;
        let (queue, tag) = (self.dead.as_str().into(), tag.as_str());
        let consumer =
            channel.basic_consume(queue, tag.into(), BasicConsumeOptions::default(), FieldTable::default());
        let mut consumer = consumer.await?;
        let mut taken = Vec::with_capacity(wanted.into());
        let mut idle = 0;
        while taken.len() < usize::from(wanted) {
            match timeout(IDLE, consumer.next()).await {
                Ok(Some(delivery)) => {
                    let delivery = delivery?;
                    self.taken.add(&delivery);
                    taken.push(delivery);
                }
                Ok(None) => return Err(VisitError::NoQueue(self.dead.clone())),
                // Somebody else has taken them.
                Err(_) if self.is_empty().await? => break,
                Err(_) if idle == IDLES_MAX => return Err(VisitError::Stuck),
                Err(_) => idle += 1,
            }
        }
        channel.basic_cancel(tag.into(), BasicCancelOptions::default()).await?;
        Ok(taken)
    }

    async fn is_empty(&self) -> Result<bool, VisitError> {
        Ok(self.visit.depth(&self.dead).await?.is_none_or(|depth| depth.ready == 0))
    }

    /// Puts a message back, not confirmed yet. Mandatory: if the queue is gone it must come back.
    async fn publish(&self, delivery: &Delivery) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = letter::afresh(&delivery.properties);
        self.publishing
            .basic_publish("".into(), self.queue.as_str().into(), options, &delivery.data, properties)
            .await
    }

    /// Ends the walk: what stays goes back to its place.
    pub async fn finish(self) -> Result<Walked, VisitError> {
        self.publishing.close(200, "done".into()).await?;
        // The oldest first.
        for channel in self.taking {
            channel.close(200, "done".into()).await?;
        }
        Ok(self.walked)
    }
}

impl Taken {
    fn add(&mut self, delivery: &Delivery) {
        self.messages += 1;
        self.bytes += u64::try_from(delivery.data.len()).unwrap_or(u64::MAX);
    }

    /// Messages of the next window, when `left` are left: as many like those before as fit.
    fn next_window(self, left: u32) -> u16 {
        let fit = match self.bytes.checked_div(self.messages) {
            None => WINDOW_FIRST,
            Some(average) => (WINDOW_BYTES / average.max(1)).clamp(1, WINDOW_MESSAGES),
        };
        u16::try_from(fit.min(left.into())).unwrap_or(u16::MAX)
    }
}

impl Window<'_, '_> {
    /// The dead letters, oldest first.
    pub fn letters(&self) -> &[DeadLetter] {
        &self.letters
    }

    /// Does with each what `decide` says. When the queue doesn't take one back, the rest of the window is still settled,
    /// what was not put back stays, and the error ends the walk.
    pub async fn settle(self, decide: impl FnMut(&DeadLetter) -> Fate) -> Result<(), VisitError> {
        let Self { walk, channel, deliveries, letters } = self;
        let fates: Vec<Fate> = letters.iter().map(decide).collect();
        let publish = publish(walk, &deliveries, &fates);
        let published = timeout(CONFIRM_WITHIN, publish).await.map_err(|_| VisitError::Stuck)??;
        let mut settled = Walked::default();
        for ((delivery, fate), published) in deliveries.iter().zip(fates).zip(&published) {
            match fate {
                Fate::Remove => settled.removed += 1,
                Fate::Requeue if *published => settled.requeued += 1,
                Fate::Keep | Fate::Requeue => {
                    settled.kept += 1;
                    continue;
                }
            }
            delivery.ack(BasicAckOptions::default()).await?;
        }
        channel.tx_commit().await?;
        walk.walked.add(settled);
        if published.contains(&false) {
            return Err(VisitError::Refused(walk.queue.clone()));
        }
        Ok(())
    }
}

/// Whether each that is to be put back has been; true for the others.
async fn publish(walk: &Walk<'_>, deliveries: &[Delivery], fates: &[Fate]) -> Result<Vec<bool>, VisitError> {
    let mut confirms = Vec::with_capacity(deliveries.len());
    for (delivery, fate) in deliveries.iter().zip(fates) {
        confirms.push(match fate {
            Fate::Requeue => Some(walk.publish(delivery).await?),
            Fate::Keep | Fate::Remove => None,
        });
    }
    let mut published = Vec::with_capacity(confirms.len());
    for confirm in confirms {
        published.push(match confirm {
            Some(confirm) => matches!(confirm.await?, Confirmation::Ack(None)),
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
        let after = |messages, bytes| Taken { windows: 1, messages, bytes };
        assert_eq!(Taken::default().next_window(1_000), 8);
        assert_eq!(Taken::default().next_window(3), 3);
        assert_eq!(after(8, 800).next_window(1_000), 256);
        assert_eq!(after(8, 0).next_window(1_000), 256);
        assert_eq!(after(8, 8 << 20).next_window(1_000), 16);
        assert_eq!(after(8, 8 << 28).next_window(1_000), 1);
        assert_eq!(after(8, 800).next_window(0), 0);
    }
}
