//! What operators do, as operations with typed inputs and results: tenants, members, company accounts, keys, subscriptions,
//! deliveries, queues, usage, refused requests, personal data, advisor actions, schema migrations, database roles, master keys,
//! retention, audit records, the checks of the doctor and of signatures, sign-in to the settings area, and the CRM's views of a
//! tenant.
//!
//! A user interface reads its input, calls an operation with the database session, broker connection and master key that it
//! needs, and shows the result. `connectctl` is such a user interface. The library prints nothing and reads no settings.
//! Serialized, a result is the JSON of the operator's contract.
//!
//! Operations that change something take `&mut Client` and, right after it, the [`audit::Actor`] who performs them; those that work on
//! the broker between their transactions take [`Steps`]. They run
//! transactions with [`common::db::transact`], and add an audit record in them. Signing out and using a session are not recorded.
//! SQL on tables is in [`store`] only; [`doctor`] has statements on the catalogs of Postgres.

pub mod activity;
pub mod advisor;
pub mod attention;
pub mod audit;
pub mod console;
pub mod deliveries;
pub mod doctor;
mod error;
pub mod find;
mod identity;
pub mod input;
pub mod keys;
pub mod migrations;
mod observer;
pub mod people;
pub mod queues;
mod receiver_url;
pub mod refusals;
pub mod retention;
pub mod roles;
pub mod secrets;
pub mod signature_check;
pub mod store;
pub mod subscriptions;
pub mod tenants;
pub mod views;

pub use error::{AdminError, ErrorKind, Result, describe};
pub use observer::{Observer, ProgressStep, SilentObserver};
pub use store::Newest;

use common::db;
use tokio_postgres::{Client, Transaction};

/// The database of an operation that works on the broker between its transactions.
pub trait Steps {
    /// Runs a step with a connection, which the operation has for this step only.
    fn step<T>(&mut self, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> impl Future<Output = Result<T>>;
}

/// A connection of its own.
impl Steps for Client {
    async fn step<T>(&mut self, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        work(self).await
    }
}

/// Runs `work` in a transaction and commits it. `work` may run several times, after conflicts with other transactions, so it
/// must not have effects outside the transaction.
pub(crate) async fn transact<T>(client: &mut Client, work: impl AsyncFn(&Transaction<'_>) -> Result<T>) -> Result<T> {
    db::transact("operation", client, work, AdminError::database_error).await
}
