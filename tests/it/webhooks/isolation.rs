//! A slow receiver never delays deliveries to the others, nor does a tenant those of another one (D28).
//!
//! Slow receivers hold every request until the test releases them, so that nothing depends on timing.

use super::OutboundWorld;
use crate::console::Visitor;
use common::egress::LOOK_UPS;
use common::model::TenantId;
use common::sealed::{MasterKey, Secret, subscription_binding, subscription_url_binding};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::HashSet;
use std::fs;
use tests::{Behavior, HttpResponse, MASTER_KEY, MAX_WAIT, Program, QueuedMessage, World, eventually, text};
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tokio_postgres::Client;
use uuid::Uuid;

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "600s";

impl OutboundWorld {
    /// Inserts events into the outbox as the worker does, which is faster than causing thousands of them.
    pub(super) async fn insert_outbox_events(&self, count: usize, event_type: &str) {
        self.insert_outbox_events_of("acme", count, event_type).await;
    }

    pub(super) async fn insert_outbox_events_of(&self, tenant: &str, count: usize, event_type: &str) {
        let statement = format!(
            "WITH new AS (
                 INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, created_at)
                 SELECT tenant_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1 for 8)::uuid,
                        '{event_type}', NULL, 'crm', json_build_object('n', n), now()
                 FROM tenants, generate_series(1, {count}) AS n WHERE slug = '{tenant}'
                 RETURNING tenant_id, event_id, created_at
             )
             INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new;
             NOTIFY connect_outbox"
        );
        self.world.database.execute(&statement).await;
    }

    /// Inserts subscriptions of acme to all events as `connectctl` does, which is faster for thousands of them.
    pub(super) async fn insert_subscriptions(&self, count: usize, url: impl Fn(usize) -> String) {
        let client = self.world.database.connect().await;
        let tenant = "SELECT tenant_id FROM tenants WHERE slug = 'acme'";
        let tenant = TenantId(client.query_one(tenant, &[]).await.expect("a tenant").get(0));
        let master = MasterKey::parse(MASTER_KEY).expect("a key");
        let seal = |text: &str, binding: &str| {
            let nonce = *Uuid::now_v7().as_bytes().last_chunk().expect("16 bytes");
            master.seal(&Secret::new(text.to_owned()), binding, nonce)
        };
        let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
        let sealed = |(n, id): (usize, &Uuid)| seal(&url(n), &subscription_url_binding(tenant, *id));
        let urls: Vec<_> = ids.iter().enumerate().map(sealed).collect();
        let secrets: Vec<_> = ids.iter().map(|id| seal("whsec_x", &subscription_binding(tenant, *id))).collect();
        let insert = "INSERT INTO subscriptions
                (tenant_id, subscription_id, display_url, url_sealed, secret_sealed, created_at)
            SELECT $1, id, 'https://localhost', url, secret, now()
            FROM unnest($2::uuid[], $3::bytea[], $4::bytea[]) AS new (id, url, secret)";
        client.execute(insert, &[&tenant.0, &ids, &urls, &secrets]).await.expect("subscriptions");
    }
}

#[tokio::test]
async fn an_unresponsive_receiver_with_thousands_of_deliveries_delays_no_other() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await;
    let receiver = &outbound.receiver;
    receiver.hold();
    receiver.respond("/dead", Behavior::status(204).held());
    outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    // Before the others, and more than a dispatcher has at a time.
    outbound.insert_outbox_events(3_000, "lead.stage_changed").await;
    receiver.wait_for_at("/dead", 1).await;
    outbound.insert_outbox_events(500, "lead.assigned").await;
    receiver.wait_for_at("/alive", 500).await;
    outbound.until_deliveries("delivered", 500).await;
    let held = receiver.received_at("/dead").len();
    assert!(held <= 32, "{held} requests at once to one receiver");

    receiver.release();
    outbound.until_deliveries_within(MAX_WAIT, "delivered", 3_500).await;
    assert_eq!(receiver.received_at("/dead").len(), 3_000, "each once");
}

