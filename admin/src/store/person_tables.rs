//! The tables that hold data of a person: for each of them, how the person's rows are selected and deleted.

use super::{Parameters, all, execute};
use crate::{AdminError, Result};
use common::db::Sql;
use serde_json::value::RawValue;
use tokio_postgres::{GenericClient, Transaction};

/// By which keys the rows of a person are found. Each statement takes the tenant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonKeys {
    /// The client's id.
    Client,
    /// Ids of leads.
    Leads,
    /// Ids of trips.
    Trips,
    /// Ids of proposals.
    Proposals,
    /// Event ids of the timelines.
    Events,
    /// The client's id, and ids of entries on their timeline.
    Entries,
    /// Accounts of companies, and ids of entries on their timelines.
    AccountEntries,
    /// Accounts of companies, and the client's id and emails.
    AccountContacts,
    /// Ids of notifications.
    Notifications,
    /// Event ids of the outbox.
    Outbox,
    /// Ids of deliveries.
    Deliveries,
    /// API keys and their idempotency keys.
    IdempotencyKeys,
}

/// A table with rows of people.
pub(crate) struct PersonTable {
    /// The name of its rows in an export and in a receipt.
    pub(crate) list: &'static str,
    pub(crate) keys: PersonKeys,
    rows: Sql,
    /// `None` if its rows stay without what they held of the person.
    erase: Option<Sql>,
}

impl PersonTable {
    /// Whether its rows may be many, and no unit of work waits long for one that is being deleted: they are only added and removed,
    /// and a dispatcher leaves those out that it finds locked.
    pub(crate) const fn is_stream(&self) -> bool {
        matches!(
            self.keys,
            PersonKeys::Entries
                | PersonKeys::AccountEntries
                | PersonKeys::Events
                | PersonKeys::Notifications
                | PersonKeys::Outbox
                | PersonKeys::Deliveries
        )
    }

    /// Whether its rows belong to a lead.
    pub(crate) const fn is_of_leads(&self) -> bool {
        matches!(self.keys, PersonKeys::Leads | PersonKeys::Trips | PersonKeys::Proposals)
    }
}

