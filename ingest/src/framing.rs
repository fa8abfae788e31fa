//! Follows where each request on a connection begins and ends, to find the one fault that hyper hides: a head with both
//! `Content-Length` and `Transfer-Encoding` (RFC 9112, 6.1).
//!
//! hyper removes the length, reads the body by its chunks, and closes the connection after its response, which is
//! safe. A caller that sends both is refused all the same: a proxy on the way may have gone by the length. Where this
//! parser cannot follow, it stops, and what hyper does holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line that are kept when it arrives in pieces. The lines that matter are shorter.
const LINE: usize = 128;

/// The number of the request on its connection, from 1, whose head has both headers; 0 while there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct AmbiguousRequest(Arc<AtomicU64>);

impl AmbiguousRequest {
    /// Whether it is the request of that number.
    pub(crate) fn is(&self, number: u64) -> bool {
        self.0.load(Ordering::Relaxed) == number
    }
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    RequestLine,
    Headers,
    /// So many bytes of the body are to come.
    Body(u64),
    ChunkSize,
    /// So many bytes of the chunk are to come, its line end included.
    Chunk(u64),
    Trailers,
    /// Not followed any further.
    Lost,
}

/// What one connection has received so far.
#[derive(Debug)]
pub(crate) struct FramingWatch {
    place: Place,
    /// The beginning of a line that is incomplete.
    line: Vec<u8>,
    heads: u64,
    length: Option<Result<u64, ()>>,
    is_chunked: bool,
    ambiguous: AmbiguousRequest,
}

impl FramingWatch {
    /// A connection that has received nothing.
    pub(crate) fn new() -> Self {
        Self {
            place: Place::RequestLine,
            line: Vec::new(),
            heads: 0,
            length: None,
            is_chunked: false,
            ambiguous: AmbiguousRequest::default(),
        }
    }

    /// What it finds, for whoever answers the requests.
    pub(crate) fn ambiguous(&self) -> AmbiguousRequest {
        self.ambiguous.clone()
    }

    /// Takes in what has arrived.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.place {
                Place::Lost => return,
                Place::Body(left) => self.skip(bytes, left, Place::Body, Place::RequestLine),
                Place::Chunk(left) => self.skip(bytes, left, Place::Chunk, Place::ChunkSize),
                Place::RequestLine | Place::Headers | Place::ChunkSize | Place::Trailers => {
                    self.receive_line(bytes)
                }
            };
        }
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], left: u64, more: fn(u64) -> Place, then: Place) -> &'b [u8] {
        let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - here as u64;
        self.place = if left == 0 { then } else { more(left) };
        bytes.get(here..).unwrap_or_default()
    }

    /// Gives what follows the line.
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
            self.line = line;
        }
        rest
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LINE.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.place {
            // Empty lines before a request are ignored (RFC 9112, 2.2).
            Place::RequestLine if line.is_empty() => {}
            Place::RequestLine => {
                (self.length, self.is_chunked) = (None, false);
                self.place = Place::Headers;
            }
            Place::Headers if line.is_empty() => self.end_head(),
            Place::Headers => self.note_header(line),
            Place::ChunkSize => {
                self.place = match chunk_size(line) {
                    Some(0) => Place::Trailers,
                    Some(size) => Place::Chunk(size.saturating_add(2)),
                    None => Place::Lost,
                };
            }
            Place::Trailers if line.is_empty() => self.place = Place::RequestLine,
            Place::Trailers | Place::Body(_) | Place::Chunk(_) | Place::Lost => {}
        }
    }

    fn note_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = value.get(1..).unwrap_or_default().trim_ascii();
            let length = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            self.length = Some(length.ok_or(()));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        }
    }

    fn end_head(&mut self) {
        self.heads += 1;
        self.place = match (self.length, self.is_chunked) {
            (Some(_), true) => {
                self.ambiguous.0.store(self.heads, Ordering::Relaxed);
                Place::Lost
            }
            (None, true) => Place::ChunkSize,
            (None | Some(Ok(0)), false) => Place::RequestLine,
            (Some(Ok(length)), false) => Place::Body(length),
            (Some(Err(())), false) => Place::Lost,
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
            let mut watch = FramingWatch::new();
            text.as_bytes().chunks(size).for_each(|piece| watch.receive(piece));
            watch.ambiguous().0.load(Ordering::Relaxed)
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
    fn stops_where_it_cannot_follow_and_holds_no_more_than_a_line() {
        let both = "POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
        for unclear in ["content-length: five", "transfer-encoding: chunked\r\n\r\nzz\r\n"] {
            assert_eq!(found(&format!("POST / HTTP/1.1\r\n{unclear}\r\n\r\n{both}")), 0, "{unclear}");
        }
        let mut watch = FramingWatch::new();
        (0..1_000).for_each(|_| watch.receive(&[b'x'; 100]));
        assert_eq!(watch.line.len(), LINE);
    }
}
