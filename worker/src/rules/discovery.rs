//! `traveller.discovery_upserted`: what a traveler is looking for (specification: Inbound event types; D15a).

use super::new_lead::{self, NewLead};
use super::payload::{
    FieldReader, FieldResult, Payload, Rejected, as_sent, parse, trimmed, verbatim, verbatim_or_blank,
};
use super::warnings::{DISCOVERY_FAILED, DISCOVERY_FIELD, DISCOVERY_NOT_ENABLED};
use super::{Context, Event, EventEffects, Refusal, Warnings, brief, contact, lead};
use crate::state::{Discovery, TenantState, TravellerProfile};
use chrono::{DateTime, Utc};
use common::model::{ClientId, DiscoveryId, LeadId, text};
use common::version::next_version;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

type Checks = [(&'static str, fn(&RawValue) -> FieldResult<Value>)];

const DISCOVERY: &Checks = &[
    ("destinationInterest", destinations),
    ("dateRange", date_range),
    ("pax", pax),
    ("tripNotes", |raw| any_text(raw, text::MESSAGE)),
];
const PROFILE: &Checks = &[("constraints", constraints), ("styleDefaults", object)];

/// Upserts the contact, reuses the open lead or opens one, and stores the discovery if it is enabled. The event is accepted
/// even if the discovery part is not stored.
pub(super) fn apply_upserted(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let payload = event.payload()?;
    let mut warnings = Warnings::default();
    let client_id = contact::upsert(state, &event.identity(), &mut warnings, ctx);
    let lead_id = match state.open_lead(client_id) {
        Some(open) => open.id,
        None => new_lead::open(state, NewLead::for_client(client_id), &event.cause(), ctx)?.lead_id,
    };
    let discovery_id = record(state, (client_id, lead_id), &payload, &mut warnings, ctx);
    let trip_id = lead::trip_id(state, lead_id);
    Ok(EventEffects { client_id, lead_id: Some(lead_id), trip_id, discovery_id, warnings })
}

/// The id of the record that the caller wants to update.
pub(crate) fn discovery_id(raw: &RawValue) -> FieldResult<DiscoveryId> {
    let id = trimmed(usize::MAX)(raw)?;
    id.map(|id| DiscoveryId::parse(&id).ok_or(Rejected)).transpose()
}

fn record(
    state: &mut TenantState, (client_id, lead_id): (ClientId, LeadId), payload: &Payload<'_>, warnings: &mut Warnings,
    ctx: &mut Context<'_>,
) -> Option<DiscoveryId> {
    if !state.tenant.discovery_enabled {
        warnings.push(DISCOVERY_NOT_ENABLED);
        return None;
    }
    if ctx.skip_discovery {
        warnings.push(DISCOVERY_FAILED);
        return None;
    }
    let mut fields = FieldReader { payload, kind: DISCOVERY_FIELD, warnings };
    let discovery = part(&mut fields, "discovery", DISCOVERY);
    let profile = part(&mut fields, "profilePatch", PROFILE);
    let essence = fields.field("essence", verbatim_or_blank(text::MESSAGE));
    let of_client = |raw: &RawValue| match discovery_id(raw)? {
        Some(id) if state.discoveries.get(&id).is_none_or(|record| record.client_id != client_id) => Err(Rejected),
        id => Ok(id),
    };
    let named = fields.field("hosTripDiscoveryId", of_client);
    merge_profile(state, client_id, profile, essence, ctx.now);
    let of_lead = || state.discoveries.values().find(|record| record.lead_id == lead_id).map(|record| record.id);
    let known = named.or_else(of_lead);
    Some(match known {
        Some(id) => merge(state, id, discovery, ctx.now),
        None => create(state, (client_id, lead_id), discovery, ctx),
    })
}

/// The known and valid fields of an object in the payload.
fn part(fields: &mut FieldReader<'_, '_>, name: &str, checks: &Checks) -> Map<String, Value> {
    let Some(part) = fields.field(name, |raw| Payload::object(raw).map(Some)) else { return Map::new() };
    let mut fields = FieldReader { payload: &part, kind: fields.kind, warnings: fields.warnings };
    let read = checks.iter().filter_map(|(field, check)| Some(((*field).to_owned(), fields.field(field, check)?)));
    read.collect()
}

fn create(
    state: &mut TenantState, (client_id, lead_id): (ClientId, LeadId), discovery: Map<String, Value>,
    ctx: &mut Context<'_>,
) -> DiscoveryId {
    let id = DiscoveryId((ctx.next_id)());
    let (discovery, now) = (Value::Object(discovery), ctx.now);
    state.discoveries.insert(id, Discovery { id, client_id, lead_id, discovery, created_at: now, updated_at: now });
    id
}

/// Merges field by field: a sent field replaces the stored one.
fn merge(state: &mut TenantState, id: DiscoveryId, sent: Map<String, Value>, now: DateTime<Utc>) -> DiscoveryId {
    let merged = state.discoveries.get(&id).and_then(|record| merged(&record.discovery, sent));
    if let Some(merged) = merged
        && let Some(record) = state.discoveries.change(&id)
    {
        record.discovery = merged;
        record.updated_at = next_version(record.updated_at, now);
    }
    id
}

fn merge_profile(
    state: &mut TenantState, client_id: ClientId, sent: Map<String, Value>, essence: Option<String>, now: DateTime<Utc>,
) {
    if sent.is_empty() && essence.is_none() {
        return;
    }
    let Some(stored) = state.profiles.get(&client_id) else {
        let profile = Value::Object(sent);
        state.profiles.insert(client_id, TravellerProfile { client_id, profile, essence, updated_at: now });
        return;
    };
    let merged = merged(&stored.profile, sent);
    let essence = essence.filter(|essence| stored.essence.as_ref() != Some(essence));
    if merged.is_none() && essence.is_none() {
        return;
    }
    if let Some(stored) = state.profiles.change(&client_id) {
        stored.profile = merged.unwrap_or(stored.profile.take());
        stored.essence = essence.or(stored.essence.take());
        stored.updated_at = next_version(stored.updated_at, now);
    }
}

/// The stored fields with the sent ones; `None` if nothing changes.
fn merged(stored: &Value, sent: Map<String, Value>) -> Option<Value> {
    let mut merged = stored.as_object().cloned().unwrap_or_default();
    merged.extend(sent);
    Some(Value::Object(merged)).filter(|merged| merged != stored)
}

/// The value as sent, provided that `read` accepts it and it is not blank.
fn sent_value<T>(raw: &RawValue, read: impl Fn(&RawValue) -> FieldResult<T>) -> FieldResult<Value> {
    if read(raw)?.is_some() { as_sent(raw) } else { Ok(None) }
}

/// A text, kept as sent. An empty text is stored as well: callers send it to delete a text.
fn any_text(raw: &RawValue, max: usize) -> FieldResult<Value> {
    sent_value(raw, verbatim_or_blank(max))
}

/// A text that is not blank, or a list of up to 50 such texts.
fn destinations(raw: &RawValue) -> FieldResult<Value> {
    let named = |raw: &RawValue| verbatim(text::LINE)(raw)?.map(Some).ok_or(Rejected);
    if raw.get().starts_with('[') { list(raw, named) } else { sent_value(raw, named) }
}

/// Valid travel dates, or free text.
fn date_range(raw: &RawValue) -> FieldResult<Value> {
    if raw.get().starts_with('{') { sent_value(raw, brief::travel_dates) } else { any_text(raw, text::DATES) }
}

/// A number of people, or a party.
fn pax(raw: &RawValue) -> FieldResult<Value> {
    if raw.get().starts_with('{') { sent_value(raw, brief::party) } else { sent_value(raw, brief::count) }
}

/// A text, a list of texts, or an object.
fn constraints(raw: &RawValue) -> FieldResult<Value> {
    match raw.get().as_bytes().first() {
        Some(b'{') => object(raw),
        Some(b'[') => list(raw, verbatim_or_blank(text::NOTES)),
        _ => any_text(raw, text::NOTES),
    }
}

fn object(raw: &RawValue) -> FieldResult<Value> {
    Payload::object(raw)?;
    if raw.get().len() <= text::PROFILE_BYTES { as_sent(raw) } else { Err(Rejected) }
}

/// A list of texts, each accepted by `read`.
fn list(raw: &RawValue, read: impl Fn(&RawValue) -> FieldResult<String>) -> FieldResult<Value> {
    let texts: Vec<&RawValue> = parse(raw)?;
    let readable = texts.len() <= text::LIST_ITEMS && texts.iter().all(|text| read(text).is_ok());
    if readable { as_sent(raw) } else { Err(Rejected) }
}

#[cfg(test)]
mod tests;
