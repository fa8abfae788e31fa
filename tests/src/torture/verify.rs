//! Comparing the database with what callers were told.

use super::events::as_of;
use super::feed;
use super::oracle::{Oracle, WriteKind};
use super::stack::Stack;
use super::webhooks::FailingReceiver;
use crate::world::text;
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tokio_postgres::{Client, Row};

/// Rows of each query that a report shows.
const SHOWN: usize = 5;

/// Queries that must return no row, and what a row means.
const QUERIES_WITHOUT_ROWS: [(&str, &str); 14] = [
    (
        "an event is on timelines twice",
        "SELECT event_id FROM timeline GROUP BY tenant_id, event_id HAVING count(*) > 1",
    ),
    (
        "an applied event is not on the timeline of its client",
        "SELECT event_id FROM event_ledger l
         WHERE (event_id NOT LIKE 'connect-api:%' OR event_type = 'lead.opened') AND NOT EXISTS (
             SELECT FROM timeline t
             WHERE t.tenant_id = l.tenant_id AND t.client_id = l.client_id AND t.event_id = l.event_id)",
    ),
    (
        "an event is on a timeline and not in the ledger",
        "SELECT event_id FROM timeline t WHERE NOT EXISTS (
             SELECT FROM event_ledger l WHERE l.tenant_id = t.tenant_id AND l.event_id = t.event_id)",
    ),
    (
        "a lead was opened by nothing in the ledger",
        "SELECT lead_id::text FROM leads d WHERE NOT EXISTS (
             SELECT FROM event_ledger l WHERE l.tenant_id = d.tenant_id AND l.lead_id = d.lead_id
                 AND l.event_type IN ('enquiry.submitted', 'traveller.discovery_upserted', 'lead.opened',
                                      'advisor.open-lead'))",
    ),
    (
        "two enquiries opened one lead",
        "SELECT lead_id::text FROM event_ledger
         WHERE event_type IN ('enquiry.submitted', 'lead.opened', 'advisor.open-lead')
         GROUP BY tenant_id, lead_id HAVING count(*) > 1",
    ),
    (
        "the ledger names a lead that does not exist",
        "SELECT l.event_id FROM event_ledger l WHERE lead_id IS NOT NULL AND NOT EXISTS (
             SELECT FROM leads d WHERE d.tenant_id = l.tenant_id AND d.lead_id = l.lead_id)",
    ),
    (
        "a lead has not exactly one trip",
        "SELECT d.lead_id::text FROM leads d LEFT JOIN trips t USING (tenant_id, lead_id)
         GROUP BY d.tenant_id, d.lead_id HAVING count(t.trip_id) <> 1",
    ),
    (
        "a lead has not exactly one notification of its owner",
        "SELECT d.lead_id::text FROM leads d
         LEFT JOIN notifications n ON n.tenant_id = d.tenant_id AND n.lead_id = d.lead_id AND n.kind = 'lead_assigned'
         GROUP BY d.tenant_id, d.lead_id HAVING count(n.notification_id) <> 1",
    ),
    (
        "a lead has not exactly one lead.assigned",
        "SELECT d.lead_id::text FROM leads d
         LEFT JOIN outbox o ON o.tenant_id = d.tenant_id AND o.event_type = 'lead.assigned'
             AND o.envelope->'payload'->>'leadId' = d.lead_id::text
         GROUP BY d.tenant_id, d.lead_id HAVING count(o.event_id) <> 1",
    ),
    (
        "an enquiry number is above the last one that was given out",
        "SELECT d.enquiry_number FROM leads d LEFT JOIN enquiry_counters c
             ON c.tenant_id = d.tenant_id AND c.year = split_part(d.enquiry_number, '-', 2)::int
         WHERE c.last IS NULL OR split_part(d.enquiry_number, '-', 3)::int > c.last",
    ),
    (
        "the counter of writes differs from the ledger",
        "SELECT t.slug FROM tenants t WHERE
             coalesce((SELECT sum(writes) FROM usage_counters u WHERE u.tenant_id = t.tenant_id), 0) <>
             (SELECT count(*) FROM event_ledger l WHERE l.tenant_id = t.tenant_id
                  AND l.event_id LIKE 'connect-api:%' AND l.event_id NOT LIKE 'connect-api:crm:%')",
    ),
    (
        "a booking has not exactly one booking.confirmed, or a canceled one not exactly one booking.cancelled",
        "SELECT i.booking_ref FROM invoices i LEFT JOIN outbox o ON o.tenant_id = i.tenant_id
             AND o.event_type IN ('booking.confirmed', 'booking.cancelled')
             AND o.envelope->'payload'->>'bookingRef' = i.booking_ref
         GROUP BY i.tenant_id, i.booking_ref, i.cancelled_at
         HAVING count(*) FILTER (WHERE o.event_type = 'booking.confirmed') <> 1
             OR count(*) FILTER (WHERE o.event_type = 'booking.cancelled') <> (i.cancelled_at IS NOT NULL)::int",
    ),
    (
        "the credit of a booking is not settled as its event said",
        "SELECT booking_ref FROM invoices WHERE booking_ref LIKE 'B-%'
             AND (credit_state <> 'confirmed' OR credit_applied <> 200 OR balance_due <> 100)",
    ),
    (
        "an advisor's lead has not one lead.stage_changed for each action that changed its stage",
        "SELECT d.lead_id::text FROM event_ledger d
         WHERE d.event_type = 'advisor.open-lead' AND
             (SELECT count(*) FROM event_ledger l WHERE l.tenant_id = d.tenant_id AND l.lead_id = d.lead_id
                  AND l.event_type IN ('advisor.stage', 'advisor.booking-confirm')) <>
             (SELECT count(*) FROM changed c WHERE c.tenant_id = d.tenant_id AND c.lead_id = d.lead_id)",
    ),
];

