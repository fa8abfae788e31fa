//! Slots: dispatchers share the tenants, take over from one that is killed or stopped, and number deliveries without holes.

use super::OutboundWorld;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use tests::{Behavior, MAX_WAIT, World, eventually};

/// Longest wait for slots that move: programs of tests share processors with dozens of others.
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
        let query =
            "SELECT count(*) FROM dispatcher_slots WHERE leased_until > now() AND holder IS NOT NULL GROUP BY holder";
        eventually(&format!("the slots are shared {expected:?}"), TAKEN_OVER, async || {
            let rows = self.world.database.rows(query, &[]).await;
            let mut shares: Vec<i64> = rows.iter().filter_map(|row| row["count"].as_i64()).collect();
            shares.sort_unstable();
            if shares == expected { Ok(()) } else { Err(format!("{shares:?}")) }
        })
        .await;
    }

    /// Notes by the clock of the database, in the table `moves`, when a slot gets a holder.
    async fn note_moves(&self) {
        let trigger = "CREATE TABLE moves (at timestamptz NOT NULL);
            CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
                $$ BEGIN INSERT INTO moves VALUES (clock_timestamp()); RETURN NULL; END $$;
            CREATE TRIGGER note_move AFTER UPDATE OF holder ON dispatcher_slots FOR EACH ROW
                WHEN (NEW.holder IS NOT NULL) EXECUTE FUNCTION note_move()";
        self.world.database.execute(trigger).await;
    }

    /// Takes the present for the beginning of the next moves.
    async fn begin_moves(&self) {
        self.world.database.execute("DELETE FROM moves; INSERT INTO moves VALUES (clock_timestamp())").await;
    }

    /// Checks that slots moved, and none later than so many seconds after the beginning.
    async fn assert_moved_within(&self, seconds: i64) {
        let took = "SELECT ceil(extract(epoch FROM max(at) - min(at)))::bigint FROM moves";
        let took = self.world.database.count(took).await;
        assert!((1..=seconds).contains(&took), "{took} s");
    }

    /// Sets the clock of the database ahead, as sessions see it that find these functions before Postgres' own.
    async fn set_clock_ahead(&self, by: &str) {
        let clock = ["now", "clock_timestamp"].map(|name| {
            format!(
                "CREATE OR REPLACE FUNCTION public.{name}() RETURNS timestamptz LANGUAGE sql STABLE AS
                 $$ SELECT pg_catalog.{name}() + interval '{by}' $$;"
            )
        });
        self.world.database.execute(&clock.concat()).await;
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
    outbound.note_moves().await;
    outbound.begin_moves().await;
    outbound.world.dispatchers.remove(0).kill();
    outbound.send_to_tenants(5, 10).await;
    outbound.until_shares(&[32, 32]).await;
    // Ten seconds, and as many more on a busy machine.
    outbound.assert_moved_within(20).await;
    let mut ended = outbound.world.dispatchers.remove(0);
    outbound.begin_moves().await;
    assert_eq!(ended.terminate().await.code(), Some(0));
    outbound.until_shares(&[64]).await;
    // At once: a lease would last for longer.
    outbound.assert_moved_within(4).await;
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
    assert_eq!(outbound.receiver.received_at(&format!("/{broken}")).len(), 1, "its events wait for an operator");
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
async fn a_database_clock_that_jumps_forward_and_back_stops_no_slot_and_repeats_nothing() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_BACKOFF_BASE", "30m");
    let world = world.set("CONNECT_WEBHOOK_BACKOFF_CAP", "60m");
    let mut outbound = OutboundWorld::without_dispatcher(world).await;
    outbound.set_clock_ahead("0").await;
    let look_there_first = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$";
    outbound.world.database.execute(look_there_first).await;
    outbound.with_tenants().await;
    outbound.world.add_dispatcher().await;
    outbound.world.add_dispatcher().await;
    outbound.until_shares(&[32, 32]).await;
    outbound.receiver.respond_to_next("/t0", [Behavior::status(500)]);
    outbound.send_to_tenants(5, 5).await;
    outbound.until_deliveries("delivered", 29).await;

    // A retry that was due in half an hour is due now, and all leases have ended.
    outbound.set_clock_ahead("1 hour").await;
    outbound.until_deliveries("delivered", 30).await;
    outbound.until_shares(&[32, 32]).await;
    let retries = outbound.receiver.received_at("/t0").len() - 5;
    assert!((1..=2).contains(&retries), "while its slot moves it may be sent once more: {retries}");
    outbound.send_to_tenants(5, 10).await;
    outbound.until_settled().await;

    // Leases of one that has ended seem to last for an hour.
    outbound.world.dispatchers.remove(0).kill();
    outbound.set_clock_ahead("0").await;
    outbound.until_shares(&[64]).await;
    outbound.send_to_tenants(5, 15).await;
    outbound.until_settled().await;
    assert_eq!(outbound.receiver.count(), 15 * TENANTS.len() + retries, "each once");
    outbound.assert_numbers_have_no_holes().await;
}

