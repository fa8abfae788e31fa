//! Members of tenants.

use super::{all, exactly_one, one};
use crate::AdminError;
use crate::input::{MemberEmail, Name};
use crate::members::Member;
use common::clock;
use common::model::TenantId;
use tokio_postgres::{Client, Row, Transaction};

common::statements! {
    const ADD = "-- members.add
    INSERT INTO members (tenant_id, email, name, active, created_at) VALUES ($1, $2, $3, true, $4)
    ON CONFLICT (tenant_id, email) DO UPDATE SET name = excluded.name, active = true
    RETURNING email, name, active";

    const REMOVE = "-- members.remove
    UPDATE members SET active = false WHERE tenant_id = $1 AND email = $2 RETURNING email, name, active";

    const LIST = "-- members.list
    SELECT email, name, active FROM members WHERE tenant_id = $1 ORDER BY created_at, email";
}

pub(crate) async fn add(
    tx: &Transaction<'_>,
    tenant: TenantId,
    email: &MemberEmail,
    name: &Name,
) -> Result<Member, AdminError> {
    let row = exactly_one(tx, ADD, &[&tenant.0, &email.as_str(), &name.as_str(), &clock::now()]).await?;
    member(&row)
}

pub(crate) async fn remove(
    tx: &Transaction<'_>,
    tenant: TenantId,
    email: &MemberEmail,
) -> Result<Option<Member>, AdminError> {
    one(tx, REMOVE, &[&tenant.0, &email.as_str()], member).await
}

pub(crate) async fn list(client: &Client, tenant: TenantId) -> Result<Vec<Member>, AdminError> {
    all(client, LIST, &[&tenant.0], member).await
}

fn member(row: &Row) -> Result<Member, AdminError> {
    Ok(Member { email: row.try_get("email")?, name: row.try_get("name")?, active: row.try_get("active")? })
}
