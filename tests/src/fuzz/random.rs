//! Random numbers and damage, determined by a seed.

/// Bytes with a meaning to one of the parsers.
const TOKENS: &[&[u8]] = &[
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\u0000", b"\\ud800", b"null", b"-0", b"1e999", b"\xff", b"\0", b" ",
    b"\r\n", b"=", b"t=", b"v1", b"v2", b"\"events\"", b"99999999999999999999", b"\n", b"\r\n\r\n", b"\r\nhost: other",
    b"\r\ncontent-length: 0", b"\r\ntransfer-encoding: chunked", b"\r\ntransfer-encoding: gzip, chunked",
    b"\r\ncontent-encoding: gzip", b"\r\nexpect: 100-continue", b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"http://other",
    b" HTTP/1.0", b"*", b"0\r\n\r\n", b"7fffffffffffffff;x=\r\n",
];

/// A generator of numbers (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }

    /// At most `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// One to four damages: bytes changed, left out, repeated, or tokens put between.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(16)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let repeated = bytes[at..end].to_vec();
                    drop(bytes.splice(at..at, repeated));
                }
                2 => bytes.truncate(at),
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {
                    let token = self.one_of(TOKENS).to_vec();
                    drop(bytes.splice(at..at, token));
                }
            }
        }
    }
}
