//! Frames that come: requests are put together, the rest of the protocol is obeyed.
//!
//! A stream's window lets it send a small body. Who sends a larger one is given room for the largest,
//! if there is any, in the order in which the streams began: so what a connection holds is bounded,
//! and halves of bodies never wait for one another. The connection's window has room for all of it.

use super::connection::{
    Block, Connection, Phase, REFUND_BYTES, Request, State, Stream, Trouble, WINDOW_BYTES,
    WINDOW_BYTES_MAX,
};
use super::frame::{self, Frame, HEAD_BYTES, PREFACE};
use super::hpack::ENTRY_BYTES;
use super::{BLOCK_BYTES_MAX, DEAR_COST, Error, Fields, SMALL_BYTES};

/// The first byte of every TLS connection: a record of the type handshake (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// Names of settings (RFC 9113 section 6.5.2).
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

impl Connection {
    /// What is sent first: our settings, and the connection's window.
    pub(super) fn begin(&mut self) {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let settings = [
            (MAX_CONCURRENT_STREAMS, number(self.limits.streams_max)),
            (INITIAL_WINDOW_SIZE, SMALL_BYTES),
            (MAX_HEADER_LIST_SIZE, number(self.limits.head_bytes_max)),
        ];
        frame::head(&mut self.control, 6 * settings.len(), frame::SETTINGS, 0, 0);
        for (name, value) in settings {
            self.control.extend_from_slice(&name.to_be_bytes());
            self.control.extend_from_slice(&value.to_be_bytes());
        }
        let small = self.limits.streams_max.saturating_mul(number_usize(SMALL_BYTES));
        let window = small.saturating_add(self.limits.large_bytes_max);
        // What waits to be given back must not be missed.
        let window = number(window).saturating_add(2 * REFUND_BYTES);
        self.receive_window = window.clamp(WINDOW_BYTES, 0x7fff_ffff);
        let more = self.receive_window - WINDOW_BYTES;
        if more > 0 {
            frame::window_update(&mut self.control, 0, more);
        }
    }

    /// Gives streams room that send a large body, as far as there is any.
    pub(super) fn make_room(&mut self) {
        // One byte more than a body may have: who sends it has sent too much.
        let largest = u32::try_from(self.limits.body_bytes_max + 1).unwrap_or(u32::MAX);
        let Some(more) = largest.checked_sub(SMALL_BYTES).filter(|more| *more > 0) else { return };
        let count_max = (self.limits.large_bytes_max / self.limits.body_bytes_max.max(1)).max(1);
        for stream in &mut self.streams {
            if self.large >= count_max {
                return;
            }
            let State::Receiving { body, .. } = &stream.state else { continue };
            let wants = body.len() >= number_usize(SMALL_BYTES / 2);
            if wants && !stream.is_whole && !stream.is_large {
                stream.is_large = true;
                stream.receive_window = stream.receive_window.saturating_add(more);
                self.large += 1;
                frame::window_update(&mut self.control, stream.id, more.min(0x7fff_ffff));
            }
        }
    }

    /// Takes bytes from the front of `input` until a request can be handed out, or all are used up.
    /// There may be something to send then. `now_ms`: of any clock that only rises.
    ///
    /// # Errors
    /// What ends the connection; tell it by [`Connection::fail`].
    pub fn next(&mut self, now_ms: u64, input: &mut &[u8]) -> Result<Option<Request>, Error> {
        loop {
            match self.phase {
                Phase::Failed => *input = &[],
                Phase::Preface => self.preface(input)?,
                Phase::Settings | Phase::Open => {}
            }
            if input.is_empty() {
                return Ok(None);
            }
            // What lies in the input whole is read there.
            let whole = if self.partial.is_empty() {
                frame::len(input)?.and_then(|len| input.split_at_checked(len))
            } else {
                None
            };
            let request = if let Some((bytes, rest)) = whole {
                *input = rest;
                self.frame(now_ms, bytes)?
            } else {
                let Some(bytes) = self.collect(now_ms, input)? else { return Ok(None) };
                self.frame(now_ms, &bytes)?
            };
            if request.is_some() {
                return Ok(request);
            }
        }
    }

    /// Compares what comes first with what has to.
    fn preface(&mut self, input: &mut &[u8]) -> Result<(), Error> {
        if self.partial.is_empty() && input.first() == Some(&TLS_HANDSHAKE) {
            return Err(Error::Tls);
        }
        let wanted = &PREFACE[self.partial.len()..];
        let (bytes, rest) = input.split_at(input.len().min(wanted.len()));
        if !wanted.starts_with(bytes) {
            return Err(Error::Preface);
        }
        self.partial.extend_from_slice(bytes);
        *input = rest;
        if self.partial.len() == PREFACE.len() {
            self.partial = Vec::new();
            self.phase = Phase::Settings;
        }
        Ok(())
    }

