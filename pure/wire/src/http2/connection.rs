//! One connection: its streams, its windows, and what it may still cost. Frames that come are
//! handled in `receive`, answers go out in `send`.

use bytes::Bytes;

use super::hpack::Decoder;
use super::{ALLOWANCE_MAX, ALLOWANCE_PER_S, EARNED, Error, Fields, Limits, frame};

/// What a window is before anybody changes it (RFC 9113 section 6.9.2).
pub(super) const WINDOW_BYTES: u32 = 65_535;
/// What of the connection's window is given back at one time.
pub(super) const REFUND_BYTES: u32 = 16_384;
/// The most that a window may be.
pub(super) const WINDOW_BYTES_MAX: i64 = 0x7fff_ffff;
/// Ids of streams that were reset from here and whose last frames may still come.
const RESETS_MAX: usize = 16;

/// A request that is whole, or that is in trouble.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Of which stream: what [`Connection::answer`] is to be told.
    pub stream: u32,
    /// Its fields, pseudo-fields among them. None if they were too large.
    pub fields: Fields,
    /// Its body; empty if it is in trouble.
    pub body: Vec<u8>,
    /// Why it can only be refused.
    pub trouble: Option<Trouble>,
}

/// Why a request can only be refused. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its fields exceed [`Limits::head_bytes_max`].
    HeadTooLarge,
    /// Its body exceeds [`Limits::body_bytes_max`].
    BodyTooLarge,
}

/// What an answer consists of.
#[derive(Clone, Debug, Default)]
pub struct Answer<'a> {
    /// Fields before the body: `:status`, then others, names in lower case.
    pub head: &'a [(&'a str, &'a [u8])],
    /// The body.
    pub body: Bytes,
    /// Fields behind it.
    pub trailers: &'a [(&'a str, &'a [u8])],
}

/// What has happened since [`Connection::take_counts`] was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Streams refused because of [`Limits::streams_max`].
    pub refused: u32,
    /// Requests that their client took back before they were answered.
    pub cancelled: u32,
    /// Malformed requests, whose streams were reset.
    pub malformed: u32,
}

/// What has taken too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// A frame, a header block or the preface: the connection is of no use any more.
    pub is_connection: bool,
    /// Streams that were reset because their request did not come whole.
    pub requests: u32,
    /// Streams that were reset because their answer was not taken.
    pub answers: u32,
}

/// A connection as a server sees it.
#[derive(Debug)]
pub struct Connection {
    pub(super) limits: Limits,
    pub(super) phase: Phase,
    /// The beginning of a frame, or of the preface.
    pub(super) partial: Vec<u8>,
    pub(super) partial_since_ms: u64,
    pub(super) hpack: Decoder,
    /// A header block that goes on in the next frame.
    pub(super) block: Option<Block>,
    /// In the order in which they began.
    pub(super) streams: Vec<Stream>,
    /// The highest stream of which anything has come.
    pub(super) last_stream: u32,
    /// The highest that was not refused: what GOAWAY tells, so that clients ask the others elsewhere.
    pub(super) last_taken: u32,
    pub(super) resets: [u32; RESETS_MAX],
    pub(super) resets_at: usize,
    /// What the peer may still send.
    pub(super) receive_window: u32,
    /// What of it is to be given back.
    pub(super) refund: u32,
    /// How many streams have room for a large body.
    pub(super) large: usize,
    pub(super) send_window: i64,
    /// The window of a new stream, as the peer's SETTINGS say.
    pub(super) peer_window: u32,
    allowance: u32,
    allowance_ms: u64,
    /// Frames to go before all others.
    pub(super) control: Vec<u8>,
    pub(super) has_sent_block: bool,
    /// Whose answer goes on first.
    pub(super) turn: usize,
    /// No more streams are begun: by us, or by the peer.
    pub(super) is_leaving: bool,
    /// The peer has read our SETTINGS.
    pub(super) is_acknowledged: bool,
    /// Bytes of answers that have ever gone, or that the peer did not want any more.
    pub(super) taken_bytes: u64,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Preface,
    /// The first frame has to be SETTINGS.
    Settings,
    Open,
    /// GOAWAY has been sent because of an error; nothing is read any more.
    Failed,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) since_ms: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) state: State,
    /// The peer has sent all of it.
    pub(super) is_whole: bool,
    /// What it may still send of its body.
    pub(super) receive_window: u32,
    /// It has room for the largest body.
    pub(super) is_large: bool,
    /// What of the connection's window its body has taken.
    pub(super) taken: u32,
    pub(super) send_window: i64,
}

#[derive(Debug)]
pub(super) enum State {
    /// Its body comes.
    Receiving {
        fields: Fields,
        body: Vec<u8>,
        since_ms: u64,
    },
    /// Handed out.
    Working,
    /// Handed out, and reset by the peer. It keeps its place until it is answered: who takes back
    /// what was asked must not have more worked on than others.
    Cancelled,
    Answering(Outgoing),
}

#[derive(Debug)]
pub(super) struct Outgoing {
    /// Header blocks; the first is empty once it is sent.
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
    pub(super) trailers: Vec<u8>,
    /// When some of it last went.
    pub(super) since_ms: u64,
}

