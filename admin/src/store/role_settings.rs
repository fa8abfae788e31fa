//! Settings of the programs' database role.

use super::all;
use crate::AdminError;
use tokio_postgres::Transaction;

common::statements! {
    /// The statements that give a role of this database settings, quoted by the server. Without a name it is the current role.
    const SET = "-- role_settings.statements
    SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L', coalesce($1, current_user::text), current_database(), name, value)
    FROM unnest($2::text[], $3::text[]) AS s (name, value)";
}

/// Gives the role these settings, all or none of them. Its new sessions begin with them.
pub(crate) async fn set(
    tx: &Transaction<'_>,
    role: Option<&str>,
    settings: &[(&'static str, String)],
) -> Result<(), AdminError> {
    let (names, values): (Vec<&str>, Vec<&str>) =
        settings.iter().map(|(name, value)| (*name, value.as_str())).unzip();
    let statements = all(tx, SET, &[&role, &names, &values], |row| Ok(row.try_get::<_, String>(0)?)).await?;
    tx.batch_execute(&statements.join(";")).await?;
    Ok(())
}
