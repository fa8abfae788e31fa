//! `tenant`, `member` and `company`.

use super::fields;
use serde_json::json;
use tests::World;

#[tokio::test]
async fn creates_changes_and_lists_a_tenant() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let limits = ["--enquiry-prefix", "ZT", "--monthly-quota", "50", "--reads-per-second", "7"];
    let create = [&["tenant", "create", "--slug", "zeta-tours", "--name", "Zeta Tours"], &limits[..]];
    let made = connectctl.json(&create.concat()).await;
    assert_eq!((fields(&made), &made["slug"]), (vec!["id", "slug"], &json!("zeta-tours")));

    let find = async || {
        let all = connectctl.list(&["tenant", "list"]).await;
        all.into_iter().find(|tenant| tenant["slug"] == "zeta-tours").expect("the tenant")
    };
    let listed = find().await;
    assert_eq!((&listed["id"], &listed["name"]), (&made["id"], &json!("Zeta Tours")));
    assert_eq!(
        (&listed["monthlyQuota"], &listed["readsPerSecond"], &listed["discovery"]),
        (&json!(50), &json!(7), &json!(false))
    );

    let set = ["tenant", "set", "--tenant", "zeta-tours", "--discovery", "true", "--monthly-quota", "none"];
    assert_eq!(connectctl.json(&set).await, find().await);
    let changed = find().await;
    assert_eq!(
        (&changed["monthlyQuota"], &changed["readsPerSecond"], &changed["discovery"]),
        (&json!(null), &json!(7), &json!(true))
    );
}

#[tokio::test]
async fn members_can_be_added_removed_and_reactivated() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let add = ["member", "add", "--tenant", "acme", "--email", "Cleo@Acme.test", "--name", "Cleo"];
    let added = connectctl.json(&add).await;
    assert_eq!(added, json!({"email": "cleo@acme.test", "name": "Cleo", "active": true}));
    let removed =
        connectctl.json(&["member", "remove", "--tenant", "acme", "--email", "cleo@acme.test"]).await;
    assert_eq!(removed, json!({"email": "cleo@acme.test", "name": "Cleo", "active": false}));
    let listed = connectctl.list(&["member", "list", "--tenant", "acme"]).await;
    assert!(listed.contains(&removed), "{listed:?}");
    assert_eq!(listed.iter().filter(|member| member["active"] == true).count(), 2);
    assert_eq!(connectctl.json(&add).await["active"], true, "adding them again reactivates them");
}

#[tokio::test]
async fn creates_one_company_account_per_domain() {
    let world = World::shared().await;
    let connectctl = &world.connectctl;
    let create =
        ["company", "create", "--tenant", "acme", "--name", "Example Ltd", "--domain", "Example.com"];
    let made = connectctl.json(&create).await;
    assert_eq!(fields(&made), ["clientId"]);
    let query = "SELECT client_type, name, company_domain FROM clients WHERE client_id::text = $1";
    let stored = world.database.rows(query, &[&tests::text(&made["clientId"])]).await;
    assert_eq!(
        stored,
        [json!({"client_type": "company", "name": "Example Ltd", "company_domain": "example.com"})]
    );
    assert_eq!(connectctl.run(&create).await.code, Some(1));
    let free = ["company", "create", "--tenant", "acme", "--name", "Mail", "--domain", "gmail.com"];
    assert_eq!(connectctl.run(&free).await.code, Some(1), "a free mailbox is never a company domain");
}
