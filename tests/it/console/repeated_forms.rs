//! Forms that are sent twice act once, and show the same page (D41).

use super::roles::{Route, routes};
use super::{ConsoleWorld, Visitor, between, body};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use tests::{HttpResponse, World, text};
use uuid::Uuid;

const AGENCY: &str = "/agencies/acme";
const KEYS: &str = "/agencies/acme/keys";

/// The id of the form with this action on a page.
async fn form_id(visitor: &Visitor<'_>, page: &str, action: &str) -> String {
    let shown = visitor.page(page).await;
    let form = between(&shown, &format!("action=\"{action}\""), "</form>");
    between(form, "name=\"form\" value=\"", "\"").to_owned()
}

/// What an answer shows: its status, where it leads, and its heading.
fn shown(response: &HttpResponse) -> (u16, String, String) {
    let page = body(response);
    let heading = if page.contains("<h1><bdi>") { between(&page, "<h1><bdi>", "</bdi></h1>") } else { "" };
    (response.status, response.header("location").to_owned(), heading.to_owned())
}

/// The secret that a page shows; empty if it shows none.
fn secret(response: &HttpResponse) -> String {
    let page = body(response);
    // Ids of forms may contain the same letters.
    let begins = [">cs_", ">whsec_", "/sign-in/cl_"];
    let found = begins.iter().find_map(|begin| page.split_once(begin));
    found.map_or_else(String::new, |(_, rest)| rest.chars().take(43).collect())
}

async fn actions(console: &ConsoleWorld) -> i64 {
    console.world.database.count("SELECT count(*) FROM audit_records").await
}

/// Waits until this many forms wait for a lock.
async fn until_waiting(console: &ConsoleWorld, forms: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock'";
    console.world.database.until_count(waiting, forms).await;
}

/// Sends the form of a page twice: the second one changes nothing, shows the same, and no secret. Returns the first answer.
async fn send_twice(
    console: &ConsoleWorld, visitor: &Visitor<'_>, (page, action): (&str, &str), fields: &[(&str, &str)],
) -> HttpResponse {
    let id = form_id(visitor, page, action).await;
    let fields = [fields, &[("form", &id)]].concat();
    let before = actions(console).await;
    let (first, second) = (visitor.post(action, &fields).await, visitor.post(action, &fields).await);
    assert_eq!(actions(console).await, before + 1, "{action} has acted once: {}", body(&first));
    assert!(first.status < 400, "{action}: {}", body(&first));
    assert_eq!(shown(&first), shown(&second), "{action}: {}", body(&second));
    if secret(&first).is_empty() {
        assert_eq!(first.status, 303, "{action}: {}", body(&first));
    } else {
        assert!(body(&second).contains("cannot be shown again"), "{action}: {}", body(&second));
        assert!(!body(&second).contains(&secret(&first)) && secret(&second).is_empty(), "{}", body(&second));
    }
    first
}

