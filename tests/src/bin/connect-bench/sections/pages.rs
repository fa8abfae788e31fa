//! The pages of the settings area over a large database: every page that an operator sees, with its response time.
//!
//! The rows are inserted in bulk: an event for every two deliveries, an attempt for each delivery, one in a thousand of them
//! dead-lettered; clients with a lead, a trip and three timeline entries each. Tables are analyzed afterwards.

use crate::figures::{millis, percentile, timed};
use crate::options::Options;
use common::progress::Progress;
use tests::{HttpClient, HttpRequest, Program, World, text};
use uuid::Uuid;

/// Rows inserted by one statement; progress is printed after each.
const CHUNK: u64 = 250_000;
const CLIENTS: u64 = 100_000;
const SUBSCRIPTIONS: usize = 5;
/// Requests of each page that are measured, and those before them.
const REQUESTS: usize = 40;
const WARM_UP: usize = 3;
/// Longest median that a page may have, in seconds.
const TARGET: f64 = 0.1;

/// An id of row `n` that grows with it, as UUIDs of version 7 do with time.
const ID: &str = "
    CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT (lpad(to_hex(1700000000000 + n * 100), 12, '0') || '7' || substr(md5(kind || n), 1, 3)
               || '8' || substr(md5(n || kind), 1, 15))::uuid $$";

/// Each statement inserts the rows `$1` to before `$2`; `$3` are the subscriptions.
const CLIENT_ROWS: &str = "
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, external_id, client_type,
                         created_at, updated_at)
    SELECT tenant_id, pg_temp.id('client', n), 'Bulk Traveller', 'bulk.' || n || '@gmail.com',
           'bulk.' || n || '@gmail.com', '+917' || lpad(n::text, 9, '0'), '917' || lpad(n::text, 9, '0'), 'bulk-' || n,
           'individual', date_trunc('milliseconds', now()), date_trunc('milliseconds', now())
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";
const LEAD_ROWS: &str = "
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, brief, created_at,
                       updated_at)
    SELECT tenant_id, pg_temp.id('lead', n), pg_temp.id('client', n), 'BULK-' || n, 'bulk-lead-' || n, 'Goa',
           (ARRAY['inquiry', 'follow_up', 'lost'])[1 + n % 3], '{}', now(), now()
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";
const TRIP_ROWS: &str = "
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
    SELECT tenant_id, pg_temp.id('trip', n), pg_temp.id('lead', n), 'Goa', '{}', now(), now()
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";
const TIMELINE_ROWS: &str = "
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin)
    SELECT tenant_id, pg_temp.id('client', n % 100000), pg_temp.id('entry', n), 'bulk-' || n, 'contact.identified', now(),
           'bulk'
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";
const EVENT_ROWS: &str = "
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, relayed_at)
    SELECT tenant_id, pg_temp.id('event', n),
           (ARRAY['lead.assigned', 'lead.stage_changed', 'trip.updated'])[1 + n % 3], 'crm', '{}', now(), now()
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";
const DELIVERY_ROWS: &str = "
    INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at)
    SELECT tenant_id, pg_temp.id('delivery', n), pg_temp.id('event', n / 2),
           ($3::uuid[])[1 + n % array_length($3::uuid[], 1)], CASE WHEN n % 1000 = 0 THEN 'dead' ELSE 'delivered' END, now()
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme'";
const ATTEMPT_ROWS: &str = "
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
    SELECT tenant_id, pg_temp.id('delivery', n), 1, now(), CASE WHEN n % 1000 = 0 THEN 500 ELSE 200 END, 20
    FROM tenants, generate_series($1::bigint, $2::bigint - 1) AS n WHERE slug = 'acme' AND $3::uuid[] IS NOT NULL";

const SETTLE: [&str; 8] = [
    "VACUUM (ANALYZE) clients",
    "VACUUM (ANALYZE) leads",
    "VACUUM (ANALYZE) trips",
    "VACUUM (ANALYZE) timeline",
    "VACUUM (ANALYZE) outbox",
    "VACUUM (ANALYZE) deliveries",
    "VACUUM (ANALYZE) attempts",
    "CHECKPOINT",
];

