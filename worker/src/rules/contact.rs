//! Matches, creates and updates the client whom an event is about (D10, D13).

use super::{Context, Event, EventEffects, Refusal, Warnings, company, warnings};
use crate::state::{Client, ClientType, TenantState};
use chrono::{DateTime, Utc};
use common::event::Actor;
use common::model::{ClientId, Email, Phone, text};
use common::version::next_version;

/// A person as a caller names them. At least one of email, phone and external id is present.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContactIdentity<'a> {
    /// The identity that matching tries first.
    pub(crate) email: Option<&'a Email>,
    /// The identity that matching tries last; clients may share it.
    pub(crate) phone: Option<&'a Phone>,
    /// The caller's own id of the person.
    pub(crate) external_id: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

/// The one identity that matching uses (D10), in the form that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MatchKey<'a> {
    /// An email in lower case.
    Email(&'a str),
    /// The caller's own id of the person.
    ExternalId(&'a str),
    /// The digits of a phone number.
    Phone(&'a str),
}

impl<'a> From<&'a Actor> for ContactIdentity<'a> {
    fn from(actor: &'a Actor) -> Self {
        Self {
            email: actor.email.as_ref(),
            phone: actor.phone.as_ref(),
            external_id: actor.external_id.as_deref(),
            name: actor.name.as_deref(),
        }
    }
}

impl<'a> ContactIdentity<'a> {
    /// The identity to match by: the first one of email, external id and phone that was sent (D10).
    pub(crate) fn key(&self) -> Option<MatchKey<'a>> {
        let email = self.email.map(|email| MatchKey::Email(email.key()));
        let external_id = || self.external_id.map(MatchKey::ExternalId);
        let phone = || self.phone.map(|phone| MatchKey::Phone(phone.digits()));
        email.or_else(external_id).or_else(phone)
    }

    /// The name of a new client; without a name its first identity.
    fn label(&self) -> &'a str {
        let email = || self.email.map(Email::as_str);
        let phone = || self.phone.map(Phone::as_str);
        self.name.or_else(email).or_else(phone).or(self.external_id).unwrap_or_default()
    }
}

/// The client that matches an identity (D10). A phone matches the oldest client that has it.
pub(crate) fn find<'s>(state: &'s TenantState, identity: &ContactIdentity<'_>) -> Option<&'s Client> {
    match identity.key()? {
        MatchKey::Email(key) => state.client_by_email(key),
        MatchKey::ExternalId(id) => state.client_by_external_id(id),
        MatchKey::Phone(digits) => state.client_by_phone(digits),
    }
}

/// Creates the client or updates the matched one, and joins it to its company's account
/// (specification: `contact.identified`; D10, D13).
pub(crate) fn upsert(
    state: &mut TenantState, identity: &ContactIdentity<'_>, warnings: &mut Warnings, ctx: &mut Context<'_>,
) -> ClientId {
    let matched = find(state, identity).map(|client| client.id);
    let external_id = free_external_id(state, identity, matched, warnings);
    let account = identity.email.and_then(|email| company::account_of(state, email));
    let complete = |client: &mut Client| {
        client.external_id = external_id.map(str::to_owned).or(client.external_id.take());
        if let Some(account) = &account {
            account.add_person(client);
        }
    };
    let client_id = match matched {
        Some(id) => {
            change(state, id, ctx.now, |client| {
                patch(client, identity);
                complete(client);
            });
            id
        }
        None => {
            let mut client = new(identity, ctx);
            complete(&mut client);
            let id = client.id;
            state.add_client(client);
            id
        }
    };
    if let Some(account) = &account {
        company::add_client_as_contact(state, account.id, client_id, identity, ctx.now);
    }
    client_id
}

/// Changes a client. Its version increases only if a field is different afterwards (D19).
pub(crate) fn change(state: &mut TenantState, id: ClientId, now: DateTime<Utc>, change: impl FnOnce(&mut Client)) {
    let Some(before) = state.client(id) else { return };
    let mut after = before.clone();
    change(&mut after);
    if after != *before {
        after.updated_at = next_version(before.updated_at, now);
        state.change_client(id, |client| *client = after);
    }
}

/// `contact.identified`, and every event that only upserts the contact and appears on the timeline.
pub(super) fn apply_identified(state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>) -> EventEffects {
    let mut warnings = Warnings::default();
    let client_id = upsert(state, &event.identity(), &mut warnings, ctx);
    EventEffects::for_client(client_id, warnings)
}

/// `contact.updated`: patches name and phone of the matched client, or of a colleague on a company account
/// who is not a client. Never creates a client (D13).
pub(super) fn apply_updated(
    state: &mut TenantState, event: &Event<'_>, ctx: &mut Context<'_>,
) -> Result<EventEffects, Refusal> {
    let identity = event.identity();
    let client_id = match find(state, &identity).map(|client| client.id) {
        Some(client_id) => {
            change(state, client_id, ctx.now, |client| patch(client, &identity));
            company::patch_contact(state, client_id, &identity, ctx.now);
            client_id
        }
        None => company::add_stranger_as_contact(state, &identity, ctx.now).ok_or(Refusal::ContactNotFound)?,
    };
    Ok(EventEffects::for_client(client_id, Warnings::default()))
}

/// Sets name and phone, if they were sent.
fn patch(client: &mut Client, identity: &ContactIdentity<'_>) {
    if let Some(name) = identity.name {
        name.clone_into(&mut client.name);
    }
    if let Some(phone) = identity.phone {
        client.phone = Some(phone.clone());
    }
}

/// The external id that was sent, unless another client has it (D10).
fn free_external_id<'i>(
    state: &TenantState, identity: &ContactIdentity<'i>, own: Option<ClientId>, warnings: &mut Warnings,
) -> Option<&'i str> {
    let external_id = identity.external_id?;
    let holder = state.client_by_external_id(external_id).map(|client| client.id);
    if holder.is_some() && holder != own {
        warnings.push(warnings::IDENTITY_CONFLICT);
        return None;
    }
    Some(external_id)
}

fn new(identity: &ContactIdentity<'_>, ctx: &mut Context<'_>) -> Client {
    Client {
        id: ClientId((ctx.next_id)()),
        name: identity.label().chars().take(text::NAME).collect(),
        email: identity.email.cloned(),
        phone: identity.phone.cloned(),
        company: None,
        external_id: None,
        marketing_opt_in: false,
        client_type: ClientType::Individual,
        company_domain: None,
        account_id: None,
        created_at: ctx.now,
        updated_at: ctx.now,
    }
}

#[cfg(test)]
mod tests;