/// A table whose rows `p` are found by a condition.
#[rustfmt::skip]
macro_rules! select {
    ($label:literal, $name:literal, $condition:literal) => {
        Sql::registered(concat!("-- ", $label, ".of_person
    SELECT row_to_json(p)::text FROM ", $name, " p WHERE ", $condition))
    };
}

#[rustfmt::skip]
macro_rules! table {
    ($name:literal as $list:literal by $keys:ident: $condition:literal) => {
        PersonTable {
            list: $list,
            keys: PersonKeys::$keys,
            rows: select!($name, $name, $condition),
            erase: Some(Sql::registered(concat!("-- ", $name, ".erase
    DELETE FROM ", $name, " p WHERE ", $condition))),
        }
    };
}

/// All of them, in the order in which their rows can be deleted.
pub(crate) const TABLES: &[PersonTable] = &[
    table!("itineraries" as "itineraries" by Proposals: "p.tenant_id = $1 AND p.proposal_id = ANY($2)"),
    table!("proposals" as "proposals" by Proposals: "p.tenant_id = $1 AND p.proposal_id = ANY($2)"),
    table!("invoices" as "invoices" by Leads: "p.lead_id = ANY($2) AND p.tenant_id IS NOT DISTINCT FROM $1"),
    table!("trips" as "trips" by Trips: "p.tenant_id = $1 AND p.trip_id = ANY($2)"),
    table!("inbox_messages" as "inboxMessages" by Leads: "p.tenant_id = $1 AND p.lead_id = ANY($2)"),
    table!("notifications" as "notifications" by Notifications: "p.tenant_id = $1 AND p.notification_id = ANY($2)"),
    table!("discoveries" as "discoveries" by Client: "p.client_id = $2 AND p.tenant_id IS NOT DISTINCT FROM $1"),
    table!("leads" as "leads" by Leads: "p.tenant_id = $1 AND p.lead_id = ANY($2)"),
    table!("traveller_profiles" as "travellerProfiles" by Client: "p.tenant_id = $1 AND p.client_id = $2"),
    table!("client_credits" as "clientCredits" by Client: "p.tenant_id = $1 AND p.client_id = $2"),
    table!("travelers" as "travelers" by Client: "p.tenant_id = $1 AND p.client_id = $2"),
    table!("timeline" as "timeline" by Entries: "p.tenant_id = $1 AND p.client_id = $2 AND p.entry_id = ANY($3)"),
    PersonTable {
        list: "accountTimeline",
        keys: PersonKeys::AccountEntries,
        rows: select!(
            "account_timeline",
            "timeline",
            "p.tenant_id = $1 AND p.client_id = ANY($2) AND p.entry_id = ANY($3)"
        ),
        erase: Some(Sql::registered(
            "-- account_timeline.erase
    DELETE FROM timeline p WHERE p.tenant_id = $1 AND p.client_id = ANY($2) AND p.entry_id = ANY($3)",
        )),
    },
    table!("event_ledger" as "events" by Events: "p.tenant_id = $1 AND p.event_id = ANY($2)"),
    table!("attempts" as "attempts" by Deliveries: "p.tenant_id = $1 AND p.delivery_id = ANY($2)"),
    PersonTable {
        list: "deliveries",
        keys: PersonKeys::Deliveries,
        rows: select!("deliveries", "deliveries", "p.tenant_id = $1 AND p.delivery_id = ANY($2)"),
        // They hold ids and times, and their numbers have no holes (D44). A dropped delivery is not attempted any more.
        erase: None,
    },
    table!("outbox" as "outboundEvents" by Outbox: "p.tenant_id = $1 AND p.event_id = ANY($2)"),
    PersonTable {
        list: "idempotencyKeys",
        keys: PersonKeys::IdempotencyKeys,
        rows: Sql::registered(
            "-- idempotency_keys.of_person
    SELECT json_build_object('idempotency_key', p.idempotency_key, 'created_at', p.created_at, 'body', p.body)::text
    FROM unnest($2::text[], $3::text[]) AS w (key_prefix, idempotency_key)
    CROSS JOIN LATERAL (SELECT * FROM idempotency_keys p WHERE p.tenant_id = $1 AND p.key_prefix = w.key_prefix
                        AND p.idempotency_key = w.idempotency_key LIMIT 1) AS p",
        ),
        erase: Some(Sql::registered(
            "-- idempotency_keys.erase
    DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
        SELECT p.place FROM unnest($2::text[], $3::text[]) AS w (key_prefix, idempotency_key)
        CROSS JOIN LATERAL (SELECT ctid AS place FROM idempotency_keys p WHERE p.tenant_id = $1
                            AND p.key_prefix = w.key_prefix AND p.idempotency_key = w.idempotency_key LIMIT 1) AS p
    ))",
        )),
    },
    table!(
        "account_contacts" as "accountContacts" by AccountContacts:
        "p.tenant_id = $1 AND p.account_id = ANY($2)
         AND (p.client_id = $3 OR (p.client_id IS NULL AND p.email_key = ANY($4)))"
    ),
    table!("former_identities" as "formerIdentities" by Client: "p.tenant_id = $1 AND p.client_id = $2"),
    table!("clients" as "client" by Client: "p.tenant_id = $1 AND p.client_id = $2"),
];

/// All statements of this module.
pub(super) const STATEMENTS: &[Sql] = &{
    let mut statements = [TABLES[0].rows; 2 * TABLES.len() - 1];
    let (mut table, mut next) = (0, 0);
    while table < TABLES.len() {
        statements[next] = TABLES[table].rows;
        next += 1;
        if let Some(erase) = TABLES[table].erase {
            statements[next] = erase;
            next += 1;
        }
        table += 1;
    }
    statements
};

/// The rows of a person in a table, as JSON.
pub(crate) async fn rows(
    on: &impl GenericClient, table: &PersonTable, parameters: Parameters<'_>,
) -> Result<Vec<Box<RawValue>>> {
    let read = |row: &tokio_postgres::Row| {
        let parsed = RawValue::from_string(row.try_get(0)?);
        parsed.map_err(|error| AdminError::Unreadable(error.to_string()))
    };
    all(on, table.rows, parameters, read).await
}

/// Deletes the rows of a person in a table, and returns their number.
pub(crate) async fn erase(tx: &Transaction<'_>, table: &PersonTable, parameters: Parameters<'_>) -> Result<u64> {
    match table.erase {
        Some(statement) => execute(tx, statement, parameters).await,
        None => Ok(0),
    }
}