#[tokio::test]
async fn every_form_acts_once_and_shows_the_same_page() {
    let console = ConsoleWorld::start().await;
    of_forms_that_are_sent_at_once_one_acts_and_the_others_wait_for_its_result(&console).await;
    let (visitor, database) = (console.operator().await, &console.world.database);
    let key = format!("{KEYS}/{}", console.world.key.prefix);
    let created = console.world.subscribe("https://93.184.215.14/hook").await;
    let subscription = text(&created["id"]);
    let (hook, delivery) = (format!("{AGENCY}/webhooks/{subscription}"), Uuid::now_v7());
    let insert = |values: &str| {
        format!(
            "INSERT INTO deliveries (tenant_id, subscription_id, created_at, delivery_id, event_id, number, state, next_attempt_at)
             SELECT tenant_id, '{subscription}', now(), {values} FROM tenants WHERE slug = 'acme'"
        )
    };
    database.execute(&insert(&format!("'{delivery}', '{delivery}', 1, 'delivered', NULL"))).await;
    let [settings, webhooks, deliveries, members, partners] =
        ["settings", "webhooks", "deliveries", "members", "partners"].map(|one| format!("{AGENCY}/{one}"));
    let overdue = Uuid::now_v7();
    let values = format!("'{overdue}', '{overdue}', 2, 'pending', now() - interval '1 hour'");
    database.execute(&insert(&values)).await;
    visitor.change(&format!("{deliveries}/{overdue}/send-now"), &[]).await;
    let kept = "SELECT count(*) FROM deliveries WHERE next_attempt_at < now() - interval '59 minutes'";
    assert_eq!(database.count(kept).await, 1, "what is due already keeps its place");
    let filter = [("state", "delivered"), ("rate", "50")];
    let mut sent = BTreeSet::new();
    for (page, action, fields) in [
        (format!("{KEYS}/new"), KEYS.to_owned(), &[("name", "site"), ("scopes", "leads:read")][..]),
        (key.clone(), format!("{key}/scopes"), &[("scopes", "leads:read")]),
        (key.clone(), format!("{key}/rotate"), &[("overlap", "24h")]),
        (key.clone(), format!("{key}/end-overlap"), &[]),
        (format!("{key}/revoke"), format!("{key}/revoke"), &[]),
        (format!("{webhooks}/new"), webhooks.clone(), &[("url", "https://93.184.215.14/other")]),
        (hook.clone(), format!("{hook}/test"), &[]),
        (hook.clone(), format!("{hook}/events"), &[("events", "lead.assigned")]),
        (hook.clone(), format!("{hook}/url"), &[("url", "https://93.184.215.14/third")]),
        (hook.clone(), format!("{hook}/pause"), &[]),
        (hook.clone(), format!("{hook}/resume"), &[]),
        (hook.clone(), format!("{hook}/rotate"), &[("overlap", "24h")]),
        (format!("{deliveries}/replay?state=delivered"), format!("{deliveries}/replay"), &filter),
        (format!("{deliveries}/{delivery}"), format!("{deliveries}/{delivery}/replay"), &[]),
        (format!("{deliveries}/{delivery}"), format!("{deliveries}/{delivery}/send-now"), &[]),
        (format!("{hook}/remove"), format!("{hook}/remove"), &[]),
        (settings.clone(), settings.clone(), &[("discovery", "true")]),
        (settings.clone(), format!("{AGENCY}/limits"), &[("quota", "5"), ("reads", "7")]),
        (members.clone(), members.clone(), &[("email", "m@example.com"), ("name", "Mo")]),
        (members.clone(), format!("{members}/remove"), &[("email", "m@example.com")]),
        (partners.clone(), format!("{AGENCY}/partner-links"), &[("partner", "dev"), ("role", "viewer")]),
        (partners.clone(), format!("{AGENCY}/partner-links/revoke"), &[]),
        ("/queues/crm/requeue".to_owned(), "/queues/crm/requeue".to_owned(), &[]),
        ("/queues/crm/drop".to_owned(), "/queues/crm/drop".to_owned(), &[]),
    ] {
        let first = send_twice(&console, &visitor, (&page, &action), fields).await;
        if action.ends_with("deliveries/replay") {
            let (job, _) = first.header("location").split_once('?').expect("a notice");
            let stop = format!("{job}/stop");
            send_twice(&console, &visitor, (job, &stop), &[]).await;
            sent.insert(stop);
        }
        sent.insert(action);
    }
    let is_change = |route: &Route| {
        let is_of_a_role = route.role == "admin" || route.role == "operator";
        route.method == "POST" && is_of_a_role && !route.path.ends_with("/export")
    };
    assert_eq!(sent.len(), routes().iter().filter(|route| is_change(route)).count(), "{sent:?}");
    assert_eq!(console.visitor().post("/sign-out", &[]).await.header("location"), "/sign-in");
}

