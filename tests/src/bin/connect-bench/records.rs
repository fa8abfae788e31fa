//! The records API: the writes that integrators send most, and a read.

use crate::comparison::Comparison;
use crate::measure::{LoadStats, Sender, measure, timed};
use crate::options::Options;
use crate::round_trips::round_trips;
use crate::traffic::random_id;
use crate::worlds::{filled, warnings};
use futures_util::future::join_all;
use std::time::Duration;
use tests::{ApiKey, HttpRequest, RECORDS, World, now};
use uuid::Uuid;

const CONNECTIONS: [usize; 2] = [8, 1];

/// Method, target, body and expected status of a request. `{new}` is a new id, `{id}` that of a lead or client.
type Request = (&'static str, &'static str, &'static str, u16);

pub(crate) const CREATE_CLIENT: Request =
    ("POST", "/clients", r#"{"name":"Bench Traveller","email":"{new}@example.net","externalId":"{new}"}"#, 201);
const CREATE_LEAD: Request = (
    "POST",
    "/leads",
    r#"{"contact":{"name":"Bench Traveller","email":"{new}@example.net","phone":"+91 98 7654 3210"},"externalId":"{new}","destination":"Kerala","travelDates":{"startDate":"2026-11-02","endDate":"2026-11-12"},"party":{"adults":2,"children":1,"rooms":1},"budget":{"amount":250000,"currency":"INR"},"message":"Two weeks in the south, one of them by boat.","attribution":{"source":"google","medium":"cpc","campaign":"monsoon"}}"#,
    201,
);
const CHANGE_TRIP: Request = (
    "PATCH",
    "/leads/{id}/trip",
    r#"{"destination":"Kerala, route {new}","party":{"adults":2,"rooms":1},"changeSummary":"change {new}"}"#,
    200,
);
/// Each differs in its query, so that its signature does.
const READ_CLIENT: Request = ("GET", "/clients/{id}?{new}", "", 200);

pub(crate) async fn run(options: &Options) -> String {
    let world = filled().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1000000"]).await;
    let sender = Sender::new(&world, &world.key);
    // Their trips are changed, drawn at random.
    for _ in 0..200 {
        sender.send(&signed(&world.key, CREATE_LEAD, Uuid::nil()), 201).await;
    }
    world.database.execute("ANALYZE").await;
    let leads = ids(&world, "SELECT lead_id FROM leads").await;
    let clients = ids(&world, "SELECT client_id FROM clients WHERE client_type = 'individual' LIMIT 1").await;
    let mut writes = Comparison::of_rates("requests", "round trips");
    let mut reads = Comparison::of_rates("requests", "bare selects");
    let length = options.duration();
    for _ in 0..options.rounds {
        for connections in CONNECTIONS {
            let label = |(method, target, ..): Request| format!("{method} {target}, connections: {connections}");
            let changes = [CREATE_LEAD, CREATE_CLIENT, CHANGE_TRIP].into_iter();
            for request in changes.filter(|_| connections > 1) {
                let load = load(&world, request, connections, &leads, length);
                let floor = round_trips(&world, connections, options.floor());
                writes.measure(&label(request), &world, load, floor).await;
            }
            let load = load(&world, READ_CLIENT, connections, &clients, length);
            let floor = selects(&world, clients[0], connections, options.floor());
            reads.measure(&label(READ_CLIENT), &world, load, floor).await;
        }
    }
    format!(
        "Signed requests of one tenant. Floor of a write: bare round trips over a quorum queue by as many callers; of a read: the\nbare prepared `SELECT` by primary key over as many connections.\n\n{}\n{}{}",
        writes.tables(),
        reads.tables(),
        warnings(&world)
    )
}

async fn load(world: &World, request: Request, connections: usize, known: &[Uuid], length: Duration) -> LoadStats {
    let sender = Sender::new(world, &world.key);
    measure(connections, length, 1, async |_| {
        let known = known[random_id().as_u128() as usize % known.len()];
        sender.send(&signed(&world.key, request, known), request.3).await.1
    })
    .await
}

/// A request with a new id.
pub(crate) fn signed(key: &ApiKey, (method, target, body, _): Request, known: Uuid) -> HttpRequest {
    let (new, known) = (random_id().to_string(), known.to_string());
    let target = format!("{RECORDS}{}", target.replace("{id}", &known).replace("{new}", &new));
    let request = key.records_at(now(), method, &target, body.replace("{new}", &new));
    if method == "POST" { request.with("idempotency-key", new) } else { request }
}

/// The bare prepared `SELECT` of a client by primary key.
async fn selects(world: &World, client: Uuid, connections: usize, length: Duration) -> LoadStats {
    let tenant = ids(world, "SELECT tenant_id FROM tenants WHERE slug = 'acme'").await[0];
    let connect = async |_| {
        let connection = world.database.connect().await;
        let statement = "SELECT * FROM clients WHERE tenant_id = $1 AND client_id = $2";
        let statement = connection.prepare(statement).await.expect("the look-up fits the schema");
        (connection, statement)
    };
    let connections = join_all((0..connections).map(connect)).await;
    measure(connections.len(), length, 1, async |number| {
        let (connection, statement) = &connections[number];
        let (row, took) = timed(connection.query_one(statement, &[&tenant, &client])).await;
        row.expect("the client exists");
        took
    })
    .await
}

async fn ids(world: &World, statement: &str) -> Vec<Uuid> {
    let rows = world.database.connect().await.query(statement, &[]).await.expect("ids");
    rows.iter().map(|row| row.get(0)).collect()
}
