//! How much an agency may create.

use super::{Environment, Section, SettingError, Variable};
use crate::variables;

/// A bound, and the setting that it is read from.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// At most so many.
    pub most: u32,
    /// The name of the setting.
    pub setting: &'static str,
}

/// How many keys, subscriptions and members a tenant may have, so that nobody fills pages and memory with them.
#[derive(Clone, Copy, Debug)]
pub struct TenantBounds {
    /// API keys that are not revoked.
    pub keys: Bound,
    /// Subscriptions that were not removed.
    pub subscriptions: Bound,
    /// Active members.
    pub members: Bound,
}

const KEYS: &str = "CONNECT_MAX_KEYS_PER_TENANT";
const SUBSCRIPTIONS: &str = "CONNECT_MAX_SUBSCRIPTIONS_PER_TENANT";
const MEMBERS: &str = "CONNECT_MAX_MEMBERS_PER_TENANT";

impl Section for TenantBounds {
    const VARIABLES: &'static [Variable] = variables! {
        KEYS => "1000", "API keys of a tenant that are not revoked; beyond it, or ten times as many with former ones, none is created";
        SUBSCRIPTIONS => "1000", "webhook subscriptions of a tenant; beyond it, or ten times as many with former ones, none is created";
        MEMBERS => "1000", "active members of a tenant; beyond it, or ten times as many with former ones, none is added";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let bound = |setting| env.get::<Self, u32>(setting).map(|most| Bound { most, setting });
        Ok(Self { keys: bound(KEYS)?, subscriptions: bound(SUBSCRIPTIONS)?, members: bound(MEMBERS)? })
    }
}
