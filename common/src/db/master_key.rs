//! Verifies that a program has the master key that the database was set up with: the key must decrypt a canary, a public text
//! that was sealed under it.
//!
//! A sample of the stored secrets would not suffice: revoked secrets may be sealed under an earlier master key, and one that
//! can be decrypted proves nothing about the others.

use super::error::TxError;
use super::pool::Database;
use super::statement::Sql;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::sealed::{MasterKey, MasterKeyId, MasterKeys, Secret};
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

crate::statements! {
    /// Reads the canary.
    const READ_CANARY = "-- master_key_canary.read
    SELECT sealed FROM master_key_canary";

    /// Writes the canary unless there is one; of several programs that start at once, one writes it.
    const WRITE_CANARY = "-- master_key_canary.write
    INSERT INTO master_key_canary (sealed) VALUES ($1) ON CONFLICT DO NOTHING";

    /// Replaces the canary, unless somebody else has replaced it.
    const REWRAP_CANARY = "-- master_key_canary.rewrap
    UPDATE master_key_canary SET sealed = $1 WHERE sealed = $2 RETURNING true";
}

/// All statements, for the tests that prepare and explain them against the schema.
pub const MASTER_KEY_STATEMENTS: &[Sql] = STATEMENTS;

const CANARY: &str = "canary";
const BINDING: &str = "master-key-canary";

/// Limits the log lines about a master key that differs or cannot be verified.
static UNVERIFIED: LogLimit<2> = LogLimit::new();

/// Whether the master keys of a program are those of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterKeyState {
    /// The canary is sealed under the current key.
    Matches,
    /// The canary is sealed under the previous key: a rotation of the master key is not finished.
    MatchesPrevious,
    /// The canary is sealed under another key: this one, if the canary was not changed.
    Differs(Option<MasterKeyId>),
}

impl MasterKeyState {
    /// Whether the database can be used with these keys.
    pub fn is_match(self) -> bool {
        matches!(self, Self::Matches | Self::MatchesPrevious)
    }
}

/// Opens the canary. If there is none, no value was sealed yet: writes it under the current key.
pub async fn verify_master_key(client: &Client, keys: &MasterKeys) -> Result<MasterKeyState, Error> {
    if let Some(state) = read_master_key_state(client, keys).await? {
        return Ok(state);
    }
    // If the system has no random numbers, the canary is left to another program, or to the next verification.
    if let Some(sealed) = seal_canary(&keys.current) {
        client.query_typed(WRITE_CANARY.as_str(), &[(&sealed, Type::BYTEA)]).await?;
    }
    // Another program may have written it first.
    Ok(read_master_key_state(client, keys).await?.unwrap_or(MasterKeyState::Differs(None)))
}

/// Seals the canary under the current key, if it is sealed under the previous one. To be called when no
/// other value needs the previous key any more: the canary shows programs which key the database needs. Returns whether it was sealed.
pub async fn rewrap_canary(client: &Client, keys: &MasterKeys) -> Result<bool, Error> {
    let rows = client.query_typed(READ_CANARY.as_str(), &[]).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let sealed: &[u8] = row.try_get(0)?;
    if MasterKeyId::of_sealed(sealed) == Some(keys.current.id()) || keys.open(sealed, BINDING).is_err() {
        return Ok(false);
    }
    let Some(rewrapped) = seal_canary(&keys.current) else { return Ok(false) };
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&rewrapped, Type::BYTEA), (&sealed, Type::BYTEA)];
    Ok(!client.query_typed(REWRAP_CANARY.as_str(), &parameters).await?.is_empty())
}

/// `None` without random numbers.
fn seal_canary(key: &MasterKey) -> Option<Vec<u8>> {
    let mut nonce = [0; 12];
    SysRng.try_fill_bytes(&mut nonce).ok()?;
    Some(key.seal(&Secret::new(CANARY.to_owned()), BINDING, nonce))
}

/// Which of the keys opens the canary; `None` without a canary.
pub async fn read_master_key_state(client: &Client, keys: &MasterKeys) -> Result<Option<MasterKeyState>, Error> {
    let rows = client.query_typed(READ_CANARY.as_str(), &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let sealed = row.try_get(0)?;
    Ok(Some(match keys.open_with(sealed, BINDING) {
        Ok((_, key)) if key.id() == keys.current.id() => MasterKeyState::Matches,
        Ok(_) => MasterKeyState::MatchesPrevious,
        Err(_) => MasterKeyState::Differs(MasterKeyId::of_sealed(sealed)),
    }))
}

/// Whether the verification succeeded; logs when it did not.
pub fn is_verified(verified: Result<MasterKeyState, TxError>, keys: &MasterKeys) -> bool {
    match verified {
        Ok(MasterKeyState::Matches | MasterKeyState::MatchesPrevious) => true,
        Ok(MasterKeyState::Differs(sealed_under)) => {
            let (sealed_under, current) = (sealed_under.map(tracing::field::display), keys.current.id());
            limited!(
                UNVERIFIED[0],
                error,
                sealed_under,
                %current,
                previous = keys.previous.as_ref().map(|key| tracing::field::display(key.id())),
                "CONNECT_MASTER_KEY differs from the master key that the database was set up with; the program stays unready. If the key is being rotated, set CONNECT_MASTER_KEY_PREVIOUS to the earlier key until `connectctl secrets rotate` reports that no values remain"
            );
            false
        }
        // Another check of readiness shows whether Postgres can be reached.
        Err(TxError::Unavailable(_)) => false,
        Err(error) => {
            limited!(UNVERIFIED[1], warn, %error, "verifying the master key failed; the program stays unready");
            false
        }
    }
}

impl Database {
    /// Whether the database was set up with one of `keys`; also false when it does not respond within `within`.
    pub async fn has_master_key(&self, keys: &MasterKeys, within: Duration) -> bool {
        let verify = async {
            let client = self.client().await?;
            verify_master_key(&client, keys).await.map_err(TxError::from)
        };
        let late = |_| Err(TxError::no_response());
        is_verified(timeout(within, verify).await.unwrap_or_else(late), keys)
    }
}
