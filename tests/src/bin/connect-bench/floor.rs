//! The floor: the bare multi-row inserts that the same events need, straight into the same Postgres. Ledger, client
//! upsert and timeline, one transaction for a batch, nothing else.

use crate::traffic::{PAYLOAD, Sample};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// A connection with the three statements prepared.
pub(crate) struct Floor {
    client: Client,
    ledger: Statement,
    clients: Statement,
    timeline: Statement,
    tenant: Uuid,
}

impl Floor {
    /// On a connection to the programs' own database.
    pub(crate) async fn new(client: Client) -> Self {
        let tenant = client.query_one("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
        let prepare = async |sql: &str| client.prepare(sql).await.expect("a floor statement fits the schema");
        let ledger = prepare(
            "INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id,
                                       warnings, applied_at)
             SELECT $1, id, 'contact.identified', 'floor', $3, 0, $4, '{}', now() FROM unnest($2::text[]) AS id",
        )
        .await;
        let clients = prepare(
            "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
             SELECT $1, id, 'Bench Traveller', email, email, 'individual', now(), now()
             FROM unnest($2::uuid[], $3::text[]) AS c (id, email)
             ON CONFLICT (tenant_id, email_key) WHERE email_key IS NOT NULL DO UPDATE SET updated_at = now()",
        )
        .await;
        let timeline = prepare(
            "INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
             SELECT $1, client, entry, id, 'contact.identified', now(), 'website', $5::text::json
             FROM unnest($2::uuid[], $3::uuid[], $4::text[]) AS t (client, entry, id)",
        )
        .await;
        let tenant = tenant.expect("the agency is there").get(0);
        Self { client, ledger, clients, timeline, tenant }
    }

    /// Writes one batch.
    pub(crate) async fn write(&mut self, samples: &[Sample]) {
        let mut events: Vec<&str> = samples.iter().map(|sample| sample.event_id.as_str()).collect();
        let mut emails: Vec<&str> = samples.iter().map(|sample| sample.email.as_str()).collect();
        events.sort_unstable();
        emails.sort_unstable();
        emails.dedup();
        let client_ids: Vec<Uuid> = emails.iter().map(|_| Uuid::now_v7()).collect();
        let entries: Vec<Uuid> = samples.iter().map(|_| Uuid::now_v7()).collect();
        let (request, tenant) = (Uuid::now_v7(), self.tenant);
        let written = async {
            let transaction = self.client.transaction().await?;
            let ledger: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&tenant, &events, &request, &client_ids[0]];
            let clients: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&tenant, &client_ids, &emails];
            let timeline: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&tenant, &entries, &entries, &events, &PAYLOAD];
            futures_util::try_join!(
                transaction.execute(&self.ledger, &ledger),
                transaction.execute(&self.clients, &clients),
                transaction.execute(&self.timeline, &timeline),
            )?;
            transaction.commit().await
        };
        written.await.unwrap_or_else(|error| panic!("the floor's inserts: {error:?}"));
    }
}
