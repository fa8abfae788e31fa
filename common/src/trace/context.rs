//! Trace contexts as they are propagated (W3C Trace Context, level 1).

use std::fmt;
use uuid::Uuid;

/// A trace: 16 bytes, not all zero. Shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// A span of a trace: 8 bytes, not all zero. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

/// A trace and the current span in it, the parent of the next spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Shared by all spans of the trace.
    pub trace_id: TraceId,
    /// The span that spans begun from this context have as their parent.
    pub span_id: SpanId,
    /// Whether its spans are exported.
    pub is_sampled: bool,
}

/// Bytes of a header of version 00, and of the known part of later versions.
const LENGTH: usize = 55;
/// The only flag of version 00.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// Starts a new trace with a span.
    pub fn begin(is_sampled: bool) -> Self {
        Self { trace_id: TraceId(not_zero(rand::random)), span_id: SpanId::new(), is_sampled }
    }

    /// Starts the trace of a request whose caller has sent none. It is named like the request, so that either id finds it.
    pub fn begin_for(request_id: Uuid, is_sampled: bool) -> Self {
        let trace_id = TraceId(request_id.as_u128());
        if request_id.is_nil() { Self::begin(is_sampled) } else { Self { trace_id, ..Self::begin(is_sampled) } }
    }

    /// Another span of the trace.
    pub fn child(self) -> Self {
        Self { span_id: SpanId::new(), ..self }
    }

    /// Parses a `traceparent`; `None` if it is malformed, which starts a new trace.
    pub fn parse(header: &str) -> Option<Self> {
        let (known, rest) = header.split_at_checked(LENGTH)?;
        let mut parts = known.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32).filter(|id| *id != 0)?;
        let span_id = hex(parts.next()?, 16).filter(|id| *id != 0)?;
        let flags = hex(parts.next()?, 2)?;
        // Later versions may only add parts.
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let is_whole = fits && parts.next().is_none();
        is_whole.then_some(Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(u64::try_from(span_id).ok()?),
            is_sampled: flags & u128::from(SAMPLED) != 0,
        })
    }

    /// Formats it as a `traceparent` of version 00.
    pub fn to_header(self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace_id, self.span_id)
    }
}

impl TraceId {
    /// Number of digits of its text.
    pub const LENGTH: usize = 32;

    /// Its bytes as they are stored. Most are no valid UUIDs.
    pub const fn as_uuid(self) -> Uuid {
        Uuid::from_u128(self.0)
    }

    /// Writes its text into `digits`: the same as [`Display`](fmt::Display), without the cost of formatting.
    pub fn encode(self, digits: &mut [u8; Self::LENGTH]) -> &str {
        hex::encode_to_slice(self.0.to_be_bytes(), digits).expect("two digits for each byte");
        str::from_utf8(digits).expect("digits")
    }
}

impl SpanId {
    fn new() -> Self {
        Self(not_zero(rand::random))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The first random value that is not zero, because zero is not a valid id.
fn not_zero<T: Default + PartialEq>(mut random: impl FnMut() -> T) -> T {
    loop {
        let id = random();
        if id != T::default() {
            return id;
        }
    }
}

/// Exactly `digits` lower-case digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_lower = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (text.len() == digits && is_lower).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_without_a_caller_is_named_like_its_request() {
        let id = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        let begun = TraceContext::begin_for(id, true);
        assert_eq!((begun.trace_id.to_string(), begun.is_sampled), (id.simple().to_string(), true));
        assert_eq!(begun.trace_id.as_uuid(), id);
        assert_ne!(TraceContext::begin_for(Uuid::nil(), true).trace_id.as_uuid(), Uuid::nil(), "not a valid id");
    }

    #[test]
    fn a_header_is_read_and_written_as_it_was() {
        let context = TraceContext::parse(SENT).unwrap();
        assert_eq!(context.trace_id.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.trace_id.encode(&mut [0; 32]), context.trace_id.to_string());
        assert_eq!(context.span_id.to_string(), "b7ad6b7169203331");
        assert!(context.is_sampled);
        assert_eq!(context.to_header(), SENT);
        let unsampled = SENT.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).unwrap().to_header(), unsampled);
    }

    #[test]
    fn flags_that_are_not_known_are_not_passed_on() {
        assert_eq!(TraceContext::parse(&SENT.replace("-01", "-ff")).unwrap().to_header(), SENT);
        assert!(!TraceContext::parse(&SENT.replace("-01", "-fe")).unwrap().is_sampled);
    }

    #[test]
    fn malformed_traceparents_are_ignored() {
        let (longer, extended) = (format!("{SENT}0"), format!("{SENT}-00"));
        let forbidden = SENT.replacen("00", "ff", 1);
        let wide = format!("{}é", &SENT[..54]);
        for bad in [
            "",
            "00",
            &SENT[..54],
            &longer,
            &extended,
            &forbidden,
            &wide,
            &SENT.to_uppercase(),
            &SENT.replace('-', "_"),
            &SENT.replacen("-b7ad6b71", "b-7ad6b71", 1),
            &SENT.replacen("0a", "+a", 1),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331--1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_known_part_of_a_later_version_is_parsed() {
        let later = SENT.replacen("00", "cc", 1);
        for good in [later.clone(), format!("{later}-what-comes-later")] {
            assert_eq!(TraceContext::parse(&good), TraceContext::parse(SENT), "{good}");
        }
        assert_eq!(TraceContext::parse(&format!("{later}.what")), None);
    }

    #[test]
    fn a_child_is_another_span_of_the_trace() {
        let parent = TraceContext::begin(true);
        let child = parent.child();
        assert_eq!((child.trace_id, child.is_sampled), (parent.trace_id, true));
        assert_ne!(child.span_id, parent.span_id);
        assert_ne!(TraceContext::begin(true).trace_id, parent.trace_id);
    }
}