impl Connection {
    /// A connection at its beginning. There is something to send at once.
    #[must_use]
    pub fn new(limits: Limits, now_ms: u64) -> Self {
        let mut connection = Self {
            limits,
            phase: Phase::Preface,
            partial: Vec::new(),
            partial_since_ms: now_ms,
            hpack: Decoder::new(),
            block: None,
            streams: Vec::new(),
            last_stream: 0,
            last_taken: 0,
            resets: [0; RESETS_MAX],
            resets_at: 0,
            receive_window: 0,
            refund: 0,
            large: 0,
            send_window: i64::from(WINDOW_BYTES),
            peer_window: WINDOW_BYTES,
            allowance: ALLOWANCE_MAX,
            allowance_ms: now_ms,
            control: Vec::new(),
            has_sent_block: false,
            turn: 0,
            is_leaving: false,
            is_acknowledged: false,
            taken_bytes: 0,
            counts: Counts::default(),
        };
        connection.begin();
        connection
    }

    /// Whether nothing is asked or answered: no stream is there, and no frame has begun.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.partial.is_empty() && self.block.is_none()
    }

    /// Whether nothing more will come of it: it is leaving, and all is answered and written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let has_left = self.is_leaving && self.streams.is_empty();
        // Before the preface nothing is written at all.
        let is_written = self.control.is_empty() || self.phase == Phase::Preface;
        (has_left || self.phase == Phase::Failed) && is_written
    }

    /// Bytes of answers that are not written yet.
    #[must_use]
    pub fn unwritten_bytes(&self) -> usize {
        let body = |stream: &Stream| match &stream.state {
            State::Answering(outgoing) => outgoing.body.len(),
            State::Receiving { .. } | State::Working | State::Cancelled => 0,
        };
        self.streams.iter().map(body).sum()
    }

    /// Bytes of answers that have ever been written, or that the peer took back: beside
    /// [`Self::unwritten_bytes`] they tell whether it takes what waits.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// What has happened since it was last asked.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Ends the connection in order: the peer begins no more streams, those that are there are
    /// answered, then it [`Self::is_over`].
    pub fn leave(&mut self, text: &str) {
        if !std::mem::replace(&mut self.is_leaving, true) {
            frame::go_away(&mut self.control, self.last_taken, frame::NO_ERROR, text);
        }
    }

    /// Ends the connection because of an error: what is not written yet is dropped, but for the
    /// frame that says why.
    pub fn fail(&mut self, error: Error) {
        self.phase = Phase::Failed;
        self.streams.clear();
        self.block = None;
        self.large = 0;
        frame::go_away(&mut self.control, self.last_taken, error.code(), &error.to_string());
    }

    /// Looks for what has taken too long: `request_ms` for a request to come whole, `answer_ms` for
    /// some of an answer to be taken.
    pub fn expire(&mut self, now_ms: u64, request_ms: u64, answer_ms: u64) -> Late {
        let is_late = |since_ms: u64, ms: u64| now_ms.saturating_sub(since_ms) >= ms;
        let is_begun = !self.partial.is_empty() || self.phase != Phase::Open;
        let block_since_ms = self.block.as_ref().map(|block| block.since_ms);
        let mut late = Late {
            is_connection: (is_begun && is_late(self.partial_since_ms, request_ms))
                || block_since_ms.is_some_and(|since_ms| is_late(since_ms, request_ms)),
            ..Late::default()
        };
        let late_streams: Vec<u32> = self
            .streams
            .iter()
            .filter_map(|stream| match &stream.state {
                State::Receiving { since_ms, .. } if is_late(*since_ms, request_ms) => {
                    late.requests += 1;
                    Some(stream.id)
                }
                State::Answering(outgoing) if is_late(outgoing.since_ms, answer_ms) => {
                    late.answers += 1;
                    Some(stream.id)
                }
                _ => None,
            })
            .collect();
        for id in late_streams {
            self.reset(id, frame::CANCEL);
        }
        late
    }

    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Takes a stream away; what its body has taken of the connection's window is given back.
    pub(super) fn remove(&mut self, index: usize) {
        let stream = self.streams.remove(index);
        self.give_back(stream.taken);
        if stream.is_large {
            self.large -= 1;
            self.make_room();
        }
        // Whoever's turn it is has moved up.
        if index < self.turn {
            self.turn -= 1;
        }
    }

    /// Ends a stream, if it is there, with this code.
    pub(super) fn reset(&mut self, id: u32, code: u32) {
        if let Some(index) = self.find(id) {
            self.remove(index);
        }
        self.note_reset(id);
        frame::reset(&mut self.control, id, code);
    }

    pub(super) fn note_reset(&mut self, id: u32) {
        self.resets[self.resets_at] = id;
        self.resets_at = (self.resets_at + 1) % RESETS_MAX;
    }

    /// The peer may send so much more again; it is told when it is worth a frame.
    pub(super) fn give_back(&mut self, bytes: u32) {
        self.refund += bytes;
        if self.refund >= REFUND_BYTES {
            frame::window_update(&mut self.control, 0, self.refund);
            self.receive_window += self.refund;
            self.refund = 0;
        }
    }

    /// One more frame without a request.
    pub(super) fn charge(&mut self, now_ms: u64, cost: u32) -> Result<(), Error> {
        let elapsed_ms = now_ms.saturating_sub(self.allowance_ms);
        let back = elapsed_ms.saturating_mul(u64::from(ALLOWANCE_PER_S)) / 1_000;
        if back > 0 {
            self.allowance_ms = now_ms;
            self.allow(u32::try_from(back).unwrap_or(u32::MAX));
        }
        self.allowance = self
            .allowance
            .checked_sub(cost)
            .ok_or(Error::Calm("too many frames that carry no request"))?;
        Ok(())
    }

    /// Something was asked or answered.
    pub(super) fn earn(&mut self) {
        self.allow(EARNED);
    }

    fn allow(&mut self, more: u32) {
        self.allowance = self.allowance.saturating_add(more).min(ALLOWANCE_MAX);
    }
}
