//! Parses the framing of the requests on a connection, to find the one fault that hyper hides: a head with both
//! `Content-Length` and `Transfer-Encoding` (RFC 9112, 6.1).
//!
//! hyper removes the length, reads the body by its chunks, and closes the connection after its response, which is
//! safe. A caller that sends both is refused nevertheless: a proxy on the way may have used the length. Where this
//! parser cannot follow, it stops, and the connection is closed after the current response, so that no later request can
//! hide that fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes of a line that are kept when it arrives in pieces. Relevant lines are shorter.
const LINE: usize = 128;

/// The faults found on a connection, shared with the task that responds to its requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct FramingFaults(Arc<Faults>);

/// Requests are numbered on their connection, from 1.
#[derive(Debug)]
struct Faults {
    /// The request whose head has both headers; 0 while there is none.
    ambiguous: AtomicU64,
    /// The last request whose head was parsed, once the parser has stopped; [`FOLLOWING`] before.
    last_followed: AtomicU64,
}

const FOLLOWING: u64 = u64::MAX;

impl Default for Faults {
    fn default() -> Self {
        Self { ambiguous: AtomicU64::new(0), last_followed: AtomicU64::new(FOLLOWING) }
    }
}

/// Why the framing of a request is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramingFault {
    /// Its head has both headers.
    TwoLengths,
    /// The end of an earlier request is unclear, and so is the beginning of this one.
    UnclearBoundary,
}

impl FramingFaults {
    /// The fault of a request by its number.
    pub(crate) fn of(&self, number: u64) -> Option<FramingFault> {
        if self.0.ambiguous.load(Ordering::Relaxed) == number {
            Some(FramingFault::TwoLengths)
        } else if number > self.0.last_followed.load(Ordering::Relaxed) {
            Some(FramingFault::UnclearBoundary)
        } else {
            None
        }
    }

    /// Whether the parser has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.0.last_followed.load(Ordering::Relaxed) != FOLLOWING
    }
}

/// The part of a request to which the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    RequestLine,
    Headers,
    /// So many bytes of the body are to come.
    Body(u64),
    ChunkSize,
    /// So many bytes of the chunk are to come, its line end included.
    Chunk(u64),
    Trailers,
    Stopped,
}

/// The parser of one connection.
#[derive(Debug)]
pub(crate) struct FramingParser {
    state: ParserState,
    /// The beginning of a line that is incomplete.
    line: Vec<u8>,
    /// Whether more of that line has arrived than is kept.
    is_cut: bool,
    heads: u64,
    length: Option<Result<u64, ()>>,
    is_chunked: bool,
    faults: FramingFaults,
}

impl FramingParser {
    pub(crate) fn new() -> Self {
        Self {
            state: ParserState::RequestLine,
            line: Vec::new(),
            is_cut: false,
            heads: 0,
            length: None,
            is_chunked: false,
            faults: FramingFaults::default(),
        }
    }

    pub(crate) fn faults(&self) -> FramingFaults {
        self.faults.clone()
    }

    /// Parses the bytes that have arrived.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.state {
                ParserState::Stopped => return,
                ParserState::Body(left) => {
                    self.skip(bytes, left, ParserState::Body, ParserState::RequestLine)
                }
                ParserState::Chunk(left) => {
                    self.skip(bytes, left, ParserState::Chunk, ParserState::ChunkSize)
                }
                ParserState::RequestLine
                | ParserState::Headers
                | ParserState::ChunkSize
                | ParserState::Trailers => self.receive_line(bytes),
            };
        }
    }

    fn stop(&mut self) {
        self.state = ParserState::Stopped;
        self.faults.0.last_followed.store(self.heads, Ordering::Relaxed);
    }

    fn skip<'b>(
        &mut self,
        bytes: &'b [u8],
        left: u64,
        more: fn(u64) -> ParserState,
        then: ParserState,
    ) -> &'b [u8] {
        let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - here as u64;
        self.state = if left == 0 { then } else { more(left) };
        bytes.get(here..).unwrap_or_default()
    }

    /// Returns the bytes after the line.
    fn receive_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (here, rest) = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) => (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..)),
            None => (bytes, None),
        };
        let Some(rest) = rest else {
            self.keep(here);
            return &[];
        };
        if self.line.is_empty() {
            self.end_line(here);
        } else {
            self.keep(here);
            let mut line = std::mem::take(&mut self.line);
            self.end_line(&line);
            line.clear();
            (self.line, self.is_cut) = (line, false);
        }
        rest
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LINE.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
        self.is_cut |= room < piece.len();
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.state {
            // Empty lines before a request are ignored (RFC 9112, 2.2).
            ParserState::RequestLine if line.is_empty() => {}
            ParserState::RequestLine => {
                (self.length, self.is_chunked) = (None, false);
                self.state = ParserState::Headers;
            }
            ParserState::Headers if line.is_empty() => self.end_head(),
            ParserState::Headers => self.note_header(line),
            ParserState::ChunkSize => {
                // If the line was cut after digits, more digits may have followed.
                let is_whole = !self.is_cut || line.iter().any(|byte| !byte.is_ascii_hexdigit());
                self.state = match chunk_size(line).filter(|_| is_whole) {
                    Some(0) => ParserState::Trailers,
                    Some(size) => ParserState::Chunk(size.saturating_add(2)),
                    None => return self.stop(),
                };
            }
            ParserState::Trailers if line.is_empty() => self.state = ParserState::RequestLine,
            ParserState::Trailers | ParserState::Body(_) | ParserState::Chunk(_) | ParserState::Stopped => {}
        }
    }

    fn note_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = value.get(1..).unwrap_or_default().trim_ascii();
            let length = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            self.length = Some(length.filter(|_| !self.is_cut).ok_or(()));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        }
    }

    fn end_head(&mut self) {
        self.heads += 1;
        self.state = match (self.length, self.is_chunked) {
            (Some(_), true) => {
                // The request is refused, which closes the connection; earlier requests still get their responses.
                self.faults.0.ambiguous.store(self.heads, Ordering::Relaxed);
                ParserState::Stopped
            }
            (None, true) => ParserState::ChunkSize,
            (None | Some(Ok(0)), false) => ParserState::RequestLine,
            (Some(Ok(length)), false) => ParserState::Body(length),
            (Some(Err(())), false) => return self.stop(),
        };
    }
}

