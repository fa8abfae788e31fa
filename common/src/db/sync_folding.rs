//! Sends the statements of a transaction without a `Sync` after each.
//!
//! The driver ends each statement with `Sync`, at which Postgres flushes its output and reports that it is ready: for thirteen
//! look-ups that is 40 % of the server's processor time, and eight more reads. In a transaction that begins with [`BEGIN`] a `Sync`
//! before another statement changes nothing, because a statement that fails ends all of them. So it is left out, and the driver is
//! given the answer that it waits for.
//!
//! The driver hands over whole statements, so the last `Sync` of what it has handed over at once always stays. It must neither copy
//! nor use portals on such a connection: the answers to those are counted differently.

use super::pipelined::BEGIN;
use bytes::{Buf, BytesMut};
use std::collections::VecDeque;

/// `ReadyForQuery` in a transaction, and in one that has failed.
const READY: &[u8] = b"Z\0\0\0\x05T";
const READY_AFTER_ERROR: &[u8] = b"Z\0\0\0\x05E";
/// What Postgres responds to a statement of a transaction that has failed.
const SKIPPED: &[u8] =
    b"E\0\0\0\x57SERROR\0VERROR\0C25P02\0Mcurrent transaction is aborted, an earlier statement failed\0\0";

/// Bytes of a frame's type and length.
const HEADER: usize = 5;

/// Folds the frames of one connection.
#[derive(Debug, Default)]
pub(super) struct SyncFolding {
    /// What the driver has sent of a frame that is not complete.
    sending: BytesMut,
    /// The type of the last frame that was sent.
    sent: u8,
    is_transaction: bool,
    /// For each `ReadyForQuery` that the driver waits for, whether its `Sync` was left out.
    awaited: VecDeque<bool>,
    /// The header of the frame that is being received, and how many bytes of it are missing after it.
    header: Vec<u8>,
    missing: usize,
}

impl SyncFolding {
    /// Takes bytes of the driver and adds those for the server to `out`.
    pub(super) fn send(&mut self, bytes: &[u8], out: &mut BytesMut) {
        self.sending.extend_from_slice(bytes);
        while let Some(frame) = next_frame(&mut self.sending) {
            let previous = std::mem::replace(&mut self.sent, frame[0]);
            match frame[0] {
                b'Q' => {
                    self.is_transaction = frame[HEADER..].starts_with(BEGIN.as_bytes());
                    self.awaited.push_back(false);
                }
                b'S' => {
                    let is_folded = self.is_transaction && previous == b'E' && self.sending.first() == Some(&b'B');
                    self.awaited.push_back(is_folded);
                    if is_folded {
                        continue;
                    }
                }
                _ => {}
            }
            out.extend_from_slice(&frame);
        }
    }

    /// Takes bytes of the server and adds those for the driver to `out`.
    pub(super) fn receive(&mut self, mut bytes: &[u8], out: &mut BytesMut) {
        while !bytes.is_empty() {
            let is_header = self.header.len() < HEADER;
            let wanted = if is_header { HEADER - self.header.len() } else { self.missing };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            out.extend_from_slice(taken);
            bytes = rest;
            if !is_header {
                self.missing -= taken.len();
            } else {
                self.header.extend_from_slice(taken);
                if self.header.len() < HEADER {
                    return;
                }
                // The length counts itself, but not the type.
                self.missing = ((&self.header[1..]).get_u32() as usize).saturating_sub(HEADER - 1);
            }
            if self.missing == 0 {
                self.end_frame(out);
                self.header.clear();
            }
        }
    }

    /// Adds what Postgres would have sent after this frame, if the `Sync` of its statement had not been left out.
    fn end_frame(&mut self, out: &mut BytesMut) {
        let is_folded = self.awaited.front() == Some(&true);
        match self.header[0] {
            b'Z' => drop(self.awaited.pop_front()),
            // The end of a statement: CommandComplete, EmptyQueryResponse.
            b'C' | b'I' if is_folded => {
                self.awaited.pop_front();
                out.extend_from_slice(READY);
            }
            // Postgres skips the others up to the last one, whose `Sync` it has got.
            b'E' if is_folded => {
                while self.awaited.front() == Some(&true) {
                    self.awaited.pop_front();
                    out.extend_from_slice(READY_AFTER_ERROR);
                    out.extend_from_slice(SKIPPED);
                }
            }
            _ => {}
        }
    }
}

