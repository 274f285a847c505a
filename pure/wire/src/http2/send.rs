//! Answers that go out, as far as the peer's windows let them. Streams take turns.

use super::connection::{Answer, Connection, Outgoing, Phase, State};
use super::{frame, hpack};

/// Bytes of one frame of an answer. Peers may take more, but then others wait longer.
const PIECE_BYTES: usize = 16_384;

/// A piece of fewer bytes, that is not the last, is little.
const LEAST_BYTES: usize = 1_024;

impl Connection {
    /// Answers the request of a stream. It goes out by [`Self::write`]. Tells whether the stream is
    /// still there: its client may have taken the request back.
    pub fn answer(&mut self, now_ms: u64, stream: u32, answer: &Answer<'_>) -> bool {
        let Some(index) = self.find(stream) else { return false };
        match self.streams[index].state {
            State::Working => {}
            State::Cancelled => {
                self.remove(index);
                return false;
            }
            State::Receiving { .. } | State::Answering(_) => return false,
        }
        let (mut head, mut trailers) = (Vec::new(), Vec::new());
        if !std::mem::replace(&mut self.has_sent_block, true) {
            hpack::write_no_table(&mut head);
        }
        answer.head.iter().for_each(|(name, value)| hpack::write(&mut head, name, value));
        answer.trailers.iter().for_each(|(name, value)| hpack::write(&mut trailers, name, value));
        let body = answer.body.clone();
        self.streams[index].state =
            State::Answering(Outgoing { head, body, trailers, since_ms: now_ms });
        true
    }

    /// Appends what can be sent; stops before more than about `bytes_max` of answers. Tells whether
    /// there may be more at once.
    pub fn write(&mut self, now_ms: u64, to: &mut Vec<u8>, bytes_max: usize) -> bool {
        if self.phase == Phase::Preface {
            // Not before the client has said that it speaks HTTP/2.
            return false;
        }
        to.append(&mut self.control);
        let end = to.len() + bytes_max;
        let mut looked = 0;
        while looked < self.streams.len() {
            if to.len() >= end {
                return true;
            }
            let index = self.turn % self.streams.len();
            self.turn = index + 1;
            match self.write_stream(now_ms, index, to) {
                Wrote::Nothing => looked += 1,
                Wrote::Little => looked = 0,
                Wrote::Some => {
                    looked = 0;
                    self.earn();
                }
                Wrote::All => {
                    looked = 0;
                    self.earn();
                    self.end(index);
                }
            }
        }
        to.append(&mut self.control);
        false
    }

    /// One frame of an answer, and what belongs before and behind it.
    fn write_stream(&mut self, now_ms: u64, index: usize, to: &mut Vec<u8>) -> Wrote {
        let stream = &mut self.streams[index];
        let (id, window) = (stream.id, self.send_window.min(stream.send_window));
        let State::Answering(outgoing) = &mut stream.state else { return Wrote::Nothing };
        let before = to.len();
        let has_trailers = !outgoing.trailers.is_empty();
        if !outgoing.head.is_empty() {
            let head = std::mem::take(&mut outgoing.head);
            let ends = outgoing.body.is_empty() && !has_trailers;
            write_block(to, id, &head, ends);
            if ends {
                return Wrote::All;
            }
        }
        let len = outgoing.body.len().min(PIECE_BYTES);
        let len = len.min(usize::try_from(window).unwrap_or(0));
        if len > 0 {
            let piece = outgoing.body.split_to(len);
            let ends = outgoing.body.is_empty() && !has_trailers;
            let flags = if ends { frame::END_STREAM } else { 0 };
            frame::head(to, len, frame::DATA, flags, id);
            to.extend_from_slice(&piece);
            self.taken_bytes += len as u64;
            let len = i64::try_from(len).unwrap_or(i64::MAX);
            self.send_window -= len;
            stream.send_window -= len;
        }
        if outgoing.body.is_empty() {
            if has_trailers {
                write_block(to, id, &std::mem::take(&mut outgoing.trailers), true);
            }
            return Wrote::All;
        }
        if to.len() == before {
            return Wrote::Nothing;
        }
        if len < LEAST_BYTES {
            return Wrote::Little;
        }
        outgoing.since_ms = now_ms;
        Wrote::Some
    }

    /// A stream is answered. Of a request that is not whole the rest is not wanted.
    fn end(&mut self, index: usize) {
        let (id, is_whole) = (self.streams[index].id, self.streams[index].is_whole);
        self.remove(index);
        if !is_whole {
            self.note_reset(id);
            frame::reset(&mut self.control, id, frame::NO_ERROR);
        }
    }
}

/// What became of a stream's turn.
enum Wrote {
    /// There is nothing to write, or the windows are closed.
    Nothing,
    /// So little that it earns nothing and renews no time: a peer that opens its windows a byte at a time
    /// would else pay for floods with it, and hold an answer for ever.
    Little,
    Some,
    All,
}

/// A header block, in as many frames as it takes.
fn write_block(to: &mut Vec<u8>, stream: u32, block: &[u8], ends_stream: bool) {
    let mut pieces = block.chunks(PIECE_BYTES).peekable();
    let mut kind = frame::HEADERS;
    while let Some(piece) = pieces.next() {
        let mut flags = if pieces.peek().is_none() { frame::END_HEADERS } else { 0 };
        if ends_stream && kind == frame::HEADERS {
            flags |= frame::END_STREAM;
        }
        frame::head(to, piece.len(), kind, flags, stream);
        to.extend_from_slice(piece);
        kind = frame::CONTINUATION;
    }
}
