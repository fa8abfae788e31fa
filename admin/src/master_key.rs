//! Verifying the master key before anything is sealed under it (D5).

use crate::AdminError;
use common::db::{MasterKeyState, verify_master_key};
use common::sealed::MasterKeys;
use tokio_postgres::Client;

/// Refuses master keys of which neither is the one that the database was set up with.
pub async fn verify(client: &Client, master_keys: &MasterKeys) -> Result<(), AdminError> {
    match verify_master_key(client, master_keys).await? {
        MasterKeyState::Matches | MasterKeyState::MatchesPrevious => Ok(()),
        MasterKeyState::Differs(_) => Err(AdminError::MasterKeyDiffers),
    }
}