/// The next complete frame. The first one of a connection has no type, but begins with a zero.
fn next_frame(bytes: &mut BytesMut) -> Option<BytesMut> {
    let type_length = usize::from(*bytes.first()? != 0);
    let mut length = bytes.get(type_length..type_length + 4)?;
    let length = type_length + length.get_u32() as usize;
    (bytes.len() >= length).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    /// Frames whose content looks like another one; `Z` has the status of a session without a transaction.
    fn frames(kinds: &str) -> Vec<u8> {
        kinds.bytes().flat_map(|kind| frame(kind, if kind == b'Z' { b"I" } else { READY })).collect()
    }

    fn begin() -> Vec<u8> {
        frame(b'Q', BEGIN.as_bytes())
    }

    /// The types of the frames, in which `Z` has its status after it.
    fn kinds(mut bytes: &[u8]) -> String {
        let mut kinds = String::new();
        while let [kind, length @ ..] = bytes {
            let length = u32::from_be_bytes(length[..4].try_into().unwrap()) as usize;
            let (frame, rest) = bytes.split_at(1 + length);
            kinds.push((*kind).into());
            if *kind == b'Z' {
                kinds.push(frame[HEADER].into());
            }
            bytes = rest;
        }
        kinds
    }

    /// What the server gets of the driver's bytes, and the driver of the server's, which come in pieces of `piece` bytes.
    fn exchange(sent: &[u8], received: &str, piece: usize) -> (String, String) {
        let (mut folding, mut to_server, mut to_driver) = (SyncFolding::default(), BytesMut::new(), BytesMut::new());
        folding.send(sent, &mut to_server);
        frames(received).chunks(piece).for_each(|piece| folding.receive(piece, &mut to_driver));
        assert!(folding.awaited.is_empty() && folding.header.is_empty(), "{folding:?}");
        (kinds(&to_server), kinds(&to_driver))
    }

    #[test]
    fn only_the_last_statement_of_a_transactions_round_trip_is_synced() {
        let sent = [begin(), frames("BESBESBES"), frame(b'Q', b"COMMIT\0"), frames("BESBES")].concat();
        for piece in [1, 3, 7, 1_000] {
            let (to_server, to_driver) = exchange(&sent, "CCZ2DC2I2CZCZ2CZ2CZ", piece);
            assert_eq!(to_server, "QBEBEBESQBESBES");
            assert_eq!(to_driver, "CCZI2DCZT2IZT2CZICZI2CZI2CZI");
        }
    }

    #[test]
    fn what_fails_ends_the_statements_after_it_up_to_the_sync() {
        let sent = [begin(), frames("BESBESBESBES"), frame(b'Q', b"COMMIT\0")].concat();
        let (_, to_driver) = exchange(&sent, "CZ2C2EZCZ", 200);
        assert_eq!(to_driver, "CZI2CZT2EZEEZEEZICZI");
        let (_, to_driver) = exchange(&sent, "CZ2C2C2C2EZCZ", 1);
        assert_eq!(to_driver, "CZI2CZT2CZT2CZT2EZICZI", "the last one has its own");
    }

    #[test]
    fn everything_else_passes_unchanged() {
        let start = [8_u32.to_be_bytes(), *b"user"].concat();
        let sent = [frames("pPDSBESBESCSX"), frame(b'Q', b"BEGIN\0"), frames("BESBES")].concat();
        let received = "RKZ1TZ2DCZ2NEZ3ZAZ2CZ2CZ";
        let (mut folding, mut to_server, mut to_driver) = (SyncFolding::default(), BytesMut::new(), BytesMut::new());
        let whole = [start, sent].concat();
        whole.chunks(3).for_each(|piece| folding.send(piece, &mut to_server));
        folding.receive(&frames(received), &mut to_driver);
        assert_eq!((to_server, to_driver), (whole.as_slice().into(), frames(received).as_slice().into()));
    }

    #[test]
    fn the_skipped_statements_error_is_well_formed() {
        assert_eq!(kinds(SKIPPED), "E");
        assert_eq!(kinds(&[READY, READY_AFTER_ERROR].concat()), "ZTZE");
    }
}