    /// Puts a frame together that does not lie in the input whole; `None` if more has to come.
    fn collect(&mut self, now_ms: u64, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.partial.is_empty() {
            self.partial_since_ms = now_ms;
        }
        loop {
            let len = frame::len(&self.partial)?;
            if len == Some(self.partial.len()) {
                return Ok(Some(std::mem::take(&mut self.partial)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let missing = len.unwrap_or(HEAD_BYTES) - self.partial.len();
            let (bytes, rest) = input.split_at(input.len().min(missing));
            self.partial.extend_from_slice(bytes);
            *input = rest;
        }
    }

    fn frame(&mut self, now_ms: u64, bytes: &[u8]) -> Result<Option<Request>, Error> {
        let Some(frame) = frame::read(bytes) else { return Err(Error::FrameSize) };
        if self.phase == Phase::Settings {
            if frame.kind != frame::SETTINGS || frame.has(frame::ACK) {
                return Err(Error::Protocol("the first frame is not SETTINGS"));
            }
            self.phase = Phase::Open;
        }
        let continues = self.block.as_ref().map(|block| block.stream);
        let is_continued = frame.kind == frame::CONTINUATION && continues == Some(frame.stream);
        if continues.is_some() != (frame.kind == frame::CONTINUATION)
            || (continues.is_some() && !is_continued)
        {
            return Err(Error::Protocol("a header block is not continued where it has to be"));
        }
        match frame.kind {
            frame::DATA => self.data(now_ms, &frame),
            frame::HEADERS => self.headers(now_ms, &frame),
            frame::CONTINUATION => self.continuation(now_ms, &frame),
            frame::RST_STREAM => self.on_reset(now_ms, &frame).map(|()| None),
            frame::SETTINGS => self.settings(now_ms, &frame).map(|()| None),
            frame::PING => self.ping(now_ms, &frame).map(|()| None),
            frame::WINDOW_UPDATE => self.window_update(now_ms, &frame).map(|()| None),
            frame::PUSH_PROMISE => Err(Error::Protocol("clients do not push")),
            frame::PRIORITY if frame.payload.len() != 5 => Err(Error::FrameSize),
            frame::PRIORITY if frame.stream == 0 => Err(Error::Protocol("PRIORITY of stream 0")),
            frame::GOAWAY if frame.stream != 0 => Err(Error::Protocol("GOAWAY of a stream")),
            frame::GOAWAY if frame.payload.len() < 8 => Err(Error::FrameSize),
            frame::GOAWAY => {
                self.is_leaving = true;
                self.charge(now_ms, 1).map(|()| None)
            }
            // PRIORITY, and types that nobody here knows, are passed over.
            _ => self.charge(now_ms, 1).map(|()| None),
        }
    }

    fn headers(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<Option<Request>, Error> {
        if frame.stream.is_multiple_of(2) {
            return Err(Error::Protocol("a stream of a client has an odd number"));
        }
        let mut fragment = without_padding(frame)?;
        if frame.has(frame::PRIORITY_FLAG) {
            fragment = fragment.get(5..).ok_or(Error::FrameSize)?;
        }
        let ends_stream = frame.has(frame::END_STREAM);
        if frame.has(frame::END_HEADERS) {
            return self.block(now_ms, frame.stream, ends_stream, fragment);
        }
        let bytes = fragment.to_vec();
        self.block = Some(Block { stream: frame.stream, ends_stream, bytes, since_ms: now_ms });
        Ok(None)
    }

    fn continuation(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<Option<Request>, Error> {
        self.charge(now_ms, 1)?;
        let Some(block) = &mut self.block else { return Ok(None) };
        if block.bytes.len() + frame.payload.len() > BLOCK_BYTES_MAX {
            return Err(Error::Calm("a header block is too long"));
        }
        block.bytes.extend_from_slice(frame.payload);
        if !frame.has(frame::END_HEADERS) {
            return Ok(None);
        }
        let Some(block) = self.block.take() else { return Ok(None) };
        self.block(now_ms, block.stream, block.ends_stream, &block.bytes)
    }

    /// A whole header block: a request begins, or ends with trailers, which say nothing to us.
    fn block(
        &mut self,
        now_ms: u64,
        id: u32,
        ends_stream: bool,
        block: &[u8],
    ) -> Result<Option<Request>, Error> {
        let (mut fields, mut bytes) = (Fields::default(), 0);
        let head_bytes_max = self.limits.head_bytes_max;
        // All of it is decoded, whatever becomes of it: the next one builds on its table.
        self.hpack.decode(block, |name, value| {
            bytes += name.len() + value.len() + ENTRY_BYTES;
            if bytes <= head_bytes_max {
                fields.push(name, value);
            }
        })?;
        if let Some(index) = self.find(id) {
            return self.trailers(now_ms, index, ends_stream);
        }
        if id <= self.last_stream {
            let is_ours = self.resets.contains(&id);
            if !is_ours {
                return Err(Error::StreamClosed);
            }
            return self.charge(now_ms, DEAR_COST).map(|()| None);
        }
        self.last_stream = id;
        if self.streams.len() >= self.limits.streams_max || self.is_leaving {
            return self.refuse(now_ms, id).map(|()| None);
        }
        self.last_taken = id;
        let is_too_large = bytes > head_bytes_max;
        if !is_too_large && check(&fields).is_none() {
            return self.malformed(now_ms, id);
        }
        self.streams.push(Stream {
            id,
            state: State::Receiving { fields, body: Vec::new(), since_ms: now_ms },
            is_whole: ends_stream,
            // Before a client has read our settings, it may send that much.
            receive_window: WINDOW_BYTES,
            is_large: false,
            taken: 0,
            send_window: i64::from(self.peer_window),
        });
        let index = self.streams.len() - 1;
        if is_too_large {
            return Ok(self.hand_out(index, Some(Trouble::HeadTooLarge)));
        }
        if ends_stream { self.whole(now_ms, index) } else { Ok(None) }
    }

    /// A stream for which there is no room. Dear only to who has as many open as it was told that it may:
    /// that calls which it took back still have places it cannot know, nor that we are leaving.
    fn refuse(&mut self, now_ms: u64, id: u32) -> Result<(), Error> {
        self.counts.refused += 1;
        self.reset(id, frame::REFUSED_STREAM);
        let is_open = |stream: &&Stream| !matches!(stream.state, State::Cancelled);
        let open = self.streams.iter().filter(is_open).count();
        let knows_better = self.is_acknowledged && open >= self.limits.streams_max;
        self.charge(now_ms, if knows_better { DEAR_COST } else { 1 })
    }

    fn trailers(
        &mut self,
        now_ms: u64,
        index: usize,
        ends_stream: bool,
    ) -> Result<Option<Request>, Error> {
        let stream = &mut self.streams[index];
        if stream.is_whole {
            return Err(Error::StreamClosed);
        }
        if !ends_stream {
            let id = stream.id;
            return self.malformed(now_ms, id);
        }
        stream.is_whole = true;
        if matches!(stream.state, State::Receiving { .. }) {
            return self.whole(now_ms, index);
        }
        Ok(None)
    }

    fn malformed(&mut self, now_ms: u64, id: u32) -> Result<Option<Request>, Error> {
        self.counts.malformed += 1;
        self.reset(id, frame::PROTOCOL_ERROR);
        self.charge(now_ms, DEAR_COST).map(|()| None)
    }

    fn data(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<Option<Request>, Error> {
        if frame.stream == 0 {
            return Err(Error::Protocol("DATA of stream 0"));
        }
        let data = without_padding(frame)?;
        // The padding counts, too. A frame's length has 24 bits.
        let len = u32::try_from(frame.payload.len()).unwrap_or(u32::MAX);
        let ends_stream = frame.has(frame::END_STREAM);
        self.receive_window = self.receive_window.checked_sub(len).ok_or(Error::FlowControl)?;
        if data.len() < 64 && !ends_stream {
            // A body that comes in crumbs.
            self.charge(now_ms, 1)?;
        }
        let Some(index) = self.find(frame.stream) else {
            self.give_back(len);
            return self.on_ended(now_ms, frame.stream).map(|()| None);
        };
        let stream = &mut self.streams[index];
        if stream.is_whole {
            return Err(Error::StreamClosed);
        }
        let State::Receiving { body, .. } = &mut stream.state else {
            // In trouble, and about to be refused.
            stream.is_whole |= ends_stream;
            self.give_back(len);
            return Ok(None);
        };
        let Some(window) = stream.receive_window.checked_sub(len) else {
            self.give_back(len);
            self.reset(frame.stream, frame::FLOW_CONTROL_ERROR);
            return self.charge(now_ms, DEAR_COST).map(|()| None);
        };
        stream.receive_window = window;
        stream.is_whole = ends_stream;
        stream.taken += len;
        let trouble = if body.len() + data.len() > self.limits.body_bytes_max {
            Some(Trouble::BodyTooLarge)
        } else {
            body.extend_from_slice(data);
            None
        };
        if trouble.is_some() {
            return Ok(self.hand_out(index, trouble));
        }
        if ends_stream {
            return self.whole(now_ms, index);
        }
        self.unpad(frame, data.len());
        self.make_room();
        Ok(None)
    }

    /// Gives a stream's window back what padding has taken of it.
    fn unpad(&mut self, frame: &Frame<'_>, data_bytes: usize) {
        let padding = u32::try_from(frame.payload.len() - data_bytes).unwrap_or(0);
        let Some(index) = self.find(frame.stream).filter(|_| padding > 0) else { return };
        let stream = &mut self.streams[index];
        stream.receive_window += padding;
        frame::window_update(&mut self.control, frame.stream, padding);
    }

    /// A request has come whole: it is handed out, unless its length is not what it says.
    fn whole(&mut self, now_ms: u64, index: usize) -> Result<Option<Request>, Error> {
        let stream = &self.streams[index];
        if let State::Receiving { fields, body, .. } = &stream.state
            && let Some(length) = fields.get("content-length")
            && !is_number(length, body.len())
        {
            let id = stream.id;
            return self.malformed(now_ms, id);
        }
        Ok(self.hand_out(index, None))
    }

    fn hand_out(&mut self, index: usize, trouble: Option<Trouble>) -> Option<Request> {
        let stream = &mut self.streams[index];
        let (id, taken) = (stream.id, std::mem::take(&mut stream.taken));
        let state = std::mem::replace(&mut stream.state, State::Working);
        let State::Receiving { mut fields, mut body, .. } = state else { return None };
        self.give_back(taken);
        if std::mem::take(&mut self.streams[index].is_large) {
            self.large -= 1;
            self.make_room();
        }
        if trouble.is_some() {
            body = Vec::new();
        }
        if trouble == Some(Trouble::HeadTooLarge) {
            fields = Fields::default();
        }
        Some(Request { stream: id, fields, body, trouble })
    }

    /// A frame on a stream that is no more, or never was.
    fn on_ended(&mut self, now_ms: u64, id: u32) -> Result<(), Error> {
        if id > self.last_stream || id.is_multiple_of(2) {
            return Err(Error::Protocol("a frame on a stream that has not begun"));
        }
        if !self.resets.contains(&id) {
            self.reset(id, frame::STREAM_CLOSED);
        }
        self.charge(now_ms, 1)
    }

    fn on_reset(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.payload.len() != 4 {
            return Err(Error::FrameSize);
        }
        if frame.stream == 0 || frame.stream > self.last_stream {
            return Err(Error::Protocol("RST_STREAM of a stream that has not begun"));
        }
        // It has ended already: the two have crossed.
        let Some(index) = self.find(frame.stream) else { return self.charge(now_ms, 1) };
        self.counts.cancelled += 1;
        let stream = &mut self.streams[index];
        stream.is_whole = true;
        let dropped = match &stream.state {
            State::Working | State::Cancelled => {
                stream.state = State::Cancelled;
                return self.charge(now_ms, 1);
            }
            State::Receiving { .. } => 0,
            State::Answering(outgoing) => outgoing.body.len(),
        };
        self.taken_bytes += dropped as u64;
        self.remove(index);
        self.charge(now_ms, DEAR_COST)
    }

    fn settings(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.stream != 0 {
            return Err(Error::Protocol("SETTINGS of a stream"));
        }
        let (settings, rest) = frame.payload.as_chunks::<6>();
        let is_ack = frame.has(frame::ACK);
        if !rest.is_empty() || (is_ack && !settings.is_empty()) {
            return Err(Error::FrameSize);
        }
        self.charge(now_ms, 1)?;
        for [high, low, value @ ..] in settings {
            let name = u16::from_be_bytes([*high, *low]);
            if name == INITIAL_WINDOW_SIZE {
                // It touches every stream, and one frame has room for 2,730 of them.
                self.charge(now_ms, 1)?;
            }
            self.setting(name, u32::from_be_bytes(*value))?;
        }
        self.is_acknowledged |= is_ack;
        if !is_ack {
            frame::head(&mut self.control, 0, frame::SETTINGS, frame::ACK, 0);
        }
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), Error> {
        match name {
            ENABLE_PUSH if value > 1 => Err(Error::Protocol("ENABLE_PUSH is 0 or 1")),
            INITIAL_WINDOW_SIZE if value > 0x7fff_ffff => Err(Error::FlowControl),
            INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - i64::from(self.peer_window);
                self.peer_window = value;
                for stream in &mut self.streams {
                    stream.send_window += change;
                    if stream.send_window > WINDOW_BYTES_MAX {
                        return Err(Error::FlowControl);
                    }
                }
                Ok(())
            }
            MAX_FRAME_SIZE if !(16_384..=0x00ff_ffff).contains(&value) => {
                Err(Error::Protocol("MAX_FRAME_SIZE out of its range"))
            }
            // Larger frames would only make others wait longer.
            MAX_FRAME_SIZE => Ok(()),
            // The size of the peer's table: ours keeps nothing. What else there is, nobody knows.
            _ => Ok(()),
        }
    }

    fn ping(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<(), Error> {
        if frame.stream != 0 {
            return Err(Error::Protocol("PING of a stream"));
        }
        if frame.payload.len() != 8 {
            return Err(Error::FrameSize);
        }
        self.charge(now_ms, 1)?;
        if !frame.has(frame::ACK) {
            frame::head(&mut self.control, 8, frame::PING, frame::ACK, 0);
            self.control.extend_from_slice(frame.payload);
        }
        Ok(())
    }

    fn window_update(&mut self, now_ms: u64, frame: &Frame<'_>) -> Result<(), Error> {
        let more = frame::number(frame.payload).filter(|_| frame.payload.len() == 4);
        let more = i64::from(more.ok_or(Error::FrameSize)? & 0x7fff_ffff);
        self.charge(now_ms, 1)?;
        if frame.stream == 0 {
            self.send_window += more;
            return match (more, self.send_window) {
                (0, _) => Err(Error::Protocol("WINDOW_UPDATE of nothing")),
                (_, window) if window > WINDOW_BYTES_MAX => Err(Error::FlowControl),
                _ => Ok(()),
            };
        }
        let Some(index) = self.find(frame.stream) else {
            let is_known = frame.stream <= self.last_stream && !frame.stream.is_multiple_of(2);
            let unknown = Error::Protocol("WINDOW_UPDATE of a stream that has not begun");
            return if is_known { Ok(()) } else { Err(unknown) };
        };
        let stream = &mut self.streams[index];
        stream.send_window += more;
        let code = match more {
            0 => frame::PROTOCOL_ERROR,
            _ if stream.send_window > WINDOW_BYTES_MAX => frame::FLOW_CONTROL_ERROR,
            _ => return Ok(()),
        };
        if matches!(stream.state, State::Working | State::Cancelled) {
            // Its call runs on, so its place is not free: no stream of a peer that makes us reset it, but
            // the connection ends (RFC 9113 section 5.4.2 leaves the choice).
            return Err(Error::Protocol("a wrong WINDOW_UPDATE of a call at work"));
        }
        self.reset(frame.stream, code);
        self.charge(now_ms, DEAR_COST)
    }
}

/// 32 bits fit everywhere that this runs.
fn number_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The payload without its padding (RFC 9113 section 6.1).
fn without_padding<'a>(frame: &Frame<'a>) -> Result<&'a [u8], Error> {
    if !frame.has(frame::PADDED) {
        return Ok(frame.payload);
    }
    let (padding, payload) = frame.payload.split_first().ok_or(Error::FrameSize)?;
    let len = payload.len().checked_sub(usize::from(*padding));
    len.and_then(|len| payload.get(..len)).ok_or(Error::Protocol("more padding than payload"))
}

/// Whether decimal digits say `expected`.
fn is_number(digits: &[u8], expected: usize) -> bool {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse::<usize>().ok()) == Some(expected)
}

/// Whether these can be the fields of a request (RFC 9113 sections 8.2 and 8.3); `None` if not.
fn check(fields: &Fields) -> Option<()> {
    let (mut method, mut scheme, mut path, mut authority) = (0, 0, 0, 0);
    let mut is_behind = false;
    for (name, value) in fields.iter() {
        let is_pseudo = name.first() == Some(&b':');
        if is_pseudo && is_behind {
            return None;
        }
        is_behind |= !is_pseudo;
        match name {
            b":method" => method += 1,
            b":scheme" => scheme += 1,
            b":path" if value.is_empty() => return None,
            b":path" => path += 1,
            b":authority" => authority += 1,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return None,
            b"te" if value != b"trailers" => return None,
            _ if is_pseudo || name.is_empty() => return None,
            _ => {}
        }
        let is_name = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        let is_value = |byte: &u8| !matches!(byte, 0 | b'\r' | b'\n');
        if !name.iter().all(is_name) || !value.iter().all(is_value) {
            return None;
        }
    }
    (method == 1 && scheme == 1 && path == 1 && authority <= 1).then_some(())
}
