//! Slots: which tenants this dispatcher works for.
//!
//! A lease is renewed every second and ends five seconds after the last renewal. All times of leases are those of the database's
//! clock; this program counts the time since it asked for the renewal, so that a clock that jumps ends no lease and prolongs none.
//! Dispatchers share the slots evenly without a coordinator: each knows how many there are, takes free slots up to its share, and
//! gives up what exceeds it.

use crate::dispatch::Event;
use crate::store::{Lease, slots};
use common::db::{DatabaseSession, DatabaseSessionConfig, SessionWork, TxError, run_session};
use common::log_limit::LogLimit;
use common::metrics::DISPATCHER_SLOTS;
use common::model::SLOTS;
use common::periodic::ticks;
use common::settings::DatabaseUrl;
use common::{health, limited};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines about failures.
static FAILED: LogLimit<1> = LogLimit::new();

const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How long this program trusts a renewal: less than the five seconds of the lease, because clocks do not run at the same speed.
const TRUSTED: Duration = Duration::from_secs(4);
const RETRY_WAIT: Duration = Duration::from_millis(250);
/// Maximum time that Postgres may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Notification channels, and the time limits of a server whose client is stuck.
const SESSION_SETUP: &str = "
    SET idle_session_timeout = '5s';
    SET statement_timeout = '2s';
    LISTEN connect_outbox;
    LISTEN connect_deliveries;
    LISTEN connect_slots";

/// Leases that this dispatcher holds.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    pub held: Vec<Lease>,
    /// Until when they are certain.
    pub until: Instant,
}

/// Renews, takes and gives up leases.
pub(crate) struct SlotHolder {
    pub dispatcher: Uuid,
    pub events: UnboundedSender<Event>,
    /// Leases to be given up. Closed when nothing is attempted any more.
    pub given_up: UnboundedReceiver<Vec<Lease>>,
    /// No slots are taken any more.
    pub shutdown: CancellationToken,
}

/// Holds slots until `given_up` is closed. Waits for Postgres as long as that takes.
pub(crate) async fn hold_slots(mut holder: SlotHolder, url: DatabaseUrl) {
    let setup = SESSION_SETUP;
    let settings = DatabaseSessionConfig { url, name: "dispatcher_slots", within: RESPONSE_TIMEOUT, setup };
    health::watch(run_session(&settings, RETRY_WAIT, &mut holder, &CancellationToken::new())).await;
}

impl SessionWork for SlotHolder {
    async fn run(&mut self, session: &Arc<DatabaseSession>) -> Result<(), TxError> {
        let mut ticks = ticks(RENEW_INTERVAL);
        // What was notified while there was no session is unknown.
        self.wake(u64::MAX, true);
        loop {
            health::beat();
            tokio::select! {
                biased;
                leases = self.given_up.recv() => match leases {
                    Some(leases) => slots::give_up(session, self.dispatcher, &leases).await?,
                    None => return slots::leave(session, self.dispatcher).await,
                },
                () = session.notified() => {
                    let outbox = slots_of(&session.take_payloads("connect_outbox"));
                    self.wake(outbox, !session.take_payloads("connect_deliveries").is_empty());
                    if !session.take_payloads("connect_slots").is_empty() {
                        self.renew(session).await?;
                    }
                    if session.is_closed() {
                        return Err(TxError::Unavailable("the session has ended".to_owned()));
                    }
                }
                _ = ticks.tick() => self.renew(session).await?,
            }
        }
    }

    fn failed(&mut self, error: &TxError) {
        health::beat();
        limited!(FAILED[0], warn, %error, "renewing the leases of slots failed; retrying");
    }
}

impl SlotHolder {
    async fn renew(&self, session: &DatabaseSession) -> Result<(), TxError> {
        let until = Instant::now() + TRUSTED;
        let (mut held, dispatchers) = slots::renew(session, self.dispatcher).await?;
        let share = if self.shutdown.is_cancelled() {
            // The others share all slots from now on, while those whose attempts are under way are still renewed.
            slots::leave(session, self.dispatcher).await?;
            held.len()
        } else {
            SLOTS.div_ceil(dispatchers)
        };
        if held.len() < share {
            let taken = slots::take(session, self.dispatcher, share - held.len()).await?;
            if !taken.is_empty() {
                tracing::info!(taken = taken.len(), share, "took slots; delivering their tenants' webhooks");
            }
            held.extend(taken);
        }
        let excess = held.len().saturating_sub(share);
        show(held.len(), excess);
        drop(self.events.send(Event::Renewed(Leases { held, until }, excess)));
        Ok(())
    }

    fn wake(&self, outbox: u64, deliveries: bool) {
        drop(self.events.send(Event::Woken { outbox, deliveries }));
    }
}

/// Sets the gauges of the slots that this dispatcher holds, and of those that exceed its share.
pub(crate) fn show(held: usize, excess: usize) {
    for (state, count) in [("held", held), ("excess", excess)] {
        metrics::gauge!(DISPATCHER_SLOTS, "state" => state).set(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

/// The slots that notifications name: bits of a number, or all if there is none.
fn slots_of<'a>(payloads: impl IntoIterator<Item = &'a String>) -> u64 {
    payloads.into_iter().fold(0, |slots, payload| slots | payload.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_name_slots_by_bits() {
        let slots = |payloads: &[&str]| slots_of(&payloads.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(slots(&["1", "6"]), 0b111);
        assert_eq!(slots(&[&u64::MAX.to_string()]), u64::MAX);
        assert_eq!(slots(&["1", ""]), u64::MAX, "all, if it names none");
        assert_eq!(slots(&[]), 0);
    }
}
