//! Personal data: what is stored of a person, and its erasure (D32).

mod columns;
mod concurrent;
mod marker;
mod older_events;
mod receipts;

use serde_json::{Value, json};
use tests::{Connectctl, Event, World, event, text};

/// Before every erasure, and after it.
const BEFORE: &str = "2020-01-01T00:00:00Z";
const AFTER: &str = "2999-01-01T00:00:00Z";

/// Every table of the database that holds rows, partitions apart, and of each the number of rows that contain a text.
const TABLES_WITH: &str = "SELECT c.relname AS name,
        (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I t WHERE t::text ILIKE %L',
            c.relname, '%' || $1::text || '%'), false, true, '')))[1]::text::bigint AS rows
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    ORDER BY c.relname";

/// The tables that have rows which contain a text.
async fn tables_with(world: &World, searched: &str) -> Vec<String> {
    let tables = world.database.rows(TABLES_WITH, &[&searched]).await;
    assert!(tables.len() > 30, "{tables:?}");
    let found = tables.iter().filter(|table| table["rows"] != 0);
    found.map(|table| text(&table["name"]).to_owned()).collect()
}

fn at(occurred_at: &str, event: Event) -> Event {
    event.with("occurredAt", json!(occurred_at))
}

fn identified() -> Event {
    at(BEFORE, event("contact.identified"))
}

async fn company(world: &World, domain: &str) -> Value {
    let create = ["company", "create", "--tenant", "acme", "--name", "Example", "--domain", domain];
    world.connectctl.json(&create).await["clientId"].clone()
}

async fn erase(connectctl: &Connectctl, client: &Value) -> Value {
    connectctl.json(&["client", "erase", "--tenant", "acme", "--client", text(client), "--yes"]).await
}

async fn export(connectctl: &Connectctl, client: &Value) -> Value {
    connectctl.json(&["client", "export", "--tenant", "acme", "--client", text(client)]).await
}

/// The status and the error of a result.
fn outcome(result: &Value) -> (&str, &str) {
    (text(&result["status"]), result["error"].as_str().unwrap_or_default())
}
