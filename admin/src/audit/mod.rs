//! What operators did: each operation that changes something, or shows a person's data as a whole, adds one record.
//!
//! An operation of one transaction adds its record in that transaction. An operation on the broker, or of several
//! transactions, adds it before its first change: its record also stands if the operation was interrupted.

mod action;
mod actor;
mod export;

pub use crate::store::audit_records::{AuditFilter, AuditRecord};
use crate::{Newest, Result, Steps, store, transact};
pub use action::AuditAction;
pub use actor::{Actor, Interface};
use chrono::{DateTime, Utc};
use common::model::TenantId;
pub use export::{AUDIT_EXPORT_MAX, AuditExport, ExportFormat};
use tokio_postgres::{Client, GenericClient};
use uuid::Uuid;

impl AuditFilter {
    /// The ids between which the selected records are; the second one is not included.
    pub(crate) fn ids(&self) -> (Uuid, Uuid) {
        let ends = [self.to.map(first_id), self.before];
        let end = ends.into_iter().flatten().min().unwrap_or(Uuid::max());
        (self.from.map_or(Uuid::nil(), first_id), end)
    }
}

/// The newest `limit` records that the filter selects, newest last.
pub async fn list(client: &Client, filter: &AuditFilter, limit: u32) -> Result<Newest<AuditRecord>> {
    let tenant = match &filter.tenant {
        Some(slug) => Some(store::tenants::find(client, slug).await?),
        None => None,
    };
    store::audit_records::newest(client, tenant, filter, limit).await
}

/// Adds the record of an action on an object of a tenant, or on all tenants. A target contains no secret and, of a client, nothing
/// but its id. Spends the form that has asked for the action: an operation of a form adds one record.
pub(crate) async fn record(
    on: &impl GenericClient, actor: &Actor, action: AuditAction, target: &str, tenant: Option<TenantId>,
) -> Result<()> {
    if let Some((form, result)) = actor.form() {
        form.spend(on, result, target).await?;
    }
    let who = (actor.name(), actor.interface().as_str());
    store::audit_records::add(on, Uuid::now_v7(), who, (action.as_str(), target), tenant).await
}

/// [`record`] in a transaction of its own, before an operation on the broker or one of several transactions.
pub(crate) async fn record_before(
    client: &mut Client, actor: &Actor, action: AuditAction, target: &str, tenant: Option<TenantId>,
) -> Result<()> {
    transact(client, async |tx| record(tx, actor, action, target, tenant).await).await
}

/// Ends an operation that [`record_before`] has recorded. If it has failed its form can be sent again, and goes on where it was.
pub(crate) async fn end_recorded<T>(database: &mut impl Steps, actor: &Actor, done: Result<T>) -> Result<T> {
    if let (Err(_), Some((form, _))) = (&done, actor.form()) {
        drop(database.step(async |client| form.give_back(client).await).await);
    }
    done
}

/// The smallest id of a record of this millisecond or a later one.
fn first_id(at: DateTime<Utc>) -> Uuid {
    // A time with a fraction of a millisecond is after the records of that millisecond.
    let fraction = u128::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    let millis = u128::try_from(at.timestamp_millis()).unwrap_or_default() + fraction;
    Uuid::from_u128(millis << 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_page_ends_before_a_record_or_a_time_whichever_is_earlier() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_777_629_600_123);
        let id = Uuid::from_u128((1_777_629_600_123 << 80) + 7);
        let filter = |to, before| AuditFilter { to, before, ..AuditFilter::default() };
        assert_eq!(filter(None, None).ids(), (Uuid::nil(), Uuid::max()));
        assert_eq!(filter(Some(at), None).ids().1, first_id(at));
        assert!(first_id(at) < id, "a record of the time itself is not before it");
        assert_eq!(filter(Some(at), Some(id)).ids().1, first_id(at));
        assert_eq!(filter(Some(at + TimeDelta::microseconds(1)), Some(id)).ids().1, id);
        assert_eq!(filter(None, Some(id)).ids().1, id);
    }

    #[test]
    fn a_range_includes_its_first_millisecond_and_not_a_part_of_it() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_777_629_600_123);
        let id = Uuid::from_u128(1_777_629_600_123 << 80);
        let from = |from| AuditFilter { from: Some(from), ..AuditFilter::default() }.ids().0;
        assert!(from(at) <= id && from(at + TimeDelta::microseconds(1)) > id);
    }
}
