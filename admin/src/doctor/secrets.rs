//! The master key and the values that are sealed under it.

use super::Finding;
use crate::{AdminError, sealed_values};
use common::db::{MasterKeyState, read_master_key_state};
use common::sealed::{MasterKeyRole, MasterKeys};
use tokio_postgres::Client;

pub(super) async fn check(client: &Client, keys: &MasterKeys) -> Result<Vec<Finding>, AdminError> {
    let mut findings = Vec::new();
    if read_master_key_state(client, keys).await?.is_some_and(|state| !MasterKeyState::is_match(state)) {
        findings.push(Finding::error(
            "CONNECT_MASTER_KEY differs from the master key that the database was set up with: programs with this key do not work",
            "Set CONNECT_MASTER_KEY, or during a rotation CONNECT_MASTER_KEY_PREVIOUS, to the key that was used before",
        ));
    }
    for counted in sealed_values::count(client, keys).await? {
        let (id, values) = (&counted.key_id, counted.values);
        findings.extend(match counted.key {
            MasterKeyRole::Current => None,
            MasterKeyRole::Previous => Some(Finding::warning(
                format!("{values} values are still sealed under the previous master key {id}"),
                "Run connectctl secrets rotate",
            )),
            MasterKeyRole::Other => Some(Finding::error(
                format!("{values} values are sealed under another master key, {id}"),
                "Set CONNECT_MASTER_KEY_PREVIOUS to that key and run connectctl secrets rotate. If it is lost, rotate the secrets of the keys and subscriptions concerned",
            )),
        });
    }
    Ok(findings)
}
