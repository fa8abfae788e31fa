//! Company accounts and their people (D13).

use serde_json::{Value, json};
use tests::{Event, World, event};

/// Makes the account of example.com and gives its client's id.
async fn account(world: &World) -> Value {
    let create =
        ["company", "create", "--tenant", "acme", "--name", "Example Ltd", "--domain", "example.com"];
    world.connectctl.json(&create).await["clientId"].clone()
}

/// The contact entries of an account, by email.
async fn contacts(world: &World, account: &Value) -> Vec<Value> {
    let query = "SELECT email, name, phone, client_id::text FROM account_contacts WHERE account_id::text = $1 ORDER BY email";
    world.database.rows(query, &[&tests::text(account)]).await
}

fn dan(event_type: &str) -> Event {
    event(event_type).email("Dan@Example.com")
}

#[tokio::test]
async fn an_address_on_a_company_domain_joins_that_account() {
    let world = World::shared().await;
    let account = account(&world).await;
    let result = world.accept(dan("contact.identified").name("Dan").phone("111")).await;
    assert_ne!(result["clientId"], account, "a person is a client of their own");
    let client = world.client(&result["clientId"]).await;
    assert_eq!((&client["client_type"], &client["company"]), (&json!("individual"), &json!("Example Ltd")));
    assert_eq!(client["account_id"], account);
    let entry =
        json!({"email": "Dan@Example.com", "name": "Dan", "phone": "111", "client_id": result["clientId"]});
    assert_eq!(contacts(&world, &account).await, [entry]);
}

#[tokio::test]
async fn an_update_of_an_unknown_colleague_adds_a_contact_entry_and_no_client() {
    let world = World::shared().await;
    let account = account(&world).await;
    let result = world.accept(dan("contact.updated").name("Dan")).await;
    assert_eq!(result["clientId"], account);
    assert_eq!(
        contacts(&world, &account).await,
        [json!({"email": "Dan@Example.com", "name": "Dan", "phone": null, "client_id": null})]
    );
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1, "the account alone");
    assert_eq!(world.timeline(&account).await.len(), 1);

    let changed = world.accept(dan("contact.updated").phone("222")).await;
    assert_eq!(changed["clientId"], account);
    assert_eq!(
        contacts(&world, &account).await,
        [json!({"email": "Dan@Example.com", "name": "Dan", "phone": "222", "client_id": null})]
    );
}