#[tokio::test]
async fn many_unresponsive_receivers_leave_capacity_for_a_responsive_one() {
    let world = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "16");
    let outbound = OutboundWorld::start_with(world).await;
    let receiver = &outbound.receiver;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    outbound.insert_outbox_events(1, "lead.assigned").await;
    receiver.wait_for_at("/alive", 1).await;
    receiver.hold();
    for dead in 0..20 {
        let path = format!("/dead/{dead}");
        receiver.respond(&path, Behavior::status(204).held());
        outbound.subscribe(&path, &["--events", "lead.stage_changed"]).await;
    }
    outbound.insert_outbox_events(50, "lead.stage_changed").await;
    // Receivers without a history get half of the concurrent attempts, and those of one tenant half of these.
    receiver.wait_for(1 + 4).await;
    // Of another tenant a new receiver, too, has its webhook.
    outbound.world.add_tenant("zeta").await;
    outbound.subscribe_of("zeta", &receiver.url_by_name("/zeta"), &[]).await;
    outbound.insert_outbox_events_of("zeta", 1, "lead.assigned").await;
    receiver.wait_for_at("/zeta", 1).await;
    outbound.insert_outbox_events(200, "lead.assigned").await;
    receiver.wait_for_at("/alive", 201).await;
    receiver.release();
    outbound.until_deliveries_within(MAX_WAIT, "delivered", 1_202).await;
}

#[tokio::test]
async fn thousands_of_unresponsive_receivers_with_more_added_delay_no_new_one_of_another_agency() {
    let world = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "16");
    let mut outbound = OutboundWorld::without_dispatcher(world).await;
    let receiver = &outbound.receiver;
    receiver.hold();
    receiver.respond("/dead", Behavior::status(204).held());
    let dead = |_| receiver.url_by_name("/dead");
    outbound.insert_subscriptions(5_000, dead).await;
    // All deliveries together are a gigabyte.
    outbound.insert_outbox_events(2, "lead.assigned").await;
    let large = "UPDATE outbox SET envelope = json_build_object('text', repeat('x', 100000))";
    outbound.world.database.execute(large).await;
    outbound.world.add_dispatcher().await;
    outbound.until_deliveries("pending", 10_000).await;
    // Those of one tenant get half of the attempts that slow receivers may have.
    receiver.wait_for_at("/dead", 4).await;
    for round in 0..3 {
        outbound.insert_subscriptions(200, dead).await;
        outbound.insert_outbox_events(1, "lead.assigned").await;
        let (tenant, path) = (format!("zeta-{round}"), format!("/zeta/{round}"));
        outbound.world.add_tenant(&tenant).await;
        outbound.subscribe_of(&tenant, &receiver.url_by_name(&path), &[]).await;
        outbound.insert_outbox_events_of(&tenant, 1, "lead.assigned").await;
        receiver.wait_for_at(&path, 1).await;
    }
    assert_eq!(receiver.received_at("/dead").len(), 4, "none of the unresponsive ones has ended");
    outbound.until_deliveries("delivered", 3).await;
    outbound.until_deliveries("pending", 2 * 5_000 + 5_200 + 5_400 + 5_600).await;
    outbound.assert_numbers_have_no_holes().await;
    let status = fs::read_to_string(format!("/proc/{}/status", outbound.world.dispatchers[0].id()));
    let status = status.expect("the dispatcher runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u32 = peak.expect("its peak").parse().expect("a number");
    assert!(peak < 256 << 10, "it had {peak} KiB, whatever waits");
    // The gauges know all subscriptions: the oldest delivery is one of the first one, and one is not due.
    let old = "UPDATE deliveries SET next_attempt_at = now() + interval '1 hour' * (2 * number - 3)
        WHERE number <= 2 AND subscription_id =
            (SELECT subscription_id FROM deliveries WHERE state = 'pending' ORDER BY slot, subscription_id LIMIT 1)";
    outbound.world.database.execute(old).await;
    outbound.until_metric("connect_webhook_due", &[], 26_199.0).await;
    let oldest = outbound.world.dispatchers[0].metrics().await.sum("connect_webhook_oldest_due_seconds", &[]);
    assert!(oldest >= 3_600.0, "{oldest}");
}

