//! A bound on the heads of responses. A longer head still has a status, which decides (D42).

use std::io;
use thiserror::Error;

/// The most that is read of a response's head, in bytes.
pub(super) const BYTES_MAX: usize = 64 << 10;
/// The most header lines that are read.
pub(super) const LINES_MAX: usize = 500;
/// Length of `HTTP/1.1 200`.
const STATUS_END: usize = 12;

/// A response's head exceeds the bounds. Of it only the status is used.
#[derive(Clone, Copy, Debug, Error)]
#[error("the response's head is too large")]
pub(super) struct LargeHead {
    pub(super) status: u16,
}

/// Follows the head of a response as it is read.
#[derive(Debug, Default)]
pub(super) struct ResponseHead {
    start: Vec<u8>,
    bytes: usize,
    lines: usize,
    line_bytes: usize,
    is_complete: bool,
}

impl ResponseHead {
    /// Counts bytes that were read. The error is a [`LargeHead`], if the response begins with a status.
    pub(super) fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if self.is_complete {
                return Ok(());
            }
            self.count(*byte);
            if self.bytes > BYTES_MAX || self.lines > LINES_MAX {
                let status = self.status().unwrap_or_default();
                return Err(io::Error::other(LargeHead { status }));
            }
        }
        Ok(())
    }

    fn count(&mut self, byte: u8) {
        self.bytes += 1;
        if self.start.len() < STATUS_END {
            self.start.push(byte);
        }
        match byte {
            b'\n' if self.line_bytes == 0 && self.lines > 0 => self.end(),
            b'\n' => (self.lines, self.line_bytes) = (self.lines + 1, 0),
            b'\r' => {}
            _ => self.line_bytes += 1,
        }
    }

    /// An interim response is followed by another head.
    fn end(&mut self) {
        let is_interim = self.status().is_some_and(|status| (100..200).contains(&status) && status != 101);
        *self = Self { is_complete: !is_interim, ..Self::default() };
    }

    fn status(&self) -> Option<u16> {
        let digits = self.start.strip_prefix(b"HTTP/1.")?.get(2..)?;
        std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| *status >= 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(head: &str) -> Option<u16> {
        let error = ResponseHead::default().read(head.as_bytes()).err()?;
        error.get_ref()?.downcast_ref::<LargeHead>().map(|large| large.status)
    }

    #[test]
    fn the_status_of_a_large_head_is_known() {
        let many =
            |status: u16, lines: usize| format!("HTTP/1.1 {status} OK\r\n{}", "a: b\r\n".repeat(lines));
        assert_eq!(large(&format!("{}\r\n{}", many(200, LINES_MAX - 1), "x".repeat(BYTES_MAX))), None);
        assert_eq!(large(&many(200, LINES_MAX)), Some(200));
        assert_eq!(large(&many(503, LINES_MAX)), Some(503));
        assert_eq!(large(&format!("HTTP/1.1 204\r\na: {}", "x".repeat(BYTES_MAX))), Some(204));
        assert_eq!(large(&format!("HTTP/1.1 103 Early\r\na: b\r\n\r\n{}", many(201, LINES_MAX))), Some(201));
        assert_eq!(large(&"x".repeat(BYTES_MAX + 1)), Some(0));
    }
}
