//! The status of a response, and a bound on its head. The status decides even if the head is too long or malformed (D42).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use thiserror::Error;

/// The most that is read of a response's head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most header lines that are read.
pub const HEAD_LINES_MAX: usize = 500;
/// Length of `HTTP/1.1 200` and the character behind it.
const STATUS_END: usize = 13;

/// A response's head exceeds the bounds.
#[derive(Clone, Copy, Debug, Error)]
#[error("the response's head is too large")]
pub(super) struct LargeHead;

/// The status of the last response that began on a connection.
#[derive(Clone, Debug, Default)]
pub struct SeenStatus(Arc<AtomicU16>);

impl SeenStatus {
    /// The status, unless there is none or it is interim.
    pub fn get(&self) -> Option<u16> {
        Some(self.0.load(Ordering::Relaxed)).filter(|status| *status >= 200)
    }

    /// Forgets it, so that it is not taken for that of another response.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct ResponseHead {
    pub(super) seen: SeenStatus,
    start: Vec<u8>,
    bytes: usize,
    lines: usize,
    line_bytes: usize,
    is_complete: bool,
}

impl ResponseHead {
    /// The head of the next response, or of the one that follows an interim response.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
        *self = Self { seen: self.seen.clone(), ..Self::default() };
    }

    /// Counts bytes that were read. The error is a [`LargeHead`].
    pub(super) fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if self.is_complete {
                return Ok(());
            }
            self.count(*byte);
            if self.bytes > HEAD_BYTES_MAX || self.lines > HEAD_LINES_MAX {
                return Err(io::Error::other(LargeHead));
            }
        }
        Ok(())
    }

    fn count(&mut self, byte: u8) {
        self.bytes += 1;
        if self.start.len() < STATUS_END {
            self.start.push(byte);
            self.seen.0.store(self.status().unwrap_or_default(), Ordering::Relaxed);
        }
        match byte {
            b'\n' if self.line_bytes == 0 && self.lines > 0 => self.end(),
            b'\n' => (self.lines, self.line_bytes) = (self.lines + 1, 0),
            b'\r' => {}
            _ => self.line_bytes += 1,
        }
    }

    fn end(&mut self) {
        let is_interim = self.status().is_some_and(|status| (100..200).contains(&status) && status != 101);
        if is_interim {
            self.begin();
        } else {
            self.is_complete = true;
        }
    }

    fn status(&self) -> Option<u16> {
        let (digits, behind) = self.start.strip_prefix(b"HTTP/1.")?.get(2..)?.split_at_checked(3)?;
        let is_whole = behind.first()?.is_ascii_whitespace();
        std::str::from_utf8(digits).ok()?.parse().ok().filter(|_| is_whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a head that is too large, or 0.
    fn large(head: &str) -> Option<u16> {
        let mut read = ResponseHead::default();
        let error = read.read(head.as_bytes()).err()?;
        error.get_ref()?.downcast_ref::<LargeHead>().map(|_| read.seen.get().unwrap_or_default())
    }

    #[test]
    fn the_status_of_a_large_head_is_known() {
        let many = |status: u16, lines: usize| format!("HTTP/1.1 {status} OK\r\n{}", "a: b\r\n".repeat(lines));
        let found = large(&format!("{}\r\n{}", many(200, HEAD_LINES_MAX - 1), "x".repeat(HEAD_BYTES_MAX)));
        assert_eq!(found, None);
        assert_eq!(large(&many(200, HEAD_LINES_MAX)), Some(200));
        assert_eq!(large(&many(503, HEAD_LINES_MAX)), Some(503));
        assert_eq!(large(&format!("HTTP/1.1 204\r\na: {}", "x".repeat(HEAD_BYTES_MAX))), Some(204));
        let found = large(&format!("HTTP/1.1 103 Early\r\na: b\r\n\r\n{}", many(201, HEAD_LINES_MAX)));
        assert_eq!(found, Some(201));
        assert_eq!(large(&"x".repeat(HEAD_BYTES_MAX + 1)), Some(0));
    }
}