/// `make test` says at its end when this is not tested: only root may replace `/etc/resolv.conf` and listen on port 53.
#[tokio::test]
async fn silent_name_servers_of_an_agencys_receivers_delay_no_other_agency() {
    let Ok(silent) = UdpSocket::bind("127.0.0.79:53").await else { return };
    // More attempts of an agency than look-ups at a time.
    let world = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "2048");
    let outbound = OutboundWorld::without_dispatcher(world).await;
    outbound.insert_subscriptions(600, |n| format!("https://n{n}.silent.test/")).await;
    outbound.world.add_tenant("zeta").await;
    outbound.subscribe_of("zeta", &outbound.receiver.url_by_name("/zeta"), &[]).await;
    let resolv_conf = std::env::temp_dir().join(format!("connect-resolv-{}.conf", std::process::id()));
    fs::write(&resolv_conf, "nameserver 127.0.0.79\noptions timeout:30 attempts:5\n").expect("a file");
    outbound.insert_outbox_events(5, "lead.assigned").await;
    let settings = outbound.world.settings();
    let _dispatcher = Program::spawn_with_resolv_conf("connect-dispatcher", settings, &resolv_conf);
    let mut console = Program::spawn_with_resolv_conf("connect-console", settings, &resolv_conf);
    console.until_listening().await;
    // As many look-ups as an agency may have while no other has one, each of a name that follows the header of its packets.
    let (mut names, mut packet) = (HashSet::new(), [0; 512]);
    while names.len() < LOOK_UPS.div_ceil(3) {
        let received = timeout(MAX_WAIT, silent.recv_from(&mut packet)).await;
        let (length, _) = received.expect("further look-ups").expect("a packet");
        names.extend(packet[12..length].split(|byte| *byte == 0).next().map(<[u8]>::to_vec));
    }
    fs::remove_file(&resolv_conf).expect("it was read");
    outbound.until_deliveries("pending", 3_000).await;
    outbound.insert_outbox_events_of("zeta", 300, "lead.assigned").await;
    outbound.receiver.wait_for_at("/zeta", 300).await;
    let ended = "SELECT count(*) FROM deliveries WHERE attempts > 0 AND state = 'pending'";
    assert_eq!(outbound.world.database.count(ended).await, 0, "all look-ups are under way or wait");
    outbound.until_deliveries("delivered", 300).await;
    outbound.assert_numbers_have_no_holes().await;
    receivers_that_are_being_checked_delay_no_pages(&console, &outbound.world, &silent).await;
}

/// The pages of the agency itself and of another one while receivers of the first are looked up; then the look-ups of more agencies
/// than one may have.
async fn receivers_that_are_being_checked_delay_no_pages(console: &Program, world: &World, silent: &UdpSocket) {
    let (http, connectctl) = (console.http(), &world.connectctl);
    let creator = Visitor::signed_in(http, connectctl, &["--role", "admin", "--tenant", "acme"]).await;
    let other = Visitor::signed_in(http, connectctl, &["--role", "admin", "--tenant", "zeta"]).await;
    let operator = Visitor::signed_in(http, connectctl, &["--role", "operator"]).await;
    let mut creating: FuturesUnordered<_> = (0..8).map(|_| create(&creator, "acme", "first")).collect();
    for _ in 0..3 {
        let status = creating.next().await.map(|response| response.status);
        assert_eq!(status, Some(503), "one is under way, and four wait");
    }
    until_looked_up(silent, "first").await;
    for _ in 0..10 {
        assert_eq!(other.get("/agencies/zeta").await.status, 200, "a page of another agency");
        assert_eq!(creator.get("/agencies/acme").await.status, 200, "a page of the agency");
    }
    let tenants = "INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, created_at)
        SELECT gen_random_uuid(), 'small-' || n, 'Small', 'ENQ', true, now() FROM generate_series(0, 1000) n";
    world.database.execute(tenants).await;
    for n in 0..=LOOK_UPS.div_ceil(3) {
        let name = format!("small-{n}");
        tokio::select! {
            created = create(&operator, &name, &name) => panic!("it cannot be looked up: {created:?}"),
            () = until_looked_up(silent, &name) => {}
        }
    }
}

async fn create(visitor: &Visitor<'_>, tenant: &str, name: &str) -> HttpResponse {
    let url = format!("https://{name}.console.test/");
    visitor.post(&format!("/agencies/{tenant}/webhooks"), &[("url", &url)]).await
}

async fn until_looked_up(silent: &UdpSocket, name: &str) {
    let mut packet = [0; 512];
    while !packet.windows(name.len()).any(|part| part == name.as_bytes()) {
        timeout(MAX_WAIT, silent.recv(&mut packet)).await.expect("a look-up").expect("a packet");
    }
}

#[tokio::test]
async fn an_agency_whose_every_event_fills_a_round_delays_no_agency_of_another_slot() {
    let outbound = OutboundWorld::without_dispatcher(World::with()).await;
    outbound.insert_subscriptions(1_000, |_| outbound.receiver.url_by_name("/large")).await;
    outbound.insert_outbox_events(300, "lead.assigned").await;
    // Whatever the slot of the large one is, some of these are behind it.
    for number in 0..8 {
        let (tenant, path) = (format!("small-{number}"), format!("/small/{number}"));
        outbound.world.add_tenant(&tenant).await;
        outbound.subscribe_of(&tenant, &outbound.receiver.url_by_name(&path), &[]).await;
        outbound.insert_outbox_events_of(&tenant, 1, "lead.assigned").await;
    }
    // Their subscriptions are old.
    let numbers = "INSERT INTO delivery_numbers SELECT tenant_id, subscription_id, 50000 FROM subscriptions
        JOIN tenants USING (tenant_id) WHERE slug LIKE 'small%'";
    outbound.world.database.execute(numbers).await;
    let mut outbound = outbound;
    outbound.world.add_dispatcher().await;
    for number in 0..8 {
        outbound.receiver.wait_for_at(&format!("/small/{number}"), 1).await;
    }
    let left = outbound.world.database.count("SELECT count(*) FROM outbox_pending").await;
    assert!(left > 0, "all events of the large one were fanned out first");
}

