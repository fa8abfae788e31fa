use super::super::testing::{client_id, if_match};
use crate::rules::testing::World;
use chrono::TimeDelta;
use common::model::ClientId;
use common::write::{IfMatch, WriteRefusal};
use serde_json::{Value, json};
use uuid::Uuid;

fn ana() -> Value {
    json!({"email": "Ana@Example.com", "externalId": "p-1", "phone": "+91 98", "name": "Ana"})
}

fn exists(client: &Value) -> WriteRefusal {
    WriteRefusal::ClientExists { client_id: client_id(&client["id"]) }
}

fn taken(client: &Value) -> WriteRefusal {
    WriteRefusal::IdentityTaken { client_id: client_id(&client["id"]) }
}

#[test]
fn a_new_client_has_what_was_sent_and_one_version() {
    let mut world = World::new();
    let mut body = ana();
    body["company"] = json!("Silva & Co");
    body["marketingOptIn"] = json!(true);
    body["travelers"] = json!([{"name": "Bo", "type": "child", "age": 7}]);
    let client = world.post_client(body.clone()).unwrap();
    for field in ["email", "externalId", "phone", "name", "company", "marketingOptIn"] {
        assert_eq!(client[field], body[field], "{field}");
    }
    let bo = json!([{"name": "Bo", "type": "child", "age": 7, "email": null, "phone": null}]);
    assert_eq!((&client["travelers"], &client["clientType"]), (&bo, &json!("individual")));
    assert_eq!(client["updatedAt"], client["createdAt"]);
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
fn a_client_without_an_identity_is_refused() {
    let mut world = World::new();
    for body in [json!({}), json!({"name": "Ana", "company": "X", "travelers": []})] {
        assert_eq!(world.post_client(body), Err(WriteRefusal::IdentityRequired));
    }
}

#[test]
fn only_the_first_identity_sent_matches() {
    let mut world = World::new();
    let known = world.post_client(ana()).unwrap();
    for body in [
        json!({"email": "ANA@example.COM"}),
        json!({"email": "ana@example.com", "externalId": "p-new", "phone": "5"}),
        json!({"externalId": "p-1", "phone": "5"}),
        json!({"phone": "(91) 9-8"}),
    ] {
        assert_eq!(world.post_client(body.clone()), Err(exists(&known)), "{body}");
    }
    for body in
        [json!({"email": "b@example.com", "phone": "9198"}), json!({"externalId": "p-2", "phone": "9198"})]
    {
        assert_ne!(world.post_client(body).unwrap()["id"], known["id"]);
    }
}

#[test]
fn a_new_email_with_another_clients_external_id_is_refused() {
    let mut world = World::new();
    let known = world.post_client(ana()).unwrap();
    let refused = world.post_client(json!({"email": "new@example.com", "externalId": "p-1"}));
    assert_eq!(refused, Err(taken(&known)));
}

#[test]
fn a_change_affects_only_the_fields_sent() {
    let mut world = World::new();
    let mut body = ana();
    body["travelers"] = json!([{"name": "Bo"}, {"name": "Cy"}]);
    let mut expected = world.post_client(body).unwrap();
    for (field, value) in [
        ("name", json!("Ana S")),
        ("email", json!("ana2@example.com")),
        ("phone", json!("5")),
        ("company", json!("Other")),
        ("externalId", json!("p-2")),
        ("marketingOptIn", json!(true)),
        ("travelers", json!([])),
    ] {
        let after = world.patch_client(&expected, json!({field: value})).unwrap();
        assert!(after["updatedAt"].as_str() > expected["updatedAt"].as_str(), "{field}");
        expected[field] = value;
        expected["updatedAt"] = after["updatedAt"].clone();
        assert_eq!(after, expected);
    }
    let other = json!({"travelers": [{"name": "Di", "type": "infant", "age": 0}]});
    let after = world.patch_client(&expected, other).unwrap();
    expected["travelers"] = json!([{"name": "Di", "type": "infant", "age": 0, "email": null, "phone": null}]);
    expected["updatedAt"] = after["updatedAt"].clone();
    assert_eq!(after, expected);
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

#[test]
fn versions_increase_when_the_clock_stops_or_goes_back() {
    let mut world = World::new();
    let mut before = world.post_client(ana()).unwrap();
    for (i, step) in [0, 0, -5_000, 1, -1, 60_000].into_iter().enumerate() {
        world.now += TimeDelta::milliseconds(step);
        for body in [json!({"name": format!("A{i}")}), json!({"travelers": [{"name": format!("T{i}")}]})] {
            let after = world.patch_client(&before, body).unwrap();
            assert!(after["updatedAt"].as_str() > before["updatedAt"].as_str(), "{step}");
            before = after;
        }
    }
}

#[test]
fn an_identity_of_another_client_is_refused() {
    let mut world = World::new();
    let known = world.post_client(ana()).unwrap();
    let other = world.post_client(json!({"email": "bo@example.com"})).unwrap();
    for body in [
        json!({"email": "ANA@example.com"}),
        json!({"externalId": "p-1"}),
        json!({"name": "Not even this", "email": "new@example.com", "externalId": "p-1"}),
    ] {
        assert_eq!(world.patch_client(&other, body), Err(taken(&known)));
    }
    // A phone is shared by families, and one's own identity is no conflict.
    let own = json!({"email": "BO@example.com", "phone": "+91 98"});
    assert_eq!(world.patch_client(&other, own).unwrap()["email"], "BO@example.com");
}

#[test]
fn an_identity_that_was_given_up_can_be_reused() {
    let mut world = World::new();
    let known = world.post_client(ana()).unwrap();
    world.patch_client(&known, json!({"email": "a2@example.com", "externalId": "p-2"})).unwrap();
    let other = world.post_client(json!({"email": "ana@example.com", "externalId": "p-1"})).unwrap();
    assert_ne!(other["id"], known["id"]);
}

#[test]
fn a_condition_must_match_the_version() {
    let mut world = World::new();
    let first = world.post_client(ana()).unwrap();
    let second = world.patch_client_if(&first, json!({"name": "B"}), Some(&if_match(&first))).unwrap();
    let stale = WriteRefusal::StaleWrite { updated_at: second["updatedAt"].as_str().unwrap().to_owned() };
    assert_eq!(
        world.patch_client_if(&first, json!({"name": "C"}), Some(&if_match(&first))),
        Err(stale.clone())
    );
    assert_eq!(world.patch_client_if(&first, json!({}), Some(&IfMatch::OneOf(Vec::new()))), Err(stale));
    world.patch_client_if(&first, json!({"name": "D"}), Some(&IfMatch::Any)).unwrap();
    world.patch_client_if(&first, json!({"name": "E"}), None).unwrap();
}

#[test]
fn changing_a_missing_client_is_refused_as_not_found() {
    let mut world = World::new();
    let nobody = json!({"id": Uuid::from_u128(99)});
    assert_eq!(world.patch_client_if(&nobody, json!({}), Some(&IfMatch::Any)), Err(WriteRefusal::NotFound));
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
    let made =
        world.post_client(json!({"email": "Ana@Initech.com", "name": "Ana", "company": "Hers"})).unwrap();
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
