//! Queues and dead letters in the browser.

use super::{ConsoleWorld, body};
use serde_json::json;
use tests::{MAX_WAIT, QueuedMessage, World, eventually, text, until_equal};

#[tokio::test]
async fn dead_letters_are_seen_requeued_and_dropped() {
    let console = ConsoleWorld::of(World::with().dispatchers(1)).await;
    let operator = console.operator().await;
    assert!(operator.page("/queues").await.contains("webhooks.dead"));
    let World { ingests, workers, dispatchers, .. } = &console.world;
    for program in ingests.iter().chain(workers).chain(dispatchers).chain(&console.console) {
        program.until_ready().await;
        assert!(!program.logs().contains("\"ERROR\""), "a first start: {}", program.logs());
    }
    let poison = async |count: usize| {
        for _ in 0..count {
            console.world.queues.publish("crm", b"no <b>action</b>").await;
        }
    };
    let until_dead = async |count: usize| {
        eventually("dead letters are listed", MAX_WAIT, async || {
            let page = operator.page("/queues/crm").await;
            let rows = page.matches(">cannot be parsed as an action").count();
            if rows == count { Ok(page) } else { Err(page) }
        })
        .await
    };
    assert!(operator.page("/queues/crm").await.contains("There are no dead letters"));
    poison(2).await;
    let page = until_dead(2).await;
    assert!(!page.contains("no &lt;b&gt;"), "bodies are not shown: {page}");
    assert!(operator.page("/queues").await.contains("There are dead letters."));

    let requeue = operator.page("/queues/crm/requeue").await;
    assert!(requeue.contains("processed again"), "{requeue}");
    assert_eq!(operator.change("/queues/crm/requeue", &[]).await, "/queues/crm?done=requeued");
    until_dead(2).await;

    let question = operator.page("/queues/crm/drop").await;
    assert!(question.contains("Dead letters to drop: <strong>2</strong>. Their content is lost"), "{question}");
    operator.change("/queues/crm/drop", &[]).await;
    until_dead(0).await;
    for missing in ["/queues/none", "/queues/events.dead", "/queues/webhooks.dead/drop"] {
        assert_eq!(operator.get(missing).await.status, 404, "{missing}");
    }
    let tenants = console.world.database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    let tenant = &tenants[0]["tenant_id"];
    let meta = json!({"tenantId": tenant, "deliveryId": tenant, "subscriptionId": tenant, "eventId": tenant,
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": "2026-05-01T10:00:00Z", "reason": "status 500"});
    let notice = QueuedMessage::new(b"{}").with_meta(&meta.to_string());
    console.world.queues.publish_message("webhooks.dead", &notice).await;
    let delivery = format!("<a href=\"/agencies/acme/deliveries/{}\">lead.assigned</a>", text(tenant));
    let parts = [delivery.as_str(), ">acme</td>", ">all attempts failed: status 500</td>", "2026-05-01T10:00:00.000Z"];
    operator.until_shown("/queues/webhooks", &parts).await;
    let webhooks = operator.change("/queues/webhooks/requeue", &[]).await;
    assert_eq!(webhooks, "/queues/webhooks?done=requeued");
}

#[tokio::test]
async fn an_unavailable_server_is_a_page_that_says_so() {
    let console = ConsoleWorld::of(World::with().ingests(0).workers(0).through_proxies()).await;
    let operator = console.operator().await;
    let proxies = console.world.proxies();
    // More requests wait for the broker than there are connections to the database.
    proxies.broker.stall();
    let waiting = futures_util::future::join_all((0..8).map(|_| operator.get("/queues")));
    let others = async {
        for _ in 0..20 {
            assert_eq!(operator.get("/agencies/acme").await.status, 200, "pages without the broker work");
        }
        proxies.broker.reset_connections();
    };
    let (waiting, ()) = futures_util::future::join(waiting, others).await;
    assert!(waiting.iter().all(|response| response.status == 503), "{waiting:?}");
    let response = operator.get("/queues").await;
    assert_eq!(response.status, 503, "{}", body(&response));
    assert!(body(&response).contains("Temporarily unavailable") && response.header("retry-after") == "5");
    let told = ["RabbitMQ cannot be used: ", "href=\"/runbook#connectbrokerdisconnected\""];
    assert!(told.iter().all(|part| body(&response).contains(part)), "{}", body(&response));
    operator.until_shown("/", &told).await;
    proxies.postgres.reset_connections();
    let status = async || operator.get("/agencies/acme").await.status;
    until_equal("the database is missed", 503, status).await;
    let page = body(&operator.get("/").await);
    assert!(page.contains("The database cannot be reached") && page.contains("ConnectReplayStoreDown"), "{page}");
    console.program().until_unready().await;
    proxies.postgres.restore();
    until_equal("the database is used again", 200, status).await;
}
