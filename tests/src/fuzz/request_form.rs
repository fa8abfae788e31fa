//! Forms of one HTTP request: the target, the `Host` headers and the framing, each in a form that is allowed or not.
//!
//! Each form is listed with the result that RFC 9112 and D34 require. A request is served if all three are allowed, and otherwise
//! refused.

use super::random::Random;
use crate::http::HttpRequest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    /// The request is served.
    Served,
    /// The request is served, and the connection is closed: nothing after it is read.
    Last,
    /// The request is refused with a 4xx, and the connection stays open.
    Refused,
    /// The request is refused with a 4xx or without a response, and the connection is closed: nothing after it is read.
    Closed,
}

use Expected::{Closed, Last, Refused, Served};

/// Request targets; `{}` stands for the path.
const TARGETS: [(&str, Expected); 12] = [
    ("{}", Served),
    ("{}", Served),
    ("{}", Served),
    ("http://connect{}", Served),
    ("HTTP://connect{}", Served),
    ("http://other{}", Closed),
    ("http://user@connect{}", Closed),
    ("ftp://connect{}", Closed),
    ("connect:80", Closed),
    ("*", Closed),
    ("", Closed),
    ("http:{}", Closed),
];

/// `Host` headers, valid and not.
const HOSTS: [(&str, Expected); 9] = [
    ("host: connect\r\n", Served),
    ("host: connect\r\n", Served),
    ("host: connect\r\n", Served),
    ("Host:connect\r\n", Served),
    ("", Closed),
    ("host: connect\r\nhost: connect\r\n", Closed),
    ("host: connect\r\nHOST: other\r\n", Closed),
    ("host: connect/elsewhere\r\n", Closed),
    ("host: user@connect\r\n", Closed),
];

/// How the end of the body is indicated.
#[derive(Clone, Copy, Debug)]
enum Framing {
    /// `Content-Length` with the body's length, and these headers.
    Length(&'static str),
    /// The body in chunks, with these headers.
    Chunks(&'static str),
    /// The body in chunks, with these headers and a `Content-Length` that is the number of bytes of all chunks.
    Both(&'static str),
    /// The body as it is, with these headers only.
    Plain(&'static str),
}

use Framing::{Both, Chunks, Length, Plain};

const FRAMINGS: [(Framing, Expected); 25] = [
    (Length(""), Served),
    (Length(""), Served),
    (Length("content-encoding: identity\r\n"), Served),
    (Length("x-content-length: 1\r\n"), Served),
    (Chunks("transfer-encoding: chunked\r\n"), Served),
    (Chunks("transfer-encoding: chunked\r\n"), Served),
    (Chunks("Transfer-Encoding:CHUNKED\r\n"), Served),
    (Length("content-encoding: gzip\r\n"), Refused),
    (Chunks("transfer-encoding: chunked\r\ncontent-encoding: br\r\n"), Refused),
    (Both("transfer-encoding: chunked\r\n"), Last),
    (Both("Transfer-Encoding: Chunked\r\nhost-: x\r\n"), Last),
    (Length("transfer-encoding: identity\r\n"), Closed),
    (Chunks("transfer-encoding: gzip, chunked\r\n"), Closed),
    (Chunks("transfer-encoding: chunked, chunked\r\n"), Closed),
    (Chunks("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"), Closed),
    (Chunks("transfer-encoding: chunked, gzip\r\n"), Closed),
    (Chunks("transfer-encoding: xchunked\r\n"), Closed),
    (Chunks("transfer-encoding : chunked\r\n"), Closed),
    (Plain("transfer-encoding: chunked\r\n"), Closed),
    (Plain("content-length : 1\r\n"), Closed),
    (Plain("content-length: +1\r\n"), Closed),
    (Plain("content-length: 1, 2\r\n"), Closed),
    (Length("content-length: 1\r\n"), Closed),
    (Plain("content-length: 18446744073709551616\r\n"), Closed),
    (Plain(""), Closed),
];

/// One request as it is sent, and its expected result.
#[derive(Debug)]
pub(super) struct RequestForm {
    pub(super) bytes: Vec<u8>,
    pub(super) expected: Expected,
}

impl RequestForm {
    /// `request`, which is valid in itself, in some form. One that is the `last` of its connection says so.
    pub(super) fn new(random: &mut Random, request: &HttpRequest, last: bool) -> Self {
        let (target, of_target) = *random.one_of(&TARGETS);
        let (hosts, of_host) = *random.one_of(&HOSTS);
        let (framing, of_framing) = *random.one_of(&FRAMINGS);
        // Faults that close the connection take precedence over those that do not.
        let expected = of_target.max(of_host).max(of_framing);
        Self { bytes: written(request, target, hosts, framing, last), expected }
    }

    /// `request` in its usual form; the connection is closed after it.
    pub(super) fn plain(request: &HttpRequest) -> Self {
        Self { bytes: written(request, "{}", HOSTS[0].0, Length(""), true), expected: Served }
    }
}

fn written(request: &HttpRequest, target: &str, hosts: &str, framing: Framing, last: bool) -> Vec<u8> {
    let target = target.replace("{}", &request.target);
    let mut bytes = format!("{} {target} HTTP/1.1\r\n{hosts}", request.method).into_bytes();
    for (name, value) in &request.headers {
        bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    if last {
        bytes.extend_from_slice(b"connection: close\r\n");
    }
    let plain = request.body.to_vec();
    let (headers, body) = match framing {
        Length(headers) => (format!("{headers}content-length: {}\r\n", plain.len()), plain),
        Chunks(headers) => (headers.to_owned(), chunks(&plain)),
        Both(headers) => {
            let chunks = chunks(&plain);
            (format!("{headers}content-length: {}\r\n", chunks.len()), chunks)
        }
        Plain(headers) => (headers.to_owned(), plain),
    };
    bytes.extend([headers.as_bytes(), b"\r\n", body.as_slice()].concat());
    bytes
}

fn chunks(body: &[u8]) -> Vec<u8> {
    let (first, rest) = body.split_at(body.len() / 2);
    let chunk = |bytes: &[u8]| [format!("{:X};x=y\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    [chunk(first), chunk(rest), b"0\r\n\r\n".to_vec()].concat()
}
