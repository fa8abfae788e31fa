//! Parsers of settings' values.
//!
//! Durations and sizes are deliberately stricter than with `humantime` and `bytesize`: one whole number and one unit, and no `MB`,
//! of which not everybody knows whether it means 10^6 or 2^20 bytes.

use crate::sealed::{MasterKey, Secret};
use std::net::SocketAddr;
use std::time::Duration;

/// A type of settings' values. The error says what the text must be.
pub trait SettingValue: Sized {
    /// Parses the text of a variable.
    fn parse_setting(text: &str) -> Result<Self, String>;
}

/// A number of bytes, written `512KiB`, `4MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub usize);

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

impl SettingValue for Duration {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let scaled = number_and_unit(text).and_then(|(number, unit)| {
            let seconds = match unit {
                "ms" => return Some(Self::from_millis(number)),
                "s" => 1,
                "m" => 60,
                "h" => 3_600,
                "d" => 86_400,
                _ => return None,
            };
            number.checked_mul(seconds).map(Self::from_secs)
        });
        scaled
            .filter(|duration| !duration.is_zero() && *duration <= Self::from_secs(3_650 * 86_400))
            .ok_or_else(|| "must be a duration above zero such as 250ms, 30s, 5m, 24h, 30d".to_owned())
    }
}

impl SettingValue for ByteSize {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let scaled = number_and_unit(text).and_then(|(number, unit)| {
            let factor: usize = match unit {
                "B" | "" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                _ => return None,
            };
            usize::try_from(number).ok()?.checked_mul(factor)
        });
        scaled.filter(|size| *size > 0).map(Self).ok_or_else(|| "must be a size such as 512KiB or 4MiB".to_owned())
    }
}

impl SettingValue for u32 {
    fn parse_setting(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("must be a whole number from 1 to {}", Self::MAX))
    }
}

impl SettingValue for bool {
    fn parse_setting(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be true or false".to_owned())
    }
}

impl SettingValue for SocketAddr {
    fn parse_setting(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be an address with a port such as 127.0.0.1:8080".to_owned())
    }
}

impl SettingValue for String {
    fn parse_setting(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl SettingValue for Secret {
    fn parse_setting(text: &str) -> Result<Self, String> {
        Ok(Self::new(text.to_owned()))
    }
}

impl SettingValue for MasterKey {
    fn parse_setting(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        assert_eq!(Duration::parse_setting("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(Duration::parse_setting("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(ByteSize::parse_setting("4MiB"), Ok(ByteSize(4 << 20)));
        for wrong in ["", "5", "0s", "-1s", "1w", "99999999999999999999s", "1.5s"] {
            assert!(Duration::parse_setting(wrong).is_err(), "{wrong}");
        }
        assert!(ByteSize::parse_setting("0").is_err() && ByteSize::parse_setting("4MB").is_err());
    }
}
