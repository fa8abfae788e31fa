//! `connectctl`: what each command prints with `--json`, and how it fails (docs/operators.md).

pub(crate) mod audit;
pub(crate) mod deliveries;
mod exit_codes;
mod keys;
mod listener;
mod migrate;
mod migration_steps;
mod pressure;
mod secrets;
mod subscriptions;
mod tenants;
mod views;

use serde_json::Value;

/// The names of an object's fields, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

/// Whether a value is a time as `--json` writes it: RFC 3339 in UTC.
pub(crate) fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z'))
}
