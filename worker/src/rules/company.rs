//! Company accounts and the colleagues listed on them (D13).

use super::contact::ContactIdentity;
use crate::state::{AccountContact, Client, TenantState};
use chrono::{DateTime, Utc};
use common::model::{ClientId, Email, is_free_mailbox};
use common::version::next_version;

/// The fields of a company account that its people take over.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Client id of the account, which is a client with `clientType` = `company`.
    pub(crate) id: ClientId,
    pub(crate) name: String,
}

impl Account {
    /// Assigns a person to the account, unless they belong to one already.
    pub(crate) fn add_person(&self, client: &mut Client) {
        if client.account_id.is_none() {
            client.account_id = Some(self.id);
            client.company = Some(self.name.clone());
        }
    }
}

/// The account of an email's domain. A free mailbox domain never belongs to a company (D13).
pub(crate) fn account_of(state: &TenantState, email: &Email) -> Option<Account> {
    if is_free_mailbox(email.domain()) {
        return None;
    }
    let account = state.account_by_domain(email.domain())?;
    Some(Account { id: account.id, name: account.name.clone() })
}

/// Adds a client to the contacts of an account, under the email that was sent. Name and phone are updated if they were sent.
pub(crate) fn add_client_as_contact(
    state: &mut TenantState, account: ClientId, client: ClientId, identity: &ContactIdentity<'_>, now: DateTime<Utc>,
) {
    let Some(email) = identity.email else { return };
    upsert_contact(state, account, email, now, |contact| {
        patch(contact, identity);
        contact.client_id = Some(client);
    });
}

/// Applies a change of a client on an account to their contact there as well, if their address is listed: it may have moved to
/// another domain.
pub(crate) fn patch_contact(
    state: &mut TenantState, client: ClientId, identity: &ContactIdentity<'_>, now: DateTime<Utc>,
) {
    let Some((account, email)) = state.client(client).and_then(|client| client.account_id.zip(client.email.clone()))
    else {
        return;
    };
    if state.account_contacts.get(&(account, email.key().to_owned())).is_some() {
        upsert_contact(state, account, &email, now, |contact| {
            patch(contact, identity);
            contact.client_id = Some(client);
        });
    }
}

/// Applies a `contact.updated` of a person who is not a client: if their email's domain has an account, their contact there
/// is added or changed. Returns the account; `None`, without a change, if there is none.
pub(crate) fn add_stranger_as_contact(
    state: &mut TenantState, identity: &ContactIdentity<'_>, now: DateTime<Utc>,
) -> Option<ClientId> {
    let email = identity.email?;
    let account = account_of(state, email)?;
    upsert_contact(state, account.id, email, now, |contact| patch(contact, identity));
    Some(account.id)
}

/// Sets name and phone, if they were sent.
fn patch(contact: &mut AccountContact, identity: &ContactIdentity<'_>) {
    contact.name = identity.name.map(str::to_owned).or(contact.name.take());
    contact.phone = identity.phone.cloned().or(contact.phone.take());
}

/// Adds or changes a contact. Its version increases only if a field is different afterwards.
fn upsert_contact(
    state: &mut TenantState, account: ClientId, email: &Email, now: DateTime<Utc>,
    change: impl FnOnce(&mut AccountContact),
) {
    let key = (account, email.key().to_owned());
    let Some(before) = state.account_contacts.get(&key) else {
        let mut contact = new_entry(account, email, now);
        change(&mut contact);
        state.account_contacts.insert(key, contact);
        return;
    };
    let mut after = before.clone();
    change(&mut after);
    if after != *before {
        after.updated_at = next_version(before.updated_at, now);
        state.account_contacts.change(&key).into_iter().for_each(|contact| contact.clone_from(&after));
    }
}

