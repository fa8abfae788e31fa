//! How values of settings are written.

use crate::sealed::{MasterKey, Secret};
use std::net::SocketAddr;
use std::time::Duration;

/// A type that a setting can have. The error says what the text must be.
pub trait SettingValue: Sized {
    /// Reads the text of a variable.
    fn read(text: &str) -> Result<Self, String>;
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
    fn read(text: &str) -> Result<Self, String> {
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
    fn read(text: &str) -> Result<Self, String> {
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
        scaled
            .filter(|size| *size > 0)
            .map(Self)
            .ok_or_else(|| "must be a size such as 512KiB or 4MiB".to_owned())
    }
}

impl SettingValue for u32 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number above zero".to_owned())
    }
}

impl SettingValue for bool {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be true or false".to_owned())
    }
}

impl SettingValue for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "must be an address with a port such as 127.0.0.1:8080".to_owned())
    }
}

impl SettingValue for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl SettingValue for Secret {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self::new(text.to_owned()))
    }
}

impl SettingValue for MasterKey {
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        assert_eq!(Duration::read("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(Duration::read("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(ByteSize::read("4MiB"), Ok(ByteSize(4 << 20)));
        for wrong in ["", "5", "0s", "-1s", "1w", "99999999999999999999s", "1.5s"] {
            assert!(Duration::read(wrong).is_err(), "{wrong}");
        }
        assert!(ByteSize::read("0").is_err() && ByteSize::read("4MB").is_err());
    }
}
