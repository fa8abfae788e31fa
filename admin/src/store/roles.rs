//! The programs' roles. Names of roles, tables and functions are the definition's, not input: see [`crate::roles`].

use super::{all, exactly_one};
use crate::Result;
use tokio_postgres::{GenericClient, Transaction};

common::statements! {
    /// Which of the roles do not exist.
    const MISSING = "-- roles.missing
    SELECT name FROM unnest($1::text[]) AS name WHERE to_regrole(name) IS NULL";

    /// The schema of the tables, quoted.
    const SCHEMA = "-- roles.schema
    SELECT quote_ident(current_schema())";

    /// The statements that give a role of this database settings, quoted by the server. Without a name it is the current role.
    const SET = "-- role_settings.statements
    SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L', coalesce($1, current_user::text), current_database(), name, value)
    FROM unnest($2::text[], $3::text[]) AS s (name, value)";
}

/// Those of `roles` that do not exist.
pub(crate) async fn missing(client: &impl GenericClient, roles: &[String]) -> Result<Vec<String>> {
    all(client, MISSING, &[&roles], |row| Ok(row.try_get(0)?)).await
}

/// Creates a role that cannot log in, unless another session does so at the same time: roles belong to all databases of a server.
pub(crate) async fn create(client: &impl GenericClient, role: &str) -> Result<(), tokio_postgres::Error> {
    let create = format!(
        "DO $$ BEGIN CREATE ROLE {role} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    );
    client.batch_execute(&create).await
}

/// Executes the statements, and lets the roles use the schema.
pub(crate) async fn apply(client: &impl GenericClient, roles: &str, statements: &[String]) -> Result<()> {
    let schema: String = exactly_one(client, SCHEMA, &[]).await?.try_get(0)?;
    client.batch_execute(&format!("GRANT USAGE ON SCHEMA {schema} TO {roles};{}", statements.join(";"))).await?;
    Ok(())
}

/// Gives the role these settings, all or none of them. Its new sessions begin with them.
pub(crate) async fn set_settings(
    tx: &Transaction<'_>, role: Option<&str>, settings: &[(&'static str, String)],
) -> Result<()> {
    let (names, values): (Vec<&str>, Vec<&str>) = settings.iter().map(|(name, value)| (*name, value.as_str())).unzip();
    let statements = all(tx, SET, &[&role, &names, &values], |row| Ok(row.try_get::<_, String>(0)?)).await?;
    tx.batch_execute(&statements.join(";")).await?;
    Ok(())
}
