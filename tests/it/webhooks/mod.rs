//! Outbound webhooks, from their cause to the receiver, with the real programs.

mod damaged;
mod echo;
mod egress;
mod faults;
mod feed;
mod first_attempts;
mod isolation;
mod model;
mod operator;
mod replay_jobs;
mod rotation;
mod round_trips;
mod schedule;
mod slots;
mod subscriptions;
mod test_events;
mod types;

use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::{Authority, MAX_WAIT, ReceivedRequest, Receiver, World, WorldBuilder, event, eventually, text};

/// A world with a dispatcher, and a receiver with TLS that it trusts.
struct OutboundWorld {
    world: World,
    receiver: Receiver,
    authority: Arc<Authority>,
}

/// A subscription as it was created.
struct Subscription {
    id: String,
    secret: String,
}

impl OutboundWorld {
    /// The shared world, whose dispatcher has the same settings as that of [`start`](Self::start).
    async fn shared() -> Self {
        let authority = Authority::shared();
        Self { world: World::shared().await, receiver: Receiver::https(&authority), authority }
    }

    /// With short waits: retries follow 100, 200, 400 .. milliseconds after the attempt before.
    async fn start() -> Self {
        Self::start_with(World::with()).await
    }

    async fn start_with(builder: WorldBuilder) -> Self {
        Self::with_dispatchers(1, builder).await
    }

    /// Without a dispatcher, for tests that start one of their own.
    async fn without_dispatcher(builder: WorldBuilder) -> Self {
        Self::with_dispatchers(0, builder).await
    }

