//! Units that move a client's email, and its contact entry on the company account (D13).

use super::{Fixture, statuses};
use crate::records::{client_route, new_client, patch_request};
use serde_json::{Value, json};

#[tokio::test]
async fn a_unit_that_moves_an_email_updates_its_company_contact_entry() {
    let mut fixture = Fixture::start().await;
    let create = ["company", "create", "--tenant", "acme", "--name", "Initech", "--domain", "initech.com"];
    fixture.world.connectctl.json(&create).await;
    let (work, home) = (json!({"email": "ana@initech.com"}), json!({"email": "ana@gmail.com"}));
    let ana = new_client(&fixture.world, work.clone()).await;
    let key = fixture.world.key.clone();
    let change = |body: &Value| patch_request(&key, &client_route(&ana), body);
    // Ana has contact entries for both addresses; her client has the first one.
    for body in [&home, &json!({"name": "Ana"}), &work] {
        assert_eq!(fixture.world.http().send(&change(body)).await.status, 200);
    }
    let responses = fixture.send_as_one_unit(vec![change(&home), change(&json!({"name": "Ana B"}))]).await;
    assert_eq!(statuses(&responses), [200, 200]);
    let listed = "SELECT count(*) FROM account_contacts WHERE email_key = 'ana@gmail.com' AND name = 'Ana B'";
    assert_eq!(fixture.world.database.count(listed).await, 1);
    let worker = fixture.world.workers.last().expect("a worker");
    let conflicts = [("name", "apply_write"), ("outcome", "conflict")];
    assert_eq!(worker.metrics().await.sum("connect_db_transactions_total", &conflicts), 0.0);
}
