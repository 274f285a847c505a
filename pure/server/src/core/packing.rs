//! Answers that are compressed for clients that accept it, over HTTP and gRPC: which ones, and how much in
//! one turn of a core, since everybody else waits meanwhile. Compressing itself is `wire::http1`'s.

use wire::http1::Gzip;

use super::Core;

/// Answers from here on are compressed for clients that accept it: less is not worth a packet.
const PACKED_BYTES_MIN: usize = 1_024;
/// Up to here.
const PACKED_BYTES_MAX: usize = 256 << 10;
/// Of all answers of one turn; what is beyond goes as it is. So much takes a core 0.5 to 1 ms if it is JSON
/// (2 to 4 us a KiB), 2.3 ms if it is noise (AMD EPYC of a virtual machine, 2026-11, no record kept).
const PACKED_PER_TURN_BYTES_MAX: usize = PACKED_BYTES_MAX;

/// A core's compressor.
#[derive(Default)]
pub(super) struct Packing {
    gzip: Gzip,
    /// The turn in which so many bytes were compressed.
    turn: u32,
    bytes: usize,
}

impl Core {
    /// An answer in gzip, if it is to be compressed.
    pub(super) fn pack(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        if !(PACKED_BYTES_MIN..=PACKED_BYTES_MAX).contains(&content.len()) {
            return None;
        }
        let packing = &mut self.packing;
        if packing.turn != self.turn {
            (packing.turn, packing.bytes) = (self.turn, 0);
        }
        if packing.bytes + content.len() > PACKED_PER_TURN_BYTES_MAX {
            self.stats.answers_not_packed.up();
            return None;
        }
        packing.bytes += content.len();
        // As fast as it goes, noise becomes a twentieth more.
        packing.gzip.pack(content).filter(|packed| packed.len() < content.len())
    }
}
