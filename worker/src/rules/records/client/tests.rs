use crate::rules::testing::World;
use chrono::TimeDelta;
use common::model::ClientId;
use common::write::WriteRefusal;
use serde_json::{Value, json};

fn ana() -> Value {
    json!({"email": "Ana@Example.com", "externalId": "p-1", "phone": "+91 98", "name": "Ana"})
}

#[test]
fn a_client_without_a_name_is_named_after_what_identifies_it() {
    let mut world = World::new();
    for (body, name) in [
        (json!({"email": "Bo@example.com", "phone": "1", "externalId": "x"}), "Bo@example.com"),
        (json!({"phone": "2", "externalId": "y"}), "2"),
        (json!({"externalId": "z"}), "z"),
    ] {
        assert_eq!(world.post_client(body).unwrap()["name"], name);
    }
}

#[test]
fn a_change_without_a_difference_keeps_the_version() {
    let mut world = World::new();
    let mut body = ana();
    body["travelers"] = json!([{"name": "Bo"}]);
    let client = world.post_client(body.clone()).unwrap();
    world.now += TimeDelta::seconds(1);
    for same in [json!({}), body, json!({"travelers": [{"name": "Bo", "type": "adult"}]})] {
        assert_eq!(world.patch_client(&client, same).unwrap(), client);
    }
}

/// Name, phone and client of an entry on an account.
fn entry(world: &World, account: ClientId, email: &str) -> Option<(Option<String>, Option<String>, Value)> {
    let entry = world.state.account_contacts.get(&(account, email.to_owned()))?;
    let phone = entry.phone.as_ref().map(|phone| phone.as_str().to_owned());
    Some((entry.name.clone(), phone, json!(entry.client_id)))
}

#[test]
fn a_client_on_an_accounts_domain_joins_it_when_created_and_when_changed() {
    let mut world = World::new();
    let account = world.account("Initech", "initech.com");
    let made = world.post_client(json!({"email": "Ana@Initech.com", "name": "Ana", "company": "Hers"})).unwrap();
    assert_eq!((&made["company"], &made["clientType"]), (&json!("Initech"), &json!("individual")));
    let other = world.post_client(json!({"externalId": "p-1", "company": "Elsewhere"})).unwrap();
    assert_eq!(other["company"], "Elsewhere");
    let moved = world.patch_client(&other, json!({"email": "bo@initech.com", "phone": "5"})).unwrap();
    assert_eq!(moved["company"], "Initech");
    for (email, client, name, phone) in
        [("ana@initech.com", &made, Some("Ana"), None), ("bo@initech.com", &moved, None, Some("5"))]
    {
        let expected = (name.map(str::to_owned), phone.map(str::to_owned), client["id"].clone());
        assert_eq!(entry(&world, account, email), Some(expected));
    }
    // The label is theirs to change afterwards.
    assert_eq!(world.patch_client(&made, json!({"company": "Hers"})).unwrap()["company"], "Hers");
}

#[test]
fn a_colleagues_entry_is_updated_with_name_and_phone_as_by_events() {
    let mut world = World::new();
    let account = world.account("Initech", "initech.com");
    let ana = world.post_client(json!({"email": "ana@initech.com", "name": "Ana"})).unwrap();
    world.patch_client(&ana, json!({"name": "Ana S", "phone": "5"})).unwrap();
    let expected = (Some("Ana S".to_owned()), Some("5".to_owned()), ana["id"].clone());
    assert_eq!(entry(&world, account, "ana@initech.com"), Some(expected.clone()));
    world.patch_client(&ana, json!({"email": "ana@example.com", "name": "A"})).unwrap();
    world.patch_client(&ana, json!({"name": "A S"})).unwrap();
    world.send("contact.updated", json!({"email": "ana@example.com", "phone": "6"}), json!({}));
    assert_eq!(entry(&world, account, "ana@example.com"), None, "another domain's address is not listed");
    assert_eq!(entry(&world, account, "ana@initech.com"), Some(expected));
}

#[test]
fn a_company_account_refuses_personal_identities() {
    let mut world = World::new();
    let account = json!({"id": world.account("Initech", "initech.com")});
    for body in [json!({"email": "a@b.co"}), json!({"phone": "1"}), json!({"externalId": "x"})] {
        let refused = world.patch_client(&account, body);
        assert!(matches!(refused, Err(WriteRefusal::InvalidRequest { .. })), "{refused:?}");
    }
    assert_eq!(world.patch_client(&account, json!({"name": "Initech Ltd"})).unwrap()["name"], "Initech Ltd");
}