    /// Settings of the builder take precedence.
    async fn with_dispatchers(count: usize, builder: WorldBuilder) -> Self {
        let authority = Arc::new(Authority::new());
        let receiver = Receiver::https(&authority);
        let file = authority.file().to_str().expect("a path in Unicode").to_owned();
        let builder = builder
            .dispatchers(count)
            .set_default("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
            .set_default("CONNECT_WEBHOOK_CA_FILE", &file)
            .set_default("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms")
            .set_default("CONNECT_WEBHOOK_BACKOFF_CAP", "10s");
        Self { world: builder.start().await, receiver, authority }
    }

    /// Subscribes the receiver at `path`, with more options of `subscription create`.
    async fn subscribe(&self, path: &str, options: &[&str]) -> Subscription {
        self.subscribe_url(&self.receiver.url_by_name(path), options).await
    }

    async fn subscribe_url(&self, url: &str, options: &[&str]) -> Subscription {
        self.subscribe_of("acme", url, options).await
    }

    /// Subscribes a receiver to the events of a tenant.
    async fn subscribe_of(&self, tenant: &str, url: &str, options: &[&str]) -> Subscription {
        let create = ["subscription", "create", "--tenant", tenant, "--url", url];
        let made = self.world.connectctl.json(&[&create, options].concat()).await;
        Subscription { id: text(&made["id"]).to_owned(), secret: text(&made["secret"]).to_owned() }
    }

    /// Pauses, resumes or removes a subscription.
    async fn change_subscription(&self, command: &str, subscription: &Subscription) {
        self.world.connectctl.json(&["subscription", command, &subscription.id]).await;
    }

    /// Opens a lead, which causes one `lead.assigned` for every subscription. Returns the result of its event.
    async fn open_lead(&self) -> Value {
        self.world.accept(event("enquiry.submitted").email("ana@example.com").name("Ana")).await
    }

    /// The same, and waits until that many deliveries are in a state.
    async fn open_lead_until(&self, state: &str, count: i64) -> Value {
        let opened = self.open_lead().await;
        self.until_deliveries(state, count).await;
        opened
    }

    /// The number of deliveries in a state.
    async fn count(&self, state: &str) -> i64 {
        let query = format!("SELECT count(*) FROM deliveries WHERE state = '{state}'");
        self.world.database.count(&query).await
    }

    /// Waits until that many deliveries are in a state.
    async fn until_deliveries(&self, state: &str, count: i64) {
        self.until_deliveries_within(MAX_WAIT, state, count).await;
    }

    async fn until_deliveries_within(&self, within: Duration, state: &str, count: i64) {
        let began = Instant::now();
        eventually(&format!("{count} deliveries are {state}"), within, async || match self.count(state).await {
            found if found == count => Ok(()),
            found if began.elapsed() > within / 2 => Err(format!("{found}; {}", self.describe().await)),
            found => Err(format!("{found}")),
        })
        .await;
    }

    /// Where the deliveries are, for the message of a failed test.
    async fn describe(&self) -> String {
        let query = "SELECT state, attempts, count(*), min(next_attempt_at - now())::text AS due_in
                     FROM deliveries GROUP BY state, attempts";
        let deliveries = self.world.database.rows(query, &[]).await;
        let slots =
            "SELECT holder, count(*), max(leased_until - now())::text AS leased FROM dispatcher_slots GROUP BY 1";
        let slots = self.world.database.rows(slots, &[]).await;
        format!("{deliveries:?}, {} events to fan out, slots {slots:?}", self.pending_events().await)
    }

    /// The number of events that are not fanned out.
    async fn pending_events(&self) -> i64 {
        self.world.database.count("SELECT count(*) FROM outbox_pending").await
    }

    /// Waits until no event is waiting to be fanned out and no delivery is pending.
    async fn until_settled(&self) {
        let query = "SELECT (SELECT count(*) FROM outbox_pending)
                          + (SELECT count(*) FROM deliveries WHERE state = 'pending')";
        self.world.database.until_count(query, 0).await;
    }

    /// Waits until nothing is pending; returns the requests received since the last call, in the order of their events.
    async fn take_received(&self) -> Vec<ReceivedRequest> {
        self.until_settled().await;
        let mut came = self.receiver.received();
        self.receiver.clear_received();
        came.sort_by_cached_key(|webhook| text(&webhook.json()["eventId"]).to_owned());
        came
    }

    /// Attempts on record of the deliveries to a subscription, in their order.
    async fn attempts(&self, subscription: &Subscription) -> Vec<Value> {
        let query = "SELECT a.attempt, a.status, a.error, a.response, a.duration_ms, a.at
                     FROM deliveries d CROSS JOIN LATERAL (
                         SELECT attempt, status, error, response, duration_ms, at FROM attempts a
                         WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id
                         UNION ALL
                         SELECT 1, d.last_status, d.last_error, NULL, d.last_duration_ms, d.last_at
                         WHERE d.attempts = 1 AND d.state = 'delivered'
                     ) a
                     WHERE d.subscription_id::text = $1 ORDER BY d.number, a.attempt";
        self.world.database.rows(query, &[&subscription.id]).await
    }

    /// Deliveries to a subscription, in the order of their numbers.
    async fn deliveries(&self, subscription: &Subscription) -> Vec<Value> {
        let query = "SELECT d.delivery_id::text AS id, d.event_id::text AS event, d.state, d.attempts, d.number
                     FROM deliveries d WHERE d.subscription_id::text = $1 ORDER BY d.number";
        self.world.database.rows(query, &[&subscription.id]).await
    }

    /// Waits until that many deliveries to a subscription are pending.
    async fn until_pending(&self, subscription: &Subscription, count: usize) {
        eventually(&format!("{count} deliveries are pending"), MAX_WAIT, async || {
            let deliveries = self.deliveries(subscription).await;
            let pending = deliveries.iter().filter(|delivery| delivery["state"] == "pending").count();
            if pending == count { Ok(()) } else { Err(format!("{deliveries:?}")) }
        })
        .await;
    }

    /// Waits until a metric of the first dispatcher has that value.
    async fn until_metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.world.dispatchers[0].until_sum(name, labels, value).await;
    }
}
