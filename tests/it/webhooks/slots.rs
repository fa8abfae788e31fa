//! Slots: dispatchers share the tenants, take over from one that is killed or stopped, and number deliveries without holes.

use super::OutboundWorld;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use tests::{Behavior, World, eventually};

/// A killed or stopped dispatcher delays its slots by at most ten seconds. Programs of tests share processors with dozens of others.
const TAKEN_OVER: Duration = Duration::from_secs(60);
const TENANTS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];

impl OutboundWorld {
    /// Checks that each subscription's deliveries are numbered 1, 2, 3 .., and that no event is among them twice.
    pub(super) async fn assert_numbers_have_no_holes(&self) {
        let query = "SELECT subscription_id, count(*), min(number), max(number) FROM deliveries GROUP BY 1
            HAVING count(*) <> max(number) OR min(number) <> 1 OR count(DISTINCT event_id) <> count(*)";
        assert_eq!(self.world.database.rows(query, &[]).await, Vec::<serde_json::Value>::new());
    }

    /// Waits until the slots are shared in this way, by holder.
    async fn until_shares(&self, expected: &[i64]) {
        let query = "SELECT count(*) FROM dispatcher_slots WHERE leased_until > now() AND holder IS NOT NULL GROUP BY holder";
        eventually(&format!("the slots are shared {expected:?}"), TAKEN_OVER, async || {
            let rows = self.world.database.rows(query, &[]).await;
            let mut shares: Vec<i64> = rows.iter().filter_map(|row| row["count"].as_i64()).collect();
            shares.sort_unstable();
            if shares == expected { Ok(()) } else { Err(format!("{shares:?}")) }
        })
        .await;
    }

    /// Adds tenants, each with a receiver at the path of its slug.
    async fn with_tenants(&self) {
        for tenant in TENANTS {
            self.world.add_tenant(tenant).await;
            self.subscribe_of(tenant, &self.receiver.url_by_name(&format!("/{tenant}")), &[]).await;
        }
    }

