//! `key_revision`, and the notification that goes with it.

/// Asks to be notified of changes of keys and agencies.
pub const LISTEN: &str = "LISTEN connect_keys";

/// The revision of keys and agencies.
pub const READ: &str = "-- key_revision.read
    SELECT revision FROM key_revision";
