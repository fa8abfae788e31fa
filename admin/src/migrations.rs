//! Schema migrations as operators start them.

use crate::audit::{Actor, AuditAction, record};
use crate::roles::{self, RolePrefix};
use crate::{Observer, ProgressStep, Result, store, transact};
use common::db::Migrations;
use serde::Serialize;
use tokio_postgres::{Client, Transaction};

/// The migrations of one run.
#[derive(Clone, Debug, Serialize)]
pub struct MigrationReport {
    /// Names such as `V1__tables`, in their order.
    pub applied: Vec<String>,
    /// The role that got the settings of the programs' sessions, see [`set_role_settings`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The programs' roles that got their privileges, see [`crate::roles`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// Gives the programs' role the settings of their sessions in this database. This is for programs behind a connection pooler,
/// which does not pass on the settings that they send.
pub async fn set_role_settings(client: &mut Client, actor: &Actor, role: Option<&str>) -> Result<()> {
    let target = role.unwrap_or("the current role");
    transact(client, async |tx| {
        store::roles::set_settings(tx, role, &common::db::role_settings()).await?;
        record(tx, actor, AuditAction::SetRoleSettings, target, None).await
    })
    .await
}

/// Applies the pending migrations, and gives the programs' roles with this prefix their privileges. Waits for another run, if
/// there is one. Each migration has its audit record in its transaction.
pub async fn apply(
    client: &mut Client, actor: &Actor, role_prefix: Option<&RolePrefix>, observer: &mut impl Observer,
) -> Result<MigrationReport> {
    let mut migrations = Migrations::begin(client).await?;
    observer.begin(ProgressStep::ApplyMigrations, migrations.remaining() as u64);
    let mut applied = Vec::new();
    while let Some(name) = migrations.next_name() {
        observer.begin_item(&name);
        let record = async |tx: &Transaction<'_>| record(tx, actor, AuditAction::Migrate, &name, None).await;
        migrations.apply_next(&mut |detail| observer.detail(detail), record).await?;
        applied.push(name);
    }
    // Before the next run may begin: two of them would change the privileges of the same tables.
    let roles = match role_prefix {
        Some(prefix) => {
            let work = async |tx: &Transaction<'_>| {
                let roles = roles::apply(tx, prefix).await?;
                record(tx, actor, AuditAction::Migrate, &roles.join(", "), None).await?;
                Ok(roles)
            };
            transact(migrations.client(), work).await?
        }
        None => Vec::new(),
    };
    migrations.end().await?;
    observer.end(applied.len() as u64);
    Ok(MigrationReport { applied, role: None, roles })
}