/// What the last query needs to be quick.
const PREPARE: &str = "
    CREATE TEMP TABLE changed AS
        SELECT tenant_id, (envelope->'payload'->>'leadId')::uuid AS lead_id FROM outbox
        WHERE event_type = 'lead.stage_changed';
    CREATE INDEX ON changed (lead_id);
    CREATE INDEX ON event_ledger (lead_id);
    ANALYZE";

/// How to find what writes have left: the tenant's slug, the name and the id of each.
const WRITTEN: [(WriteKind, &str); 6] = [
    (
        WriteKind::Client,
        "SELECT slug, email, client_id::text FROM clients JOIN tenants USING (tenant_id)
                         WHERE email LIKE '%@records.example'",
    ),
    (
        WriteKind::ClientName,
        "SELECT slug, c.name, '' FROM clients c JOIN tenants USING (tenant_id)
                             WHERE c.name LIKE 'After %'",
    ),
    (
        WriteKind::Lead,
        "SELECT slug, external_id, lead_id::text FROM leads JOIN tenants USING (tenant_id)
                       WHERE external_id IS NOT NULL",
    ),
    (
        WriteKind::Message,
        "SELECT slug, text, '' FROM inbox_messages JOIN tenants USING (tenant_id)
                          WHERE kind = 'message'",
    ),
    (
        WriteKind::Action,
        "SELECT slug, substr(event_id, length('connect-api:crm:') + 1), lead_id::text
                         FROM event_ledger JOIN tenants USING (tenant_id) WHERE event_id LIKE 'connect-api:crm:%'",
    ),
    (WriteKind::Booking, "SELECT slug, booking_ref, '' FROM invoices JOIN tenants USING (tenant_id)"),
];

