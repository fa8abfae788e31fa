//! Removes the messages of replayed deliveries from the dead-letter queue, where they would look like failures.

use super::Relay;
use crate::store;
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, OperatorConnectionError, Queue};
use common::db::TxError;
use common::message::DeliveryMeta;
use common::model::DeliveryState;
use std::collections::HashSet;
use uuid::Uuid;

impl Relay {
    /// Removes the dead letters of a tenant's deliveries that were replayed. Keeps those of deliveries that are dead-lettered,
    /// including those that were dead-lettered again after a replay, and messages that cannot be parsed.
    pub(super) async fn remove_replayed_letters(&self, tenant: Uuid) -> Result<(), TxError> {
        let unavailable = |error: OperatorConnectionError| TxError::Unavailable(error.to_string());
        let opened = OperatorConnection::open(&self.broker_settings, "connect-dispatcher replay jobs").await;
        let connection = opened.map_err(unavailable)?;
        let removed = self.remove_letters(&connection, tenant).await;
        // What the scan has kept returns to its queue when the connection closes, however it is closed.
        drop(connection.close().await);
        removed
    }

    async fn remove_letters(&self, connection: &OperatorConnection, tenant: Uuid) -> Result<(), TxError> {
        let unavailable = |error: OperatorConnectionError| TxError::Unavailable(error.to_string());
        let dead = connection.dead_queue_name(Queue::Webhooks);
        if connection.depth(&dead).await.map_err(unavailable)?.is_none_or(|depth| depth.ready == 0) {
            return Ok(());
        }
        let mut scan = connection.scan_dead_letters(Queue::Webhooks, None).await.map_err(unavailable)?;
        while let Some(window) = scan.next_window().await.map_err(unavailable)? {
            let named = window.letters().iter().filter_map(delivery_of);
            let named: Vec<(Uuid, Uuid)> = named
                .filter(|meta| meta.tenant_id.0 == tenant)
                .map(|meta| (tenant, meta.delivery_id))
                .collect();
            let replayed = self.replayed(&named).await?;
            let action = |letter: &DeadLetter| match delivery_of(letter) {
                Some(meta) if replayed.contains(&meta.delivery_id) => DeadLetterAction::Remove,
                Some(_) | None => DeadLetterAction::Keep,
            };
            window.settle(action).await.map_err(unavailable)?;
        }
        scan.finish().await.map_err(unavailable)?;
        Ok(())
    }

    /// Those of the deliveries that were replayed after they had been dead-lettered. A pending one that was never replayed
    /// keeps its message: it was dead-lettered for another reason, such as too many redeliveries.
    async fn replayed(&self, named: &[(Uuid, Uuid)]) -> Result<HashSet<Uuid>, TxError> {
        if named.is_empty() {
            return Ok(HashSet::new());
        }
        let client = self.database.client().await?;
        let known = store::load_progress(&client, named).await?;
        let is_replayed = |progress: &store::DeliveryProgress| match progress.state {
            DeliveryState::DeadLettered => false,
            DeliveryState::Pending => progress.attempts_before_replay > 0,
            DeliveryState::Delivered | DeliveryState::Dropped => true,
        };
        Ok(known.into_iter().filter(|(_, progress)| is_replayed(progress)).map(|(id, _)| id).collect())
    }
}

/// The delivery that a dead letter is about.
fn delivery_of(letter: &DeadLetter) -> Option<DeliveryMeta> {
    serde_json::from_str(letter.meta.as_deref()?).ok()
}