#[tokio::test]
async fn one_of_two_dispatchers_that_was_stopped_and_comes_back_records_and_renumbers_nothing() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_TIMEOUT", "600s");
    let mut outbound = OutboundWorld::start_with(world).await;
    outbound.with_tenants().await;
    let (receiver, held) = (&outbound.receiver, || Behavior::status(204).held());
    receiver.hold();
    for tenant in TENANTS {
        receiver.respond_to_next(&format!("/{tenant}"), [held()]);
    }
    // Attempts under way keep the slots of all tenants with the first one.
    outbound.send_to_tenants(1, 1).await;
    outbound.world.add_dispatcher().await;
    outbound.until_shares(&[32, 32]).await;
    // It is stopped before it gets a response; the one that takes over gets none until the first one goes on.
    let late = Behavior::status(500).after(Duration::from_secs(3));
    receiver.respond_to_next("/t0", [late, held(), held()]);
    outbound.insert_outbox_events_of("t0", 1, "lead.assigned").await;
    receiver.wait_for_at("/t0", 2).await;
    outbound.world.dispatchers[0].signal("STOP");
    receiver.wait_for_at("/t0", 4).await;
    outbound.until_shares(&[64]).await;
    for tenant in &TENANTS[1..] {
        outbound.insert_outbox_events_of(tenant, 5, "lead.assigned").await;
        receiver.wait_for_at(&format!("/{tenant}"), 7).await;
    }
    outbound.until_deliveries("delivered", 30).await;
    let (database, numbers) = (&outbound.world.database, "SELECT subscription_id, number, event_id FROM deliveries");
    database.execute(&format!("CREATE TABLE seen AS {numbers}")).await;

    outbound.world.dispatchers[0].signal("CONT");
    outbound.world.dispatchers[0].until_logged("results of attempts were not recorded").await;
    let untouched = "SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts = 0";
    assert_eq!(database.count(untouched).await, 2, "those of t0");
    receiver.release();
    outbound.until_deliveries("delivered", 32).await;
    outbound.until_shares(&[32, 32]).await;
    outbound.send_to_tenants(5, 9).await;
    outbound.until_settled().await;
    assert_eq!(database.count("SELECT count(*) FROM deliveries WHERE attempts = 1").await, 62, "each once");
    assert_eq!(database.count(&format!("SELECT count(*) FROM (TABLE seen EXCEPT {numbers}) AS x")).await, 0);
    outbound.assert_numbers_have_no_holes().await;
    let received = receiver.received();
    let ids: HashSet<&str> = received.iter().map(|webhook| webhook.header("x-connect-delivery")).collect();
    assert_eq!((received.len(), ids.len()), (62 + 7, 62), "those under way twice, under one id");
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
    outbound.open_lead_until("delivered", 1).await;
    late.commit().await.expect("the commit");
    outbound.until_deliveries("delivered", 2).await;
    let [first, second] = &outbound.deliveries(&subscription).await[..] else { panic!("two deliveries") };
    assert_eq!((&first["number"], &second["number"]), (&1.into(), &2.into()));
    assert_eq!(second["event"], "00000000-0000-7000-8000-000000000001", "its id is lower");
}

#[tokio::test]
async fn a_delivery_whose_result_cannot_be_recorded_at_all_is_not_sent_again() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    let statements = outbound.world.record_statements();
    outbound.subscribe("/refused", &[]).await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION refuse()";
    outbound.world.database.execute(refuse).await;
    outbound.world.add_dispatcher().await;
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    statements.take("dispatcher");
    let mut looks = 0;
    eventually("it looks for what is due again and again", MAX_WAIT, async || {
        let is_look = |names: &Vec<String>| names.iter().any(|name| name == "deliveries.look");
        looks += statements.take("dispatcher").iter().filter(|names| is_look(names)).count();
        if looks > 2 { Ok(()) } else { Err(looks.to_string()) }
    })
    .await;
    assert_eq!(outbound.receiver.received_at("/refused").len(), 1);
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
    database.execute("DELETE FROM outbox WHERE event_id IN (SELECT event_id FROM deliveries WHERE number = 1)").await;
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