async fn of_forms_that_are_sent_at_once_one_acts_and_the_others_wait_for_its_result(console: &ConsoleWorld) {
    let (visitor, prefix) = (console.admin().await, console.world.add_key("leads:read").await.prefix);
    let (page, action) = (format!("{KEYS}/{prefix}"), format!("{KEYS}/{prefix}/rotate"));
    let id = form_id(&visitor, &page, &action).await;
    let fields = [("overlap", "24h"), ("form", id.as_str())];
    let locked = console.world.database.begin("LOCK TABLE api_keys IN SHARE MODE").await;
    let release = async {
        until_waiting(console, 2).await;
        locked.batch_execute("COMMIT").await.expect("no lock");
    };
    let posts = join_all((0..2).map(|_| visitor.post(&action, &fields)));
    let (responses, ()) = futures_util::join!(posts, release);
    for response in &responses {
        assert_eq!(shown(response), (200, String::new(), "The secret was replaced".to_owned()));
    }
    let secrets: Vec<String> = responses.iter().map(secret).filter(|secret| !secret.is_empty()).collect();
    assert_eq!(secrets.len(), 1, "one of them shows the secret: {secrets:?}");
    let rotated = "SELECT count(*) FROM api_keys WHERE secret_number = 2 AND old_secret_until > now()";
    assert_eq!(console.world.database.count(rotated).await, 1);
}

#[tokio::test]
async fn a_form_is_spent_by_its_success_alone_and_belongs_to_its_session() {
    let console = ConsoleWorld::shared().await;
    let (visitor, other) = (console.admin().await, console.admin().await);
    let id = form_id(&visitor, &format!("{KEYS}/new"), KEYS).await;
    let create = async |visitor: &Visitor<'_>, name: &str, id: &str| {
        visitor.post(KEYS, &[("name", name), ("scopes", "leads:read"), ("form", id)]).await
    };
    for (visitor, id) in [(&other, id.as_str()), (&visitor, ""), (&visitor, &id[1..]), (&visitor, "AAAA")] {
        let refused = create(visitor, "site", id).await;
        assert_eq!(refused.status, 403, "{}", body(&refused));
    }
    assert_eq!(create(&visitor, " ", &id).await.status, 422, "nothing was changed");
    let created = create(&visitor, "site", &id).await;
    assert_eq!((created.status, secret(&created).is_empty()), (200, false), "{}", body(&created));
    let changed = create(&visitor, "another", &id).await;
    assert_eq!(changed.status, 409, "{}", body(&changed));
    assert!(body(&changed).contains("sent before, with other fields"), "{}", body(&changed));
    assert_eq!(console.world.database.count("SELECT count(*) FROM api_keys").await, 2);
}

#[tokio::test]
async fn a_form_whose_operation_fails_half_way_can_be_sent_again() {
    const REQUEUE: &str = "/queues/records/requeue";
    let console = ConsoleWorld::of(World::with().ingests(0).workers(0).through_proxies()).await;
    let (operator, queues) = (console.operator().await, &console.world.queues);
    queues.publish("records", b"{}").await;
    queues.exhaust_deliveries("records").await;
    console.world.until_depth("records.dead", 1).await;
    let id = form_id(&operator, REQUEUE, REQUEUE).await;
    let fields = [("form", id.as_str())];
    let locked = console.world.database.begin("LOCK TABLE audit_records IN SHARE MODE").await;
    let fail = async {
        until_waiting(&console, 1).await;
        console.world.proxies().broker.reset_connections();
        locked.batch_execute("COMMIT").await.expect("no lock");
    };
    let (failed, ()) = futures_util::join!(operator.post(REQUEUE, &fields), fail);
    assert_eq!(failed.status, 503, "{}", body(&failed));
    console.world.proxies().broker.restore();
    let repeated = operator.post(REQUEUE, &fields).await;
    assert_eq!(shown(&repeated).1, "/queues/records?done=requeued", "{}", body(&repeated));
    assert_eq!((queues.depth("records").await, queues.depth("records.dead").await), (1, 0));
}