/// Compares everything, and adds what differs to the violations. The queues must be empty.
pub(super) async fn check(stack: &Stack, oracle: &mut Oracle, receiver: &FailingReceiver) {
    let client = stack.connect().await;
    client.batch_execute(PREPARE).await.expect("the statistics are updated");
    let tenants: HashMap<&str, usize> =
        stack.keys.iter().enumerate().map(|(number, key)| (key.tenant.as_str(), number)).collect();
    events(&client, oracle, &tenants).await;
    writes(&client, oracle, &tenants).await;
    enquiry_numbers(&client, oracle).await;
    credits(&client, oracle, &tenants).await;
    for (what, query) in QUERIES_WITHOUT_ROWS {
        let rows = client.query(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        if !rows.is_empty() {
            let shown: Vec<String> = rows.iter().take(SHOWN).map(|row| row.get(0)).collect();
            oracle.add_violation(format!("{what}: {} times, such as {}", rows.len(), shown.join(", ")));
        }
    }
    webhooks(&client, oracle, &tenants, receiver).await;
}

async fn events(client: &Client, oracle: &mut Oracle, tenants: &HashMap<&str, usize>) {
    let query = "SELECT slug, event_id, client_id::text, lead_id::text, trip_id::text
                 FROM event_ledger JOIN tenants USING (tenant_id) WHERE event_id NOT LIKE 'connect-api:%'";
    let mut applied = HashSet::new();
    for row in client.query(query, &[]).await.expect("the ledger") {
        let id: String = row.get(1);
        let ids = [row.get(2), row.get(3), row.get(4)];
        let sent = oracle.events.get(&id).map(|sent| (sent.tenant, sent.must_fail, sent.ids.clone()));
        match sent {
            Some((tenant, false, told)) if tenants.get(row.get::<_, &str>(0)) == Some(&tenant) => {
                if told.is_some_and(|told| told != ids) {
                    oracle.add_violation(format!("{id} has other ids in the ledger than in its result: {ids:?}"));
                }
            }
            Some(_) | None => oracle.add_violation(format!("{id} is in the ledger, and must not be")),
        }
        applied.insert(id);
    }
    let confirmed = oracle.events.iter().filter(|(_, sent)| sent.ids.is_some());
    let lost: Vec<String> = confirmed.map(|(id, _)| id).filter(|id| !applied.contains(*id)).cloned().collect();
    for id in lost {
        oracle.add_violation(format!("{id} was confirmed and is not in the ledger"));
    }
}

async fn writes(client: &Client, oracle: &mut Oracle, tenants: &HashMap<&str, usize>) {
    let mut found: HashMap<(usize, WriteKind, String), Vec<String>> = HashMap::new();
    for (kind, query) in WRITTEN {
        for row in client.query(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}")) {
            let tenant = tenant_of(&row, tenants);
            found.entry((tenant, kind, row.get(1))).or_default().push(row.get(2));
        }
    }
    let mut violations = Vec::new();
    for (key, ids) in &found {
        if !oracle.writes.contains_key(key) {
            violations.push(format!("{:?} {} exists and was not sent", key.1, key.2));
        } else if ids.len() > 1 {
            violations.push(format!("{:?} {} exists {} times", key.1, key.2, ids.len()));
        }
    }
    for ((tenant, kind, name), sent) in &oracle.writes {
        let Some(confirmed) = &sent.confirmed else { continue };
        let Some(ids) = found.get(&(*tenant, *kind, name.clone())) else {
            violations.push(format!("{kind:?} {name} was confirmed and does not exist"));
            continue;
        };
        // The confirmation of an action is its whole reply.
        if *kind != WriteKind::Action && !ids.contains(confirmed)
            || *kind == WriteKind::Action && !ids.iter().any(|id| confirmed.contains(id.as_str()))
        {
            violations.push(format!("{kind:?} {name} was confirmed as {confirmed} and is {ids:?}"));
        }
    }
    violations.into_iter().for_each(|what| oracle.add_violation(what));
}

async fn enquiry_numbers(client: &Client, oracle: &mut Oracle) {
    let rows = client.query("SELECT lead_id::text, enquiry_number FROM leads", &[]).await.expect("the leads");
    let stored: HashMap<String, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let shown = std::mem::take(&mut oracle.enquiry_numbers);
    for (lead, number) in shown.iter().filter(|(lead, number)| stored.get(*lead) != Some(*number)) {
        let stored = stored.get(lead);
        oracle.add_violation(format!("the number of lead {lead} was shown as {number} and is {stored:?}"));
    }
}