/// The size that begins a chunk, without its extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let digits = str::from_utf8(line.get(..end)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    const SIZED: &str = "POST / HTTP/1.1\r\nContent-Length: 31\r\n\r\ntransfer-encoding: chunked\r\n\r\nx";
    const CHUNKED: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
        11;ext=1\r\ncontent-length: 1\r\n3\r\nabc\r\n0\r\ncontent-length: 9\r\n\r\n";

    /// The number of the request that is found in `text`, however it is cut into pieces.
    fn found(text: &str) -> u64 {
        let in_pieces = |size: usize| {
            let mut watch = FramingParser::new();
            text.as_bytes().chunks(size).for_each(|piece| watch.receive(piece));
            watch.faults.0.ambiguous.load(Ordering::Relaxed)
        };
        let whole = in_pieces(text.len());
        for size in [1, 2, 7, 60] {
            assert_eq!(in_pieces(size), whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn finds_a_head_with_both_headers_in_either_order() {
        for both in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "transfer-encoding: chunked\r\nhost: a\r\ncontent-length:5",
            "CONTENT-LENGTH: x\r\nTRANSFER-ENCODING: x",
        ] {
            assert_eq!(found(&format!("POST / HTTP/1.1\r\n{both}\r\n\r\n")), 1, "{both}");
            assert_eq!(found(&format!("POST / HTTP/1.1\n{both}\n\n")), 1, "{both}");
        }
    }

    #[test]
    fn counts_the_requests_before_it_and_ignores_what_is_not_a_head() {
        let both = "POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        for (before, number) in [
            (PLAIN.to_owned(), 2),
            (SIZED.to_owned(), 2),
            (CHUNKED.to_owned(), 2),
            (format!("\r\n{CHUNKED}\r\n{SIZED}{PLAIN}"), 4),
        ] {
            assert_eq!(found(&before), 0, "{before:?}");
            assert_eq!(found(&format!("{before}{both}")), number, "{before:?}");
        }
    }

    #[test]
    fn stops_where_it_cannot_follow_and_keeps_no_more_than_a_line() {
        let both = "POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        for unclear in ["content-length: five", "transfer-encoding: chunked\r\n\r\nzz\r\n"] {
            assert_eq!(found(&format!("POST / HTTP/1.1\r\n{unclear}\r\n\r\n{both}")), 0, "{unclear}");
        }
        let mut watch = FramingParser::new();
        (0..1_000).for_each(|_| watch.receive(&[b'x'; 100]));
        assert_eq!(watch.line.len(), LINE);
    }

    #[test]
    fn gives_up_when_a_line_that_matters_was_cut() {
        let long = LINE + 2;
        let head = "POST / HTTP/1.1\r\n";
        for (start, end) in [
            (format!("{head}content-length:{}", " ".repeat(long)), "5\r\n\r\nhello"),
            (format!("{head}content-length:{}5", " ".repeat(LINE - 16)), "5\r\n\r\n"),
            (format!("{head}transfer-encoding: chunked\r\n\r\n{}", "0".repeat(long)), "5\r\nhello\r\n"),
        ] {
            let mut watch = FramingParser::new();
            watch.receive(start.as_bytes());
            watch.receive(end.as_bytes());
            assert!(watch.state == ParserState::Stopped && watch.faults().has_stopped(), "{start:?}");
            let faults = [watch.faults().of(1), watch.faults().of(2)];
            assert_eq!(faults, [None, Some(FramingFault::UnclearBoundary)], "{start:?}");
        }
    }

    #[test]
    fn follows_long_lines_whose_end_does_not_matter() {
        let (long, both) = ("x".repeat(LINE + 2), "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n");
        for before in [
            format!("GET /{long} HTTP/1.1\r\nhost: {long}\r\n\r\n"),
            format!(
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;{long}\r\nabc\r\n0\r\na: {long}\r\n\r\n"
            ),
        ] {
            assert_eq!(found(&format!("{before}POST / HTTP/1.1\r\n{both}")), 2, "{before:?}");
        }
        assert_eq!(found(&format!("POST / HTTP/1.1\r\ntransfer-encoding:{long}\r\n{both}")), 1);
    }
}
