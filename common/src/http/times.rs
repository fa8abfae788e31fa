//! How long connections wait for their callers.

use crate::settings::{Environment, Section, SettingError, Variable};
use crate::variables;
use std::time::Duration;

/// How long a connection waits for its caller.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimes {
    /// For the rest of a request's head.
    pub head: Duration,
    /// For the next request, and for a response to be read.
    pub idle: Duration,
}

impl ConnectionTimes {
    /// Those of the settings where none are set.
    pub const DEFAULT: Self = Self { head: Duration::from_secs(10), idle: Duration::from_secs(75) };
}

impl Section for ConnectionTimes {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_HEADER_TIMEOUT" => "10s", "how long a request's head may take from its first byte, and a new connection until then; then the connection is closed";
        "CONNECT_IDLE_TIMEOUT" => "75s", "how long a connection may be idle after a request, and a response may stay unread; longer than the load balancer in front keeps idle connections; less when more than half of the connections are in use";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            head: env.get::<Self, _>("CONNECT_HEADER_TIMEOUT")?,
            idle: env.get::<Self, _>("CONNECT_IDLE_TIMEOUT")?,
        })
    }
}
