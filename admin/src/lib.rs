//! What operators do, as operations with typed inputs and results: tenants, members, company accounts, keys, subscriptions,
//! deliveries, queues, usage, refused requests, personal data, advisor actions, schema migrations, database roles, master keys,
//! retention, audit records, the checks of the doctor and of signatures, sign-in to the settings area, and the CRM's views of a
//! tenant.
//!
//! A user interface reads its input, calls an operation with the database session, broker connection and master key that it
//! needs, and shows the result. `connectctl` is such a user interface. The library prints nothing and reads no settings.
//! Serialized, a result is the JSON of the operator's contract.
//!
//! Operations that change something take `&mut Client` and, right after it, the [`audit::Actor`] who performs them. They run
//! transactions with [`common::db::transact`], and add an audit record in them. Signing out and using a session are not recorded.
//! SQL on tables is in [`store`] only; [`doctor`] has statements on the catalogs of Postgres.

pub mod advisor;
pub mod audit;
pub mod companies;
pub mod console;
pub mod deliveries;
pub mod doctor;
mod error;
mod error_kind;
pub mod find;
pub mod input;
pub mod keys;
pub mod master_key;
pub mod members;
pub mod migrations;
mod newest;
mod observer;
pub mod overview;
pub mod people;
pub mod pressure;
pub mod queues;
mod receiver_url;
pub mod refusals;
pub mod retention;
pub mod roles;
pub mod sealed_values;
mod secrets;
pub mod signature_check;
pub mod store;
pub mod subscriptions;
pub mod tenants;
mod transaction;
pub mod usage;
pub mod views;

pub use error::{AdminError, describe};
pub use error_kind::ErrorKind;
pub use newest::Newest;
pub use observer::{Notice, Observer, ProgressStep, SilentObserver};