async fn credits(client: &Client, oracle: &mut Oracle, tenants: &HashMap<&str, usize>) {
    let query = "SELECT slug, email, as_of, available_paise FROM client_credits
                 JOIN clients USING (tenant_id, client_id) JOIN tenants USING (tenant_id)";
    let mut stored: HashMap<(usize, String), (DateTime<Utc>, i64)> = HashMap::new();
    for row in client.query(query, &[]).await.expect("the credits") {
        let tenant = tenant_of(&row, tenants);
        stored.insert((tenant, row.get(1)), (row.get(2), row.get(3)));
    }
    let mut violations = Vec::new();
    for (person, balances) in &oracle.credits {
        let newest = balances.iter().filter(|one| one.is_confirmed).map(|one| one.number).max();
        match (stored.get(person), newest) {
            (None, None) => {}
            (Some((at, paise)), _)
                if balances.iter().any(|one| one.number == *paise)
                    && *at == as_of(*paise)
                    && newest.is_none_or(|newest| newest <= *paise) => {}
            (stored, newest) => {
                violations.push(format!("the credit of {person:?} is {stored:?}; the newest confirmed is {newest:?}"));
            }
        }
    }
    violations.into_iter().for_each(|what| oracle.add_violation(what));
}

async fn webhooks(client: &Client, oracle: &mut Oracle, tenants: &HashMap<&str, usize>, receiver: &FailingReceiver) {
    receiver.violations().into_iter().take(SHOWN).for_each(|what| oracle.add_violation(what));
    let (mut receipts, subscriptions) = (receiver.receipts(), receiver.subscriptions());
    let query = "SELECT slug, event_id::text, key_prefix, envelope FROM outbox JOIN tenants USING (tenant_id)";
    let (mut emitted, mut in_feed): (i64, usize) = (0, 0);
    let feed = std::mem::take(&mut oracle.feed);
    let shown: HashMap<&str, &Value> = feed.iter().map(|event| (text(&event["eventId"]), event)).collect();
    for row in client.query(query, &[]).await.expect("the outbox") {
        let (event, key, envelope): (String, Option<String>, Value) = (row.get(1), row.get(2), row.get(3));
        let tenant = tenant_of(&row, tenants);
        let is_echo = |own: &Option<String>| own.is_some() && *own == key;
        for one in subscriptions.iter().filter(|one| one.tenant == tenant && !is_echo(&one.key)) {
            emitted += 1;
            let receipt = receipts.remove(&(one.path.clone(), event.clone()));
            if feed::is_read(one) {
                in_feed += 1;
                if shown.get(event.as_str()) != Some(&&envelope) {
                    oracle.add_violation(format!("the feed does not show event {event} as it was emitted"));
                }
                continue;
            }
            match receipt {
                Some(receipt) if receipt.succeeded > 0 => {}
                receipt => {
                    oracle.add_violation(format!("event {event} was not delivered to {}: {receipt:?}", one.path));
                }
            }
        }
    }
    for ((path, event), receipt) in receipts.into_iter().take(SHOWN) {
        oracle.add_violation(format!("{path} received event {event}, which was not emitted to it: {receipt:?}"));
    }
    if (feed.len(), shown.len()) != (in_feed, in_feed) {
        oracle.add_violation(format!("the feed shows {} deliveries of {in_feed} events", feed.len()));
    }
    let states = "SELECT count(*), count(*) FILTER (WHERE state = 'delivered') FROM deliveries";
    let row = client.query_one(states, &[]).await.expect("the deliveries");
    let (recorded, delivered): (i64, i64) = (row.get(0), row.get(1));
    if (recorded, delivered) != (emitted, emitted) {
        let what = format!("{emitted} deliveries were emitted, {recorded} are recorded, {delivered} as delivered");
        oracle.add_violation(what);
    }
}

/// The number of the tenant that the first column of a row names.
fn tenant_of(row: &Row, tenants: &HashMap<&str, usize>) -> usize {
    tenants.get(row.get::<_, &str>(0)).copied().unwrap_or(usize::MAX)
}
