//! A place in a trace, as it travels (W3C Trace Context, level 1).

use std::fmt;

/// A trace: 16 bytes, not all zero. Shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// A span of a trace: 8 bytes, not all zero. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

/// A trace, and the span in it that is the parent of what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether its spans are exported.
    pub is_sampled: bool,
}

/// Bytes of a header of version 00, and of the part of a later one that is known.
const LENGTH: usize = 55;
/// The only flag of version 00.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// A new trace with a span.
    pub fn begin(is_sampled: bool) -> Self {
        Self { trace_id: TraceId(not_zero(rand::random)), span_id: SpanId::new(), is_sampled }
    }

    /// Another span of the trace.
    pub fn child(self) -> Self {
        Self { span_id: SpanId::new(), ..self }
    }

    /// Reads a `traceparent`. `None` for what isn't exactly one: its sender's trace can't be told then.
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

    /// As a `traceparent`.
    pub fn to_header(self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace_id, self.span_id)
    }
}

impl TraceId {
    /// Digits of its text.
    pub const LENGTH: usize = 32;

    /// Its text, written into `digits`: what [`Display`](fmt::Display) shows, without the cost of formatting.
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

/// The first that isn't zero, which stands for "none".
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
    fn what_is_no_traceparent_is_none() {
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
    fn of_a_later_version_the_known_part_is_read() {
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