/// A session that has changed rows of acme and not committed, as an erasure or an operator does.
async fn lock(outbound: &OutboundWorld, change: &str) -> Client {
    let of_acme = "WHERE tenant_id = (SELECT tenant_id FROM tenants WHERE slug = 'acme')";
    outbound.world.database.begin(&format!("{change} {of_acme}")).await
}

#[tokio::test]
async fn locked_events_of_one_agency_delay_no_event_of_another_one() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    outbound.world.add_tenant("zeta").await;
    outbound.subscribe("/acme", &[]).await;
    outbound.subscribe_of("zeta", &outbound.receiver.url_by_name("/zeta"), &[]).await;
    outbound.insert_outbox_events(3, "lead.assigned").await;
    outbound.insert_outbox_events_of("zeta", 3, "lead.assigned").await;
    let lock = lock(&outbound, "DELETE FROM outbox_pending").await;
    outbound.world.add_dispatcher().await;
    outbound.until_deliveries("delivered", 3).await;
    assert_eq!(outbound.receiver.received_at("/zeta").len(), 3);
    lock.batch_execute("ROLLBACK").await.expect("a rollback");
    outbound.until_deliveries("delivered", 6).await;
    outbound.assert_numbers_have_no_holes().await;
}

#[tokio::test]
async fn locked_deliveries_of_one_agency_delay_no_delivery_of_another_one() {
    const COUNT: i64 = 300;
    let world = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "16");
    let outbound = OutboundWorld::start_with(world).await;
    let receiver = &outbound.receiver;
    outbound.world.add_tenant("zeta").await;
    receiver.hold();
    for (tenant, path) in [("acme", "/acme"), ("zeta", "/zeta")] {
        receiver.respond(path, Behavior::status(204).held());
        outbound.subscribe_of(tenant, &receiver.url_by_name(path), &[]).await;
        outbound.insert_outbox_events_of(tenant, 300, "lead.assigned").await;
        receiver.wait_for_at(path, 1).await;
    }
    outbound.until_deliveries("pending", 2 * COUNT).await;
    let lock = lock(&outbound, "UPDATE deliveries SET state = 'dropped', next_attempt_at = NULL").await;
    receiver.release();
    outbound.until_deliveries("delivered", COUNT).await;
    let sent = || receiver.received_at("/acme").len();
    assert!(sent() < 300, "as many are sent as can be recorded soon, not {}", sent());
    lock.batch_execute("COMMIT").await.expect("a commit");
    eventually("what was sent is recorded, whatever happened meanwhile", MAX_WAIT, async || {
        let recorded = outbound.count("delivered").await - COUNT;
        if usize::try_from(recorded) == Ok(sent()) { Ok(()) } else { Err(recorded.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn notices_of_one_agencys_dead_letters_delay_no_notice_of_another_one() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    // As many agencies of one slot as have a turn together, with more than one turn takes of each; and another one after them.
    let dead = "INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, attempts, number, needs_notice)
        SELECT format('00000000-0000-4000-8000-0000000%s00', lpad(agency::text, 3, '0'))::uuid, gen_random_uuid(),
               gen_random_uuid(), gen_random_uuid(), 'dead', now(), 6, number, true
        FROM generate_series(1, 65) AS agency, generate_series(1, 33) AS number WHERE agency < 65 OR number = 1";
    outbound.world.database.execute(dead).await;
    outbound.world.add_dispatcher().await;
    outbound.world.database.until_count("SELECT count(*) FROM deliveries WHERE needs_notice", 0).await;
    let notices = outbound.world.queues.take_all("webhooks.dead").await;
    let of_last = |notice: &QueuedMessage| text(&notice.meta_field("tenantId")).ends_with("06500");
    assert_eq!(notices.len(), 64 * 33 + 1, "each once");
    assert_eq!(notices.iter().position(of_last), Some(64 * 16), "after one turn of the others");
}