    /// Emits events of each tenant, and waits until they are received.
    async fn send_to_tenants(&self, count: usize, received: usize) {
        for tenant in TENANTS {
            self.insert_outbox_events_of(tenant, count, "lead.assigned").await;
        }
        for tenant in TENANTS {
            let path = format!("/{tenant}");
            eventually(&format!("{path} has its webhooks"), TAKEN_OVER, async || {
                match self.receiver.received_at(&path).len() {
                    found if found >= received => Ok(()),
                    found => Err(found.to_string()),
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn dispatchers_share_the_slots_and_take_over_those_of_a_killed_one() {
    let mut outbound = OutboundWorld::start().await;
    outbound.with_tenants().await;
    outbound.until_shares(&[64]).await;
    outbound.world.add_dispatcher().await;
    outbound.until_shares(&[32, 32]).await;
    outbound.world.add_dispatcher().await;
    outbound.until_shares(&[20, 22, 22]).await;
    outbound.send_to_tenants(5, 5).await;
    // What is on record is not repeated.
    outbound.until_settled().await;
    outbound.world.dispatchers.remove(0).kill();
    outbound.send_to_tenants(5, 10).await;
    outbound.until_shares(&[32, 32]).await;
    let mut ended = outbound.world.dispatchers.remove(0);
    assert_eq!(ended.terminate().await.code(), Some(0));
    outbound.until_shares(&[64]).await;
    outbound.until_settled().await;
    assert_eq!(outbound.receiver.count(), 10 * TENANTS.len(), "each once");
    outbound.assert_numbers_have_no_holes().await;
}

#[tokio::test]
async fn an_event_that_cannot_be_fanned_out_or_read_stops_neither_other_tenants_nor_their_slots() {
    let outbound = OutboundWorld::start().await;
    outbound.with_tenants().await;
    outbound.send_to_tenants(1, 1).await;
    outbound.until_settled().await;
    // It was fanned out already, so its deliveries exist.
    let [broken, others @ ..] = TENANTS;
    let database = &outbound.world.database;
    let damage = format!(
        "INSERT INTO outbox_pending (tenant_id, event_id, created_at)
         SELECT tenant_id, event_id, now() FROM outbox JOIN tenants USING (tenant_id) WHERE slug = '{broken}'"
    );
    database.execute(&damage).await;
    for tenant in TENANTS {
        outbound.insert_outbox_events_of(tenant, 3, "lead.assigned").await;
    }
    for tenant in others {
        outbound.receiver.wait_for_at(&format!("/{tenant}"), 4).await;
    }
    assert_eq!(
        outbound.receiver.received_at(&format!("/{broken}")).len(),
        1,
        "its events wait for an operator"
    );
    let repair = "DELETE FROM outbox_pending p USING deliveries d
        WHERE p.tenant_id = d.tenant_id AND p.event_id = d.event_id; NOTIFY connect_outbox";
    database.execute(repair).await;
    outbound.receiver.wait_for_at(&format!("/{broken}"), 4).await;
    outbound.until_settled().await;
    outbound.assert_numbers_have_no_holes().await;
    // Neither does one that cannot be read when its delivery is due again.
    let damage = format!(
        "CREATE FUNCTION damaged() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'damaged'; END $$;
         ALTER TABLE outbox ENABLE ROW LEVEL SECURITY;
         CREATE POLICY damaged ON outbox
             USING (tenant_id <> (SELECT tenant_id FROM tenants WHERE slug = '{broken}') OR damaged());
         UPDATE deliveries SET state = 'pending', next_attempt_at = now(); NOTIFY connect_deliveries"
    );
    database.execute(&damage).await;
    for tenant in others {
        outbound.receiver.wait_for_at(&format!("/{tenant}"), 8).await;
    }
    assert_eq!(outbound.receiver.received_at(&format!("/{broken}")).len(), 4);
}

#[tokio::test]
async fn leases_from_before_the_databases_clock_went_back_have_ended() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    let ahead = "now() + interval '1 hour'";
    let stale = format!(
        "UPDATE dispatcher_slots SET holder = gen_random_uuid(), leased_until = {ahead};
         INSERT INTO dispatchers (dispatcher_id, leased_until) VALUES (gen_random_uuid(), {ahead})"
    );
    outbound.world.database.execute(&stale).await;
    outbound.world.add_dispatcher().await;
    outbound.until_metric("connect_dispatcher_slots", &[("state", "held")], 64.0).await;
}

#[tokio::test]
async fn a_stopped_dispatcher_that_comes_back_records_nothing_of_an_earlier_epoch() {
    let outbound = &mut OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", "600s")).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    // The first one is stopped before it gets its response; the one that takes over gets none until the first one goes on.
    let late = Behavior::status(500).after(Duration::from_secs(3));
    outbound.receiver.respond_to_next("/hooks", [late, Behavior::status(204).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    outbound.world.dispatchers[0].signal("STOP");
    outbound.world.add_dispatcher().await;
    outbound.receiver.wait_for(2).await;
    let holders = "SELECT count(DISTINCT holder) FROM dispatcher_slots WHERE holder IS NOT NULL";
    assert_eq!(outbound.world.database.count(holders).await, 1, "all slots were taken over");
    outbound.world.dispatchers[0].signal("CONT");
    outbound.world.dispatchers[0].until_logged("results of attempts were not recorded").await;
    let [delivery] = &outbound.deliveries(&subscription).await[..] else { panic!("one delivery") };
    assert_eq!((&delivery["state"], &delivery["attempts"]), (&"pending".into(), &0.into()), "{delivery}");
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 1).await;
    let received = outbound.receiver.received();
    let ids: HashSet<&str> = received.iter().map(|webhook| webhook.header("x-connect-delivery")).collect();
    assert_eq!((received.len(), ids.len()), (2, 1), "twice, under one id");
    outbound.until_shares(&[32, 32]).await;
}

#[tokio::test]
async fn slots_that_move_while_they_are_busy_lose_and_repeat_nothing() {
    let mut outbound = OutboundWorld::start().await;
    outbound.with_tenants().await;
    let numbers = "SELECT subscription_id, number, event_id FROM deliveries";
    outbound.world.database.execute(&format!("CREATE TABLE seen AS {numbers}")).await;
    for round in 1..=4 {
        outbound.world.database.execute(&format!("INSERT INTO seen {numbers}")).await;
        for tenant in TENANTS {
            outbound.insert_outbox_events_of(tenant, 100, "lead.assigned").await;
        }
        if round % 2 == 1 {
            outbound.world.add_dispatcher().await;
        } else {
            let mut ended = outbound.world.dispatchers.remove(0);
            assert_eq!(ended.terminate().await.code(), Some(0));
        }
    }
    let all = 400 * TENANTS.len();
    outbound.until_deliveries("delivered", i64::try_from(all).expect("few")).await;
    assert_eq!(outbound.receiver.count(), all, "each once");
    outbound.assert_numbers_have_no_holes().await;
    let changed = format!("SELECT count(*) FROM (TABLE seen EXCEPT {numbers}) AS changed");
    assert_eq!(outbound.world.database.count(&changed).await, 0, "numbers that have changed their event");
}

#[tokio::test]
async fn an_event_that_commits_late_gets_the_next_number() {
    let outbound = OutboundWorld::shared().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    let mut client = outbound.world.database.connect().await;
    let late = client.transaction().await.expect("a transaction");
    let insert = "WITH new AS (
            INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
            SELECT tenant_id, '00000000-0000-7000-8000-000000000001', 'lead.assigned', 'crm', '{}', now() FROM tenants
            RETURNING tenant_id, event_id, created_at
        )
        INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new";
    late.batch_execute(insert).await.expect("an event");
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", 1).await;
    late.commit().await.expect("the commit");
    outbound.until_deliveries("delivered", 2).await;
    let [first, second] = &outbound.deliveries(&subscription).await[..] else { panic!("two deliveries") };
    assert_eq!((&first["number"], &second["number"]), (&1.into(), &2.into()));
    assert_eq!(second["event"], "00000000-0000-7000-8000-000000000001", "its id is lower");
}

#[tokio::test]
async fn what_cannot_be_sent_is_dead_lettered_or_waits_and_delays_nothing_else() {
    let outbound = OutboundWorld::start().await;
    let (sealed, refused, dead, well) = (
        outbound.subscribe("/sealed", &[]).await,
        outbound.subscribe("/refused", &[]).await,
        outbound.subscribe("/dead", &[]).await,
        outbound.subscribe("/well", &[]).await,
    );
    let database = &outbound.world.database;
    let damage = format!(
        "UPDATE subscriptions SET secret_sealed = '\\x00' WHERE subscription_id = '{}';
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW
             WHEN (NEW.subscription_id = '{}' AND NEW.state = 'delivered') EXECUTE FUNCTION refuse()",
        sealed.id, refused.id
    );
    database.execute(&damage).await;
    for subscription in [&dead, &well] {
        outbound.change_subscription("pause", subscription).await;
    }
    outbound.open_lead().await;
    outbound.open_lead().await;
    outbound.until_pending(&well, 2).await;
    outbound.until_deliveries("dead", 2).await;
    // The event of one delivery of each is no longer stored.
    database
        .execute("DELETE FROM outbox WHERE event_id IN (SELECT event_id FROM deliveries WHERE number = 1)")
        .await;
    for subscription in [&dead, &well] {
        outbound.change_subscription("resume", subscription).await;
    }
    outbound.until_deliveries("delivered", 2).await;
    outbound.until_deliveries("dead", 4).await;
    let errors = "SELECT last_error, count(*) FROM deliveries WHERE state = 'dead' GROUP BY 1 ORDER BY 1";
    let errors = database.rows(errors, &[]).await;
    let reasons = ["the event is not stored any more", "the result of the attempt cannot be recorded"];
    assert_eq!(errors, reasons.map(|reason| json!({"last_error": reason, "count": 2})));
    outbound.until_pending(&sealed, 2).await;
    assert!(outbound.receiver.received_at("/sealed").is_empty());
    let logs = outbound.world.dispatchers[0].logs();
    assert!(logs.contains("secret decryption failed with this CONNECT_MASTER_KEY"));
}
