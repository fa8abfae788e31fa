//! Whether a program holds the master key that the database was set up with: it opens a canary, a text that is no
//! secret and was sealed under that key.
//!
//! Samples of stored secrets would not do: revoked ones may be of an earlier master key, and one that can be opened says
//! nothing of the others.

use super::error::TxError;
use super::pool::Database;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::model::TenantId;
use crate::sealed::{MasterKey, Secret, key_binding, subscription_binding};
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

/// The canary.
const READ: &str = "-- master_key_canary.read
    SELECT sealed FROM master_key_canary";

/// What a database of the previous release was set up with is known from its newest secret in use.
const NEWEST_SECRET: &str = "-- master_key_canary.newest_secret
    SELECT kind, tenant_id, name, secret_sealed FROM newest_sealed_secret()";

/// Writes the canary unless there is one; of several programs that start at once, one writes it.
const WRITE: &str = "-- master_key_canary.write
    INSERT INTO master_key_canary (sealed) VALUES ($1) ON CONFLICT DO NOTHING";

/// All statements, for a test against the schema.
pub const MASTER_KEY_STATEMENTS: &[&str] = &[READ, NEWEST_SECRET, WRITE];

const CANARY: &str = "canary";
const BINDING: &str = "master-key-canary";

/// How often a master key that differs, or cannot be verified, is logged.
static UNVERIFIED: LogLimit<2> = LogLimit::new();

/// What a master key is to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterKeyState {
    /// The database was set up with it.
    Matches,
    /// The database was set up with another one.
    Differs,
    /// The database has no canary yet, and its newest secret in use is sealed under another key.
    DoesNotOpenNewestSecret,
}

impl MasterKeyState {
    /// Whether the database was set up with it.
    pub fn is_match(self) -> bool {
        self == Self::Matches
    }
}

/// Opens the canary, and writes it where there is none and `master` opens the newest secret in use, or there is none.
pub async fn verify_master_key(client: &Client, master: &MasterKey) -> Result<MasterKeyState, Error> {
    if let Some(state) = read(client, master).await? {
        return Ok(state);
    }
    let newest = client.query_typed(NEWEST_SECRET, &[]).await?;
    if let Some(row) = newest.first()
        && !opens(master, row)?
    {
        return Ok(MasterKeyState::DoesNotOpenNewestSecret);
    }
    let mut nonce = [0; 12];
    // Without random numbers the canary is left to others.
    if SysRng.try_fill_bytes(&mut nonce).is_ok() {
        let sealed = master.seal(&Secret::new(CANARY.to_owned()), BINDING, nonce);
        client.query_typed(WRITE, &[(&sealed, Type::BYTEA)]).await?;
    }
    // Another program may have been the first.
    Ok(read(client, master).await?.unwrap_or(MasterKeyState::DoesNotOpenNewestSecret))
}

/// `None` without a canary.
async fn read(client: &Client, master: &MasterKey) -> Result<Option<MasterKeyState>, Error> {
    let rows = client.query_typed(READ, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let is_opened = master.open(row.try_get(0)?, BINDING).is_ok();
    Ok(Some(if is_opened { MasterKeyState::Matches } else { MasterKeyState::Differs }))
}

fn opens(master: &MasterKey, row: &Row) -> Result<bool, Error> {
    let (kind, tenant, name): (&str, _, &str) = (row.try_get(0)?, TenantId(row.try_get(1)?), row.try_get(2)?);
    let binding = match Uuid::try_parse(name) {
        Ok(id) if kind == "subscription" => subscription_binding(tenant, id),
        _ => key_binding(tenant, name),
    };
    Ok(master.open(row.try_get(3)?, &binding).is_ok())
}

/// Whether a program's `master` is the one that the database was set up with, as far as is known; logs when it is not.
pub fn is_verified(verified: Result<MasterKeyState, TxError>) -> bool {
    match verified {
        Ok(MasterKeyState::Matches) => true,
        Ok(MasterKeyState::Differs | MasterKeyState::DoesNotOpenNewestSecret) => {
            limited!(
                UNVERIFIED[0],
                error,
                "CONNECT_MASTER_KEY differs from the master key that the database was set up with; the program stays unready"
            );
            false
        }
        // Whether Postgres can be reached is another check of readiness.
        Err(TxError::Unavailable(_)) => false,
        Err(error) => {
            limited!(UNVERIFIED[1], warn, %error, "the master key can't be verified; the program stays unready");
            false
        }
    }
}

impl Database {
    /// Whether the database was set up with `master`; false also when it doesn't say so within `within`.
    pub async fn has_master_key(&self, master: &MasterKey, within: Duration) -> bool {
        let verify = async {
            let client = self.client().await?;
            verify_master_key(&client, master).await.map_err(TxError::from)
        };
        let late = |_| Err(TxError::Unavailable("no answer in time".to_owned()));
        is_verified(timeout(within, verify).await.unwrap_or_else(late))
    }
}
