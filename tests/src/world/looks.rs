//! Looking at what came of events.

use super::World;
use crate::eventually::{PATIENCE, eventually};
use serde_json::Value;

/// Looking at `acme`'s records, as an operator does. Arrays have the newest last.
impl World {
    /// Timeline of a client.
    pub async fn timeline(&self, client: &Value) -> Vec<Value> {
        self.connectctl.list(&["timeline", "--tenant", "acme", "--client", text(client)]).await
    }

    /// Leads of the pipeline, with further options.
    pub async fn pipeline(&self, options: &[&str]) -> Vec<Value> {
        self.connectctl.list(&[&["pipeline", "--tenant", "acme"], options].concat()).await
    }

    /// The pipeline's row of one lead.
    pub async fn lead(&self, id: &Value) -> Value {
        let rows = self.pipeline(&[]).await;
        let found = rows.iter().find(|row| row["id"] == *id);
        found.unwrap_or_else(|| panic!("no lead {id} in {rows:?}")).clone()
    }

    /// Inbox thread of a lead.
    pub async fn inbox(&self, lead: &Value) -> Vec<Value> {
        self.connectctl.list(&["inbox", "--tenant", "acme", "--lead", text(lead)]).await
    }

    /// What members were told.
    pub async fn notifications(&self) -> Vec<Value> {
        self.connectctl.list(&["notifications", "--tenant", "acme"]).await
    }

    /// Discovery records of a client.
    pub async fn discovery(&self, client: &Value) -> Vec<Value> {
        self.connectctl.list(&["discovery", "--tenant", "acme", "--client", text(client)]).await
    }

    /// Invoices of a lead.
    pub async fn invoices(&self, lead: &Value) -> Vec<Value> {
        self.connectctl.list(&["invoice", "--tenant", "acme", "--lead", text(lead)]).await
    }

    /// The row of a client.
    pub async fn client(&self, id: &Value) -> Value {
        let query = "SELECT * FROM clients WHERE client_id::text = $1";
        let mut rows = self.database.rows(query, &[&text(id)]).await;
        assert_eq!(rows.len(), 1, "client {id}");
        rows.remove(0)
    }

    /// Waits until that many messages wait in a queue such as `events` or `events.dead`.
    pub async fn until_depth(&self, queue: &str, depth: u32) {
        eventually(&format!("{depth} messages wait in {queue}"), PATIENCE, async || {
            let found = self.queues.depth(queue).await;
            if found == depth { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }
}

/// A JSON value that is text.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}
