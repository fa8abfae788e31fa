//! `key_revision`, and the notification that goes with it.

/// Subscribes to notifications of changed keys and tenants.
pub(crate) const LISTEN: &str = "LISTEN connect_keys";

common::statements! {
    /// The revision of keys and tenants.
    pub(crate) const READ = "-- key_revision.read
    SELECT revision FROM key_revision";
}