pub(crate) async fn run(options: &Options) {
    let deliveries = options.deliveries;
    println!(
        "pages: the settings area with {deliveries} deliveries and {CLIENTS} clients of one agency; an operator's"
    );
    println!("requests one at a time, {REQUESTS} of each page; target: a median of {}", millis(TARGET));
    let world = World::start().await;
    let subscriptions = subscribe(&world).await;
    insert_rows(&world, deliveries, &subscriptions).await;
    let console = Program::console(world.settings()).await;
    let cookie = sign_in(&world, console.http()).await;
    let mut slowest = (0.0_f64, String::new());
    println!("{:>10} {:>10} {:>10} {:>8}  page", "median", "p95", "longest", "KiB");
    for path in paths(&world, &subscriptions).await {
        let request = HttpRequest::new("GET", &path, "").with("cookie", &cookie);
        let (mut times, mut size) = (Vec::new(), 0);
        for number in 0..WARM_UP + REQUESTS {
            let (response, took) = timed(console.http().send(&request)).await;
            assert_eq!(response.status, 200, "{path}");
            size = response.body.len();
            if number >= WARM_UP {
                times.push(took);
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        let [middle, high, longest] = [0.5, 0.95, 1.0].map(|part| percentile(&times, part));
        let path = path.split_once("0000-7").map_or(path.as_str(), |(short, _)| short);
        println!(
            "{:>10} {:>10} {:>10} {:>8}  {path}",
            millis(middle),
            millis(high),
            millis(longest),
            size >> 10
        );
        if middle > slowest.0 {
            slowest = (middle, path.to_owned());
        }
    }
    let verdict = if slowest.0 < TARGET { "reached" } else { "missed" };
    println!("slowest median: {} of {}; the target is {verdict}", millis(slowest.0), slowest.1);
}

/// Creates the subscriptions of the tenant, and returns their ids.
async fn subscribe(world: &World) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for number in 0..SUBSCRIPTIONS {
        let url = format!("https://8.8.8.8/hooks/{number}");
        let created =
            world.connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", &url]).await;
        ids.push(Uuid::try_parse(text(&created["id"])).expect("a UUID"));
    }
    ids
}

async fn insert_rows(world: &World, deliveries: u64, subscriptions: &Vec<Uuid>) {
    let connection = world.database.connect().await;
    connection.batch_execute("SET synchronous_commit = off").await.expect("a setting of the session");
    connection.batch_execute(ID).await.expect("a function of the session");
    let tables = [
        (CLIENT_ROWS, CLIENTS),
        (LEAD_ROWS, CLIENTS),
        (TRIP_ROWS, CLIENTS),
        (TIMELINE_ROWS, 3 * CLIENTS),
        (EVENT_ROWS, deliveries.div_ceil(2)),
        (DELIVERY_ROWS, deliveries),
        (ATTEMPT_ROWS, deliveries),
    ];
    let total = tables.iter().map(|(_, rows)| rows).sum();
    let mut progress = Progress::begin("rows inserted:", total);
    let mut done = 0;
    for (sql, rows) in tables {
        let statement = connection.prepare(sql).await.expect("the statement fits the schema");
        for first in (0..rows).step_by(CHUNK as usize) {
            let end = rows.min(first + CHUNK);
            let range = [first, end].map(|number| i64::try_from(number).expect("few rows"));
            let inserted = connection.execute(&statement, &[&range[0], &range[1], subscriptions]).await;
            inserted.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            done += end - first;
            progress.reached(done);
        }
    }
    progress.end(done);
    for statement in SETTLE {
        let settled = connection.batch_execute(statement).await;
        settled.unwrap_or_else(|error| eprintln!("{statement}: {error}"));
    }
}

/// Signs an operator in, and returns the cookie of the session.
async fn sign_in(world: &World, console: &HttpClient) -> String {
    let link = world.connectctl.json(&["console", "login", "--role", "operator"]).await;
    let token = text(&link["url"]).rsplit('/').next().expect("a token").to_owned();
    let form = HttpRequest::new("POST", "/sign-in", format!("token={token}"))
        .with("content-type", "application/x-www-form-urlencoded")
        .with("sec-fetch-site", "same-origin");
    let response = console.send(&form).await;
    assert_eq!(response.status, 303, "{response:?}");
    response.header("set-cookie").split(';').next().expect("a cookie").to_owned()
}

/// Every page with data, of records in the middle of their tables.
async fn paths(world: &World, subscriptions: &[Uuid]) -> Vec<String> {
    let ids = world
        .database
        .rows(
            "SELECT (SELECT delivery_id FROM deliveries ORDER BY delivery_id DESC OFFSET 1000 LIMIT 1) AS delivery,
                    (SELECT event_id FROM outbox ORDER BY event_id DESC OFFSET 1000 LIMIT 1) AS event,
                    (SELECT client_id FROM clients WHERE email_key = 'bulk.50000@gmail.com') AS client,
                    (SELECT lead_id FROM leads WHERE enquiry_number = 'BULK-50000') AS lead",
            &[],
        )
        .await
        .remove(0);
    let [delivery, event, client, lead] =
        ["delivery", "event", "client", "lead"].map(|name| text(&ids[name]).to_owned());
    let of_all = ["/", "/queues", "/queues/webhooks", "/audit", "/runbook"].map(str::to_owned);
    let (key, subscription) = (&world.key.prefix, subscriptions[0]);
    let of_tenant = [
        String::new(),
        "/keys".to_owned(),
        "/keys/new".to_owned(),
        format!("/keys/{key}"),
        "/refusals".to_owned(),
        "/signature".to_owned(),
        "/webhooks".to_owned(),
        format!("/webhooks/{subscription}"),
        "/deliveries".to_owned(),
        "/deliveries?state=dead".to_owned(),
        "/deliveries?state=delivered&type=lead.assigned".to_owned(),
        format!("/deliveries?subscription={subscription}"),
        format!("/deliveries?before={delivery}"),
        format!("/deliveries/{delivery}"),
        "/deliveries/replay?state=dead".to_owned(),
        "/replays".to_owned(),
        "/settings".to_owned(),
        "/audit".to_owned(),
        format!("/find?id={event}"),
        format!("/find?id={delivery}"),
        format!("/find?id={lead}"),
        "/find?id=bulk.50000%40gmail.com".to_owned(),
        "/find?id=BULK-50000".to_owned(),
        "/pipeline".to_owned(),
        format!("/leads/{lead}"),
        format!("/clients/{client}"),
    ];
    let of_tenant = of_tenant.into_iter().map(|path| format!("/agencies/acme{path}"));
    of_all.into_iter().chain([format!("/find?id={event}")]).chain(of_tenant).collect()
}
