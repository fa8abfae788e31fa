//! Everything known of an id, in the order of time: where an event is, from its arrival to the last attempt of its webhooks.

use crate::deliveries::{Delivery, first_id, set_urls};
use crate::refusals::RefusedRequest;
use crate::store::deliveries::Selected;
use crate::store::found::{AppliedEvent, OutboundEvent};
use crate::subscriptions::{self, SubscriptionState};
use crate::{Result, store, tenants};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::{DeliveryState, Email, TenantId};
use common::trace::TraceContext;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use tokio_postgres::Client;
use uuid::Uuid;

/// How long after its arrival a request's events are looked for.
const APPLIED_WITHIN: TimeDelta = TimeDelta::minutes(2);
/// Outbound events are attributed to an inbound event if they were created within this time of its application.
const CAUSED_WITHIN: TimeDelta = TimeDelta::seconds(5);
/// Maximum number of deliveries that are read for an outbound event.
const DELIVERIES_MAX: u32 = 1_000;

/// Where to look, and for what.
#[derive(Clone, Copy, Debug)]
pub struct FindQuery<'a> {
    /// Slug of the tenant; `None` for all.
    pub tenant: Option<&'a str>,
    /// Id of an event, request, client, lead, booking, delivery or outbound event, a W3C trace id or `traceparent`, an
    /// enquiry number, or the caller's own id of an enquiry.
    pub id: &'a str,
    /// Whether an email finds its client.
    pub with_emails: bool,
}

/// One thing that happened, or will happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundStep {
    /// When.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// What kind: `received`, `applied`, `outbox`, `delivery`, `attempt`, `next attempt`, `client`, `lead`, `booking`,
    /// `refused`, `failed`.
    pub stage: &'static str,
    /// What exactly, for people.
    pub detail: String,
    /// Slug of the tenant.
    pub tenant: String,
    /// The inbound or outbound event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The request that carried the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Uuid>,
    /// The client that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Uuid>,
    /// The lead that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead_id: Option<Uuid>,
    /// The webhook delivery of this event, in an entry about a delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<Uuid>,
    /// The subscription of this delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_id: Option<Uuid>,
    /// The receiver of this delivery, without the values of the query of its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// Why it failed, in a word or two: a status, or an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Finds everything known of an id. An unknown id gives an empty list.
pub async fn find(client: &Client, query: &FindQuery<'_>) -> Result<Vec<FoundStep>> {
    let listed = match query.tenant {
        Some(slug) => vec![tenants::settings(client, slug).await?],
        None => tenants::list(client).await?,
    };
    let mut search = Search {
        client,
        ids: listed.iter().map(|tenant| tenant.id.0).collect(),
        slugs: listed.into_iter().map(|tenant| (tenant.id, tenant.slug)).collect(),
        steps: Vec::new(),
    };
    // Ids are kept as sent, so one with blanks around it is found as it is; others may have been pasted with them (D40).
    search.run(query.id, query.with_emails).await?;
    if search.steps.is_empty() && query.id.trim() != query.id {
        search.run(query.id.trim(), query.with_emails).await?;
    }
    let mut steps = search.steps;
    steps.sort_by_key(|step| step.at);
    steps.dedup();
    Ok(steps)
}

struct Search<'c> {
    client: &'c Client,
    ids: Vec<Uuid>,
    slugs: HashMap<TenantId, String>,
    steps: Vec<FoundStep>,
}

