//! `POST /clients` and `PATCH /clients/{clientId}`.

use super::{Record, check_version};
use crate::rules::contact::{self, ContactIdentity};
use crate::rules::{Context, Warnings, company};
use crate::state::{Client, ClientType, Roster, TenantState};
use common::model::ClientId;
use common::record::{ClientBody, Line};
use common::write::{IfMatch, WriteRefusal};

/// Creates a client. The identity is matched like that of an event, and must not match any client (D10, D21a).
pub(super) fn create(
    state: &mut TenantState, body: &ClientBody, ctx: &mut Context<'_>,
) -> Result<Record, WriteRefusal> {
    let identity = identity(body);
    if identity.key().is_none() {
        return Err(WriteRefusal::IdentityRequired);
    }
    if let Some(existing) = contact::find(state, &identity) {
        return Err(WriteRefusal::ClientExists { client_id: existing.id });
    }
    check_free(state, &identity, None)?;
    let id = contact::upsert(state, &identity, &mut Warnings::default(), ctx);
    // Not `contact::change`: a new record has one version.
    state.change_client(id, |client| {
        let of_account = client.company.take();
        fill(client, body);
        // A person on a company account has the account's name (D13).
        client.company = of_account.or(client.company.take());
    });
    set_roster(state, id, body);
    Ok(Record::Client(id))
}

/// Changes the fields that were sent.
pub(super) fn change(
    state: &mut TenantState, id: ClientId, body: &ClientBody, if_match: Option<&IfMatch>, ctx: &mut Context<'_>,
) -> Result<Record, WriteRefusal> {
    let client = state.client(id).ok_or(WriteRefusal::NotFound)?;
    check_version(if_match, client.updated_at)?;
    let identity = identity(body);
    if client.client_type == ClientType::Company && identity.key().is_some() {
        // Accounts are found by their domain and never matched like persons (D13).
        let faults = "a company account takes no email, phone or externalId".to_owned();
        return Err(WriteRefusal::InvalidRequest { faults });
    }
    check_free(state, &identity, Some(id))?;
    let account = identity.email.and_then(|email| company::account_of(state, email));
    let has_new_roster = roster_differs(state, id, body);
    contact::change(state, id, ctx.now, |client| {
        fill(client, body);
        if let Some(account) = &account {
            account.add_person(client);
        }
        if has_new_roster {
            // The roster is part of the client, so the client's version increases.
            client.updated_at = common::version::next_version(client.updated_at, ctx.now);
        }
    });
    if let Some(account) = &account {
        company::add_client_as_contact(state, account.id, id, &identity, ctx.now);
    } else if identity.email.is_none() && (identity.name.is_some() || identity.phone.is_some()) {
        company::patch_contact(state, id, &identity, ctx.now);
    }
    set_roster(state, id, body);
    Ok(Record::Client(id))
}

fn identity(body: &ClientBody) -> ContactIdentity<'_> {
    ContactIdentity {
        email: body.email.get(),
        phone: body.phone.get(),
        external_id: body.external_id.get().map(Line::as_str),
        name: body.name.get().map(Line::as_str),
    }
}

/// Refuses an email or external id of another client: both are unique within the tenant (D10).
fn check_free(state: &TenantState, identity: &ContactIdentity<'_>, own: Option<ClientId>) -> Result<(), WriteRefusal> {
    let by_email = identity.email.and_then(|email| state.client_by_email(email.key()));
    let by_external_id = identity.external_id.and_then(|id| state.client_by_external_id(id));
    match [by_email, by_external_id].into_iter().flatten().find(|holder| Some(holder.id) != own) {
        Some(holder) => Err(WriteRefusal::IdentityTaken { client_id: holder.id }),
        None => Ok(()),
    }
}

/// Sets the fields that were sent.
fn fill(client: &mut Client, body: &ClientBody) {
    if let Some(name) = body.name.get() {
        name.as_str().clone_into(&mut client.name);
    }
    if let Some(email) = body.email.get() {
        client.email = Some(email.clone());
    }
    if let Some(phone) = body.phone.get() {
        client.phone = Some(phone.clone());
    }
    if let Some(company) = body.company.get() {
        client.company = Some(company.as_str().to_owned());
    }
    if let Some(external_id) = body.external_id.get() {
        client.external_id = Some(external_id.as_str().to_owned());
    }
    if let Some(opt_in) = body.marketing_opt_in.get() {
        client.marketing_opt_in = *opt_in;
    }
}

fn roster_differs(state: &TenantState, id: ClientId, body: &ClientBody) -> bool {
    let Some(sent) = body.travelers.get() else { return false };
    let before = state.rosters.get(&id).map_or(&[][..], |roster| &roster.travelers);
    Roster::from_body(sent.as_slice()) != before
}

/// Replaces the whole roster, if one was sent and differs.
fn set_roster(state: &mut TenantState, client_id: ClientId, body: &ClientBody) {
    if !roster_differs(state, client_id, body) {
        return;
    }
    let Some(sent) = body.travelers.get() else { return };
    let travelers = Roster::from_body(sent.as_slice());
    match state.rosters.change(&client_id) {
        Some(roster) => roster.travelers = travelers,
        None => state.rosters.insert(client_id, Roster { client_id, travelers }),
    }
}

#[cfg(test)]
mod tests;
