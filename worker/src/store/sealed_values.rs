//! The values that are sealed under a master key.

use common::db::{Database, TxError};

common::statements! {
    // By a function of the schema, so that the worker needs no right to read the values.
    const COUNTS = "
    -- sealed_values.of_worker
    SELECT key_id, sealed_values FROM sealed_value_counts()";
}

/// The number of sealed values by the id of their master key.
pub(crate) async fn count_sealed_values(database: &Database) -> Result<Vec<(String, i64)>, TxError> {
    let rows = database.query(COUNTS.as_str(), &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