impl Search<'_> {
    async fn run(&mut self, id: &str, with_emails: bool) -> Result<()> {
        let mut applied = store::found::applied(self.client, &self.ids, id).await?;
        let mut outbound = Vec::new();
        let traced = TraceContext::parse(id).map(|context| context.trace_id.as_uuid());
        if let Some(uuid) = traced.or_else(|| Uuid::try_parse(id).ok()) {
            // A trace id has the form of a UUID; that of a request without a trace of its caller is the request's id.
            applied.extend(self.applied_of_request(uuid).await?);
            applied.extend(store::found::applied_of_trace(self.client, &self.ids, uuid).await?);
            outbound.extend(store::found::outbound(self.client, &self.ids, uuid).await?);
            outbound.extend(self.outbound_of_delivery(uuid).await?);
            if let Some(refused) = store::refused_requests::find(self.client, &self.ids, uuid).await? {
                self.add_refused(&refused);
            }
            if let Some(lead) = store::found::lead(self.client, &self.ids, uuid).await? {
                applied.extend(self.add_lead(&lead).await?);
            }
            if let Some(found) = store::found::client(self.client, &self.ids, uuid).await? {
                applied.extend(self.add_client(&found).await?);
            }
        }
        for lead in store::found::leads_by_number(self.client, &self.ids, id).await? {
            applied.extend(self.add_lead(&lead).await?);
        }
        for booking in store::found::bookings(self.client, &self.ids, id).await? {
            self.add_booking(id, &booking);
        }
        if let Ok(email) = Email::parse(id)
            && with_emails
        {
            for found in store::found::clients_by_email(self.client, &self.ids, email.key()).await? {
                applied.extend(self.add_client(&found).await?);
            }
        }
        // One event may be found in several ways.
        let mut seen = HashSet::new();
        applied.retain(|event| seen.insert((event.tenant, event.id.clone())));
        for event in &applied {
            self.add_applied(event);
            outbound.extend(self.caused_by(event).await?);
        }
        if let Ok(request) = Uuid::try_parse(id) {
            for (tenant, minute, error) in store::found::failed(self.client, &self.ids, request).await? {
                let detail = "an event of this request failed; its response has each".to_owned();
                let step = self.step(tenant, time_of(request).unwrap_or(minute), "failed", detail);
                self.steps.push(FoundStep { request_id: Some(request), failure: Some(error), ..step });
            }
        }
        let mut seen = HashSet::new();
        outbound.retain(|event| seen.insert(event.id));
        for event in &outbound {
            self.add_outbound(event).await?;
        }
        Ok(())
    }

    async fn applied_of_request(&self, request: Uuid) -> Result<Vec<AppliedEvent>> {
        let Some(at) = time_of(request) else { return Ok(Vec::new()) };
        let times = at - CAUSED_WITHIN..at + APPLIED_WITHIN;
        store::found::applied_of_request(self.client, &self.ids, &times, request).await
    }

    async fn outbound_of_delivery(&self, id: Uuid) -> Result<Vec<OutboundEvent>> {
        match store::deliveries::find(self.client, id).await? {
            Some(delivery) if self.slugs.contains_key(&delivery.tenant) => {
                store::found::outbound(self.client, &[delivery.tenant.0], delivery.event_id).await
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// The outbound events that an event caused, found by its lead and its request. Events of one request about one lead cannot be
    /// told apart.
    async fn caused_by(&self, event: &AppliedEvent) -> Result<Vec<OutboundEvent>> {
        let ids = first_id(event.applied_at - CAUSED_WITHIN)..first_id(event.applied_at + CAUSED_WITHIN);
        store::found::caused(self.client, event, &ids).await
    }

    fn step(&self, tenant: TenantId, at: DateTime<Utc>, stage: &'static str, detail: String) -> FoundStep {
        let tenant = self.slugs.get(&tenant).cloned().unwrap_or_default();
        FoundStep { at, stage, detail, tenant, ..FoundStep::default() }
    }

    fn add_applied(&mut self, event: &AppliedEvent) {
        let about = |step: FoundStep| FoundStep {
            event_id: Some(event.id.clone()),
            request_id: Some(event.request),
            client_id: event.client,
            lead_id: event.lead,
            ..step
        };
        if let Some(at) = time_of(event.request) {
            let detail = format!("request with key {}", event.key);
            self.steps.push(about(self.step(event.tenant, at, "received", detail)));
        }
        let mut detail = event.event_type.clone();
        if !event.warnings.is_empty() {
            detail.push_str(&format!(", warnings: {}", event.warnings.join(", ")));
        }
        self.steps.push(about(self.step(event.tenant, event.applied_at, "applied", detail)));
    }

    async fn add_outbound(&mut self, event: &OutboundEvent) -> Result<()> {
        let about =
            |step: FoundStep| FoundStep { event_id: Some(event.id.to_string()), request_id: event.request, ..step };
        // A delivery's id has the time of its event's id.
        let first = first_id(time_of(event.id).unwrap_or(event.created_at));
        let ids = first..Uuid::from_u128(first.as_u128() + (1 << 80));
        let selected = Selected { ids, subscription: None, state: None, event_type: None };
        let (mut found, _) = store::deliveries::page(self.client, event.tenant, &selected, DELIVERIES_MAX).await?;
        // Oldest first.
        found.reverse();
        found.retain(|delivery| delivery.event_id == event.id);
        store::deliveries::load_attempts(self.client, event.tenant, &mut found, false).await?;
        let what = if found.is_empty() {
            "sent to nobody so far; a subscription gets no event that its own key caused"
        } else {
            "to be sent"
        };
        self.steps.push(about(self.step(
            event.tenant,
            event.created_at,
            "outbox",
            format!("{} {what}", event.event_type),
        )));
        set_urls(self.client, event.tenant, &mut found).await?;
        let subscriptions = match self.slugs.get(&event.tenant) {
            Some(slug) if found.iter().any(|one| one.state == DeliveryState::Pending) => {
                subscriptions::list(self.client, slug, None, u32::MAX).await?.items
            }
            _ => Vec::new(),
        };
        for delivery in &found {
            let of_delivery = subscriptions.iter().find(|one| one.id == delivery.subscription_id);
            let is_paused = of_delivery.is_some_and(|one| one.state == SubscriptionState::Paused);
            self.add_delivery(delivery, is_paused);
        }
        Ok(())
    }

    fn add_delivery(&mut self, delivery: &Delivery, is_paused: bool) {
        let about = |step: FoundStep| FoundStep {
            event_id: Some(delivery.event_id.to_string()),
            delivery_id: Some(delivery.id),
            subscription_id: Some(delivery.subscription_id),
            receiver: Some(delivery.url.clone()),
            ..step
        };
        let now = match delivery.state {
            DeliveryState::Pending if is_paused => "waiting until the subscription is resumed",
            DeliveryState::Pending if delivery.attempts.is_empty() => "waiting",
            DeliveryState::Pending => "retrying",
            DeliveryState::Delivered => "delivered",
            DeliveryState::DeadLettered => "failed for good",
            DeliveryState::Dropped => "dropped",
        };
        let detail =
            format!("{}, now {now}", delivery.event_type.as_deref().unwrap_or("an event that is no longer stored"));
        self.steps.push(about(self.step(delivery.tenant, delivery.created_at, "delivery", detail)));
        for (number, attempt) in (1..).zip(&delivery.attempts) {
            let to = attempt.url.as_ref().map_or_else(String::new, |former| format!(" to {former}"));
            let detail = format!("number {number}{to}: {}, {} ms", attempt.outcome(), attempt.duration_ms);
            let failure = (!attempt.is_success()).then(|| match attempt.status {
                Some(status) => status.to_string(),
                None => "no response".to_owned(),
            });
            let step = about(self.step(delivery.tenant, attempt.at, "attempt", detail));
            let receiver = attempt.url.clone().or(step.receiver.clone());
            self.steps.push(FoundStep { failure, receiver, ..step });
        }
        let next = delivery.next_attempt_at.as_deref().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
        if let (DeliveryState::Pending, Some(at), false) = (delivery.state, next, is_paused) {
            let (at, detail) = (at.with_timezone(&Utc), format!("number {}", delivery.attempts.len() + 1));
            self.steps.push(about(self.step(delivery.tenant, at, "next attempt", detail)));
        }
    }

    /// Returns the events of the lead.
    async fn add_lead(&mut self, lead: &store::found::FoundLead) -> Result<Vec<AppliedEvent>> {
        let detail = format!("enquiry {} opened, now at stage {}", lead.number, lead.stage);
        let step = self.step(lead.tenant, lead.created_at, "lead", detail);
        self.steps.push(FoundStep { lead_id: Some(lead.id), client_id: Some(lead.client), ..step });
        store::found::applied_of_client(self.client, lead.tenant, lead.client, Some(lead.id)).await
    }

    fn add_refused(&mut self, refused: &RefusedRequest) {
        let RefusedRequest { method, route, status, reason, detail, key_prefix, .. } = refused;
        let detail = detail.as_ref().map_or_else(String::new, |detail| format!(" ({detail})"));
        let told = format!("{method} {route} with key {key_prefix} got {status}: {reason}{detail}");
        let step = self.step(refused.tenant, refused.at, "refused", told);
        let failure = Some(status.to_string());
        self.steps.push(FoundStep { request_id: Some(refused.request_id), failure, ..step });
    }

    /// Returns the newest events of the client.
    async fn add_client(&mut self, found: &store::found::FoundClient) -> Result<Vec<AppliedEvent>> {
        let step = self.step(found.tenant, found.created_at, "client", "client created".to_owned());
        self.steps.push(FoundStep { client_id: Some(found.id), ..step });
        store::found::applied_of_client(self.client, found.tenant, found.id, None).await
    }

    fn add_booking(&mut self, reference: &str, booking: &store::found::FoundBooking) {
        let mut add = |at, what: &str| {
            let step = self.step(booking.tenant, at, "booking", format!("booking {reference} {what}"));
            self.steps.push(FoundStep { lead_id: Some(booking.lead), client_id: Some(booking.client), ..step });
        };
        add(booking.created_at, "recorded");
        if let Some(at) = booking.cancelled_at {
            add(at, "cancelled");
        }
    }
}

/// The time in a UUIDv7.
fn time_of(id: Uuid) -> Option<DateTime<Utc>> {
    let (seconds, nanoseconds) = id.get_timestamp().filter(|_| id.get_version_num() == 7)?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanoseconds)
}
