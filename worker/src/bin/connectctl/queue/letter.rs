//! A dead letter as it is shown: why and when, of what kind, which ids. Nothing of a person.

use crate::output::Show;
use common::broker::{DeadLetter, Queue};
use common::clock;
use common::message::{BatchMeta, DeliveryMeta};
use common::model::TenantId;
use common::write::{WriteMeta, WriteTarget};
use serde::Serialize;
use uuid::Uuid;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Letter {
    /// When it was dead-lettered; null where the broker didn't do it.
    at: Option<String>,
    /// The broker's word for how: `rejected`, `delivery_limit` and the like.
    reason: Option<String>,
    /// What that means.
    why: &'static str,
    /// How often it was dead-lettered.
    count: Option<u64>,
    /// Size of its body.
    bytes: usize,
    message_id: Option<String>,
    #[serde(flatten)]
    about: About,
}

/// What its metadata says; what doesn't apply or can't be read is null.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct About {
    #[serde(rename = "type")]
    kind: Option<String>,
    tenant_id: Option<TenantId>,
    request_id: Option<Uuid>,
    delivery_id: Option<Uuid>,
    subscription_id: Option<Uuid>,
    event_id: Option<Uuid>,
    published_at: Option<String>,
}

impl Letter {
    /// One of `queue`, whose full name is `name`.
    pub(super) fn of(letter: &DeadLetter, queue: Queue, name: &str) -> Self {
        let about = letter.meta.as_deref().map(|meta| About::read(meta, queue));
        let metadata = match &about {
            None => Metadata::Missing,
            Some(None) => Metadata::Unreadable,
            Some(Some(_)) => Metadata::Readable,
        };
        let death = letter.death_in(name);
        Self {
            at: death.and_then(|death| death.at).map(clock::to_text),
            reason: death.map(|death| death.reason.clone()),
            why: why(queue, death.map(|death| death.reason.as_str()), metadata),
            count: death.map(|death| death.count),
            bytes: letter.bytes,
            message_id: letter.message_id.clone(),
            about: about.flatten().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Readable,
    Missing,
    Unreadable,
}

/// What the broker's word means for a message of `queue`.
fn why(queue: Queue, reason: Option<&str>, metadata: Metadata) -> &'static str {
    match (reason, metadata) {
        (Some("delivery_limit"), _) => "handed out too often: each time its consumer went away",
        (Some("expired"), _) => "waited too long",
        (Some("maxlen"), _) => "the queue was full",
        // Actions of the CRM have none of ours.
        (Some(_), _) if queue == Queue::Crm => "not an action that can be read, or one that failed inside",
        (_, Metadata::Missing) => "has no metadata",
        (_, Metadata::Unreadable) => "its metadata can't be read",
        (_, Metadata::Readable) if queue == Queue::Webhooks => {
            "all attempts failed: see connectctl delivery show"
        }
        (Some(_), Metadata::Readable) => "its body can't be read",
        (None, Metadata::Readable) => "put there directly",
    }
}

impl About {
    fn read(meta: &str, queue: Queue) -> Option<Self> {
        match queue {
            Queue::Events => serde_json::from_str(meta).ok().as_ref().map(Self::of_batch),
            Queue::Records => serde_json::from_str(meta).ok().as_ref().map(Self::of_write),
            Queue::Webhooks => serde_json::from_str(meta).ok().map(Self::of_delivery),
            Queue::Crm => None,
        }
    }

    fn of_batch(meta: &BatchMeta) -> Self {
        Self {
            kind: Some(format!("batch of {}", meta.events)),
            tenant_id: Some(meta.caller.tenant_id),
            request_id: Some(meta.request_id),
            published_at: Some(clock::to_text(meta.published_at)),
            ..Self::default()
        }
    }

    fn of_write(meta: &WriteMeta) -> Self {
        let kind = match meta.target {
            WriteTarget::NewClient => "POST /clients",
            WriteTarget::Client(_) => "PATCH /clients/{clientId}",
            WriteTarget::NewLead => "POST /leads",
            WriteTarget::Lead(_) => "PATCH /leads/{leadId}",
            WriteTarget::Trip(_) => "PATCH /leads/{leadId}/trip",
        };
        Self {
            kind: Some(kind.to_owned()),
            tenant_id: Some(meta.caller.tenant_id),
            request_id: Some(meta.request_id),
            published_at: Some(clock::to_text(meta.published_at)),
            ..Self::default()
        }
    }

    fn of_delivery(meta: DeliveryMeta) -> Self {
        Self {
            kind: Some(meta.event_type),
            tenant_id: Some(meta.tenant_id),
            request_id: meta.request_id,
            delivery_id: Some(meta.delivery_id),
            subscription_id: Some(meta.subscription_id),
            event_id: Some(meta.event_id),
            published_at: Some(clock::to_text(meta.published_at)),
        }
    }
}

impl Show for Letter {
    const COLUMNS: &'static [&'static str] = &["Dead since", "Why", "Type", "Request or delivery", "Bytes"];

    fn cells(&self) -> Vec<Option<String>> {
        let About { kind, request_id, delivery_id, .. } = &self.about;
        vec![
            self.at.clone(),
            Some(self.why.to_owned()),
            kind.clone(),
            delivery_id.or(*request_id).map(|id| id.to_string()),
            Some(self.bytes.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_message_is_dead_is_told_from_what_the_broker_and_the_message_say() {
        let told = [
            (Queue::Events, Some("rejected"), Metadata::Missing, "has no metadata"),
            (Queue::Events, Some("rejected"), Metadata::Unreadable, "its metadata can't be read"),
            (Queue::Records, Some("rejected"), Metadata::Readable, "its body can't be read"),
            (
                Queue::Crm,
                Some("rejected"),
                Metadata::Missing,
                "not an action that can be read, or one that failed inside",
            ),
            (Queue::Events, None, Metadata::Readable, "put there directly"),
        ];
        for (queue, reason, metadata, expected) in told {
            assert_eq!(why(queue, reason, metadata), expected);
        }
        for reason in [None, Some("rejected")] {
            assert!(why(Queue::Webhooks, reason, Metadata::Readable).starts_with("all attempts failed"));
        }
        assert!(
            why(Queue::Crm, Some("delivery_limit"), Metadata::Missing).starts_with("handed out too often")
        );
    }
}