fn new_entry(account_id: ClientId, email: &Email, now: DateTime<Utc>) -> AccountContact {
    let (created_at, updated_at) = (now, now);
    AccountContact {
        account_id,
        email: email.clone(),
        name: None,
        phone: None,
        client_id: None,
        created_at,
        updated_at,
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::testing::World;
    use common::model::ClientId;
    use serde_json::{Value, json};

    fn entry(
        world: &World, account: ClientId, email: &str,
    ) -> Option<(Option<String>, Option<String>, Option<ClientId>)> {
        let contact = world.state.account_contacts.get(&(account, email.to_owned()))?;
        let phone = contact.phone.as_ref().map(|phone| phone.as_str().to_owned());
        Some((contact.name.clone(), phone, contact.client_id))
    }

    fn identify(world: &mut World, actor: Value) -> ClientId {
        world.send("contact.identified", actor, json!({})).client_id.unwrap()
    }

    #[test]
    fn a_client_from_before_the_account_joins_it_with_their_next_event() {
        let mut world = World::new();
        let ana = identify(&mut world, json!({"email": "ana@initech.com"}));
        assert_eq!(world.client(ana).account_id, None);
        let account = world.account("Initech", "initech.com");
        world.send("trip.planning_started", json!({"email": "ana@initech.com"}), json!({}));
        assert_eq!(world.client(ana).account_id, Some(account));
        assert!(world.client(ana).updated_at > world.client(ana).created_at);
        assert_eq!(entry(&world, account, "ana@initech.com"), Some((None, None, Some(ana))));
    }

    #[test]
    fn a_member_of_an_account_keeps_it_and_a_label_set_later() {
        let mut world = World::new();
        let account = world.account("Initech", "initech.com");
        let ana = identify(&mut world, json!({"email": "ana@initech.com"}));
        world.state.change_client(ana, |client| client.company = Some("Initech GmbH".to_owned()));
        let version = world.client(ana).updated_at;
        identify(&mut world, json!({"email": "ana@initech.com"}));
        let client = world.client(ana);
        assert_eq!((client.account_id, client.company.as_deref()), (Some(account), Some("Initech GmbH")));
        assert_eq!(client.updated_at, version);
    }

    #[test]
    fn a_free_mailbox_is_no_company_domain() {
        let mut world = World::new();
        world.account("Odd", "gmail.com");
        let ana = identify(&mut world, json!({"email": "ana@gmail.com"}));
        assert_eq!(world.client(ana).account_id, None);
        let failed = world.send("contact.updated", json!({"email": "bob@gmail.com", "name": "Bob"}), json!({}));
        assert_eq!(failed.error.as_deref(), Some("contact_not_found"));
    }

    #[test]
    fn fields_that_were_not_sent_stay_on_an_accounts_entry() {
        let mut world = World::new();
        let account = world.account("Initech", "initech.com");
        let ana = identify(&mut world, json!({"email": "ana@initech.com", "name": "Ana", "phone": "12"}));
        identify(&mut world, json!({"email": "ANA@initech.com", "phone": "34"}));
        let listed = entry(&world, account, "ana@initech.com");
        assert_eq!(listed, Some((Some("Ana".to_owned()), Some("34".to_owned()), Some(ana))));
    }

    #[test]
    fn contact_updated_of_a_client_on_an_account_changes_both() {
        let mut world = World::new();
        let account = world.account("Initech", "initech.com");
        let ana = identify(&mut world, json!({"email": "ana@initech.com", "externalId": "x-1"}));
        let result =
            world.send("contact.updated", json!({"externalId": "x-1", "name": "Ana B", "phone": "7"}), json!({}));
        assert_eq!(result.client_id, Some(ana));
        assert_eq!(world.client(ana).name, "Ana B");
        let listed = entry(&world, account, "ana@initech.com");
        assert_eq!(listed, Some((Some("Ana B".to_owned()), Some("7".to_owned()), Some(ana))));
    }

    #[test]
    fn a_listed_person_who_becomes_a_client_keeps_their_entry() {
        let mut world = World::new();
        let account = world.account("Initech", "initech.com");
        world.send("contact.updated", json!({"email": "bob@initech.com", "name": "Bob"}), json!({}));
        let bob = identify(&mut world, json!({"email": "bob@initech.com"}));
        assert_eq!(world.client(bob).name, "bob@initech.com");
        let expected = Some((Some("Bob".to_owned()), None, Some(bob)));
        assert_eq!(entry(&world, account, "bob@initech.com"), expected);
    }
}
