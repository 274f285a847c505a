//! Reading the socket: the answer to the handshake, echoes, envelopes by their number, match
//! messages, pings.
//!
//! Envelopes are not parsed whole: the few values needed are found by their keys. A key within a
//! string cannot be mistaken for one, because its quotes are escaped there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use event::Output;
use memchr::memmem;
use wire::websocket::{self, Decoder, Message, Opcode, Role};

use super::http::Wrong;
use super::steps::is_binary_message;
use super::{ANSWER_LIMITS, Command, Generator};
use crate::load::generator::inbox::{Arrival, numbers_between};
use crate::load::generator::player::{Doing, Expecting, Link};
use crate::load::record::NO_OP;
use crate::load::record::kind::{Cause, Kind};
use crate::load::scenario::Audience;
use crate::load::scenario::mark::{Mark, PAYLOAD_BYTES_MAX};
use crate::load::scenario::program::{StepKind, audience_index};

/// Bytes of one message from the server, at most.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Where the kind of an envelope is looked for.
const KIND_BYTES_MAX: usize = 64;

impl Generator {
    pub(super) fn upgrade_answer(
        &mut self,
        now_ns: u64,
        index: usize,
        bytes: &[u8],
        out: &mut Output<Command>,
    ) {
        let mut rest = bytes;
        let Link::Upgrading { decoder, key } = &mut self.links[index] else { return };
        let wrong = match decoder.next(&mut rest, &ANSWER_LIMITS, false) {
            Ok(None) => return,
            Ok(Some(response)) if websocket::is_accepted(&response, *key) => None,
            Ok(Some(response)) => {
                let body = String::from_utf8_lossy(response.body);
                let kind = Kind::refused(Cause::Handshake(response.status), &body);
                Some(Wrong::new(kind, body))
            }
            Err(error) => {
                Some(Wrong::new(Kind::new(Cause::NotHttp, format!("not HTTP: {error}")), ""))
            }
        };
        if let Some(wrong) = wrong {
            self.drop_link(index, out);
            return self.fail(now_ns, index, &wrong.kind, || wrong.example, out);
        }
        self.links[index] = Link::Socket(Decoder::new(Role::Client, MESSAGE_BYTES_MAX));
        self.sockets += 1;
        self.spread_ping(now_ns, index);
        if self.answered(now_ns, index, 1) {
            self.advance(now_ns, index, out);
        }
        if !rest.is_empty() && matches!(self.links[index], Link::Socket(_)) {
            self.frames(now_ns, index, rest, out);
        }
    }

    pub(super) fn frames(
        &mut self,
        now_ns: u64,
        index: usize,
        bytes: &[u8],
        out: &mut Output<Command>,
    ) {
        let mut rest = bytes;
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Link::Socket(decoder) = &mut self.links[index] {
            match decoder.next(&mut rest, &mut scratch) {
                Ok(None) => break,
                Ok(Some(message)) => self.message(now_ns, index, message, out),
                Err(error) => {
                    let kind = Kind::new(Cause::NotWebSocket, format!("not WebSocket: {error}"));
                    self.drop_link(index, out);
                    self.fail(now_ns, index, &kind, String::new, out);
                }
            }
        }
        self.scratch = scratch;
    }

    fn message(
        &mut self,
        now_ns: u64,
        index: usize,
        message: Message<'_>,
        out: &mut Output<Command>,
    ) {
        match message {
            Message::Text(text) => {
                self.record.frames_in += 1;
                self.text(now_ns, index, text.as_bytes(), out);
            }
            Message::Binary(bytes) => {
                self.record.frames_in += 1;
                self.binary(now_ns, index, bytes, out);
            }
            Message::Ping(payload) => self.send_frame(index, Opcode::Pong, payload, out),
            Message::Pong(_) => {}
            Message::Close { code, reason } => {
                let code = code.map_or("no code".to_owned(), |code| code.to_string());
                let kind = format!("socket closed by the server: {code} {reason}");
                let kind = Kind::new(Cause::Closed, kind.trim_end().to_owned());
                self.drop_link(index, out);
                self.fail(now_ns, index, &kind, String::new, out);
            }
        }
    }

    fn binary(&mut self, now_ns: u64, index: usize, bytes: &[u8], out: &mut Output<Command>) {
        let player = &self.players[index];
        match (player.doing, player.expecting) {
            (Doing::Busy, Expecting::Echo(number)) => {
                let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let is_same =
                    is_binary_message(bytes, number) && self.expected_size(index) == Some(size);
                self.finish_op(now_ns, index, is_same.then_some(()).ok_or("echo differs"), out);
            }
            (Doing::Busy, Expecting::Frame) => self.finish_op(now_ns, index, Ok(()), out),
            _ => self.record.error(
                NO_OP,
                &Kind::of(Cause::Unasked, "binary frame that nobody asked for"),
                String::new,
            ),
        }
    }

    fn expected_size(&self, index: usize) -> Option<u32> {
        let player = &self.players[index];
        let plan = &self.program.sessions[usize::from(player.session)];
        match plan.steps.get(usize::from(player.step))?.kind {
            StepKind::Binary { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    fn finish_op(
        &mut self,
        now_ns: u64,
        index: usize,
        result: Result<(), &'static str>,
        out: &mut Output<Command>,
    ) {
        match result {
            Ok(()) => {
                if self.answered(now_ns, index, 1) {
                    self.advance(now_ns, index, out);
                }
            }
            Err(text) => {
                self.fail(now_ns, index, &Kind::of(Cause::Other, text), String::new, out);
            }
        }
    }

    fn text(&mut self, now_ns: u64, index: usize, text: &[u8], out: &mut Output<Command>) {
        let start = &text[..text.len().min(KIND_BYTES_MAX)];
        if memmem::find(start, b"\"match_data\"").is_some() {
            return self.match_data(now_ns, index, text, out);
        }
        let player = &self.players[index];
        if player.doing == Doing::Busy && player.expecting == Expecting::Frame {
            return self.finish_op(now_ns, index, Ok(()), out);
        }
        let Some(cid) = string_field(text, b"\"cid\"").and_then(number) else {
            if memmem::find(start, b"\"error\"").is_some() {
                self.record.error(NO_OP, &Kind::of(Cause::Envelope, "error without a cid"), || {
                    lossy(text)
                });
            }
            return;
        };
        if let Some((awaited, sent_ns)) = player.ping
            && awaited == cid
        {
            self.players[index].ping = None;
            if let Some(op) = self.program.ping_op.and_then(|op| self.record.op(op)) {
                op.done += 1;
                op.service.record(now_ns.saturating_sub(sent_ns), 1);
            }
        } else if player.doing == Doing::Busy && player.expecting == Expecting::Cid(cid) {
            self.envelope(now_ns, index, text, out);
        } else {
            self.record.error(
                NO_OP,
                &Kind::of(Cause::Unasked, "answer that nobody asked for"),
                || lossy(text),
            );
        }
    }

    /// The answer that a step waits for.
    fn envelope(&mut self, now_ns: u64, index: usize, text: &[u8], out: &mut Output<Command>) {
        let program = self.program.clone();
        let player = &self.players[index];
        let plan = &program.sessions[usize::from(player.session)];
        let step = plan.steps.get(usize::from(player.step));
        if memmem::find(text, b"\"error\"").is_some()
            && let Some(wrong) = error_of(text)
        {
            let retry = step.and_then(|step| step.retry.as_ref());
            return self.refused(now_ns, index, wrong.look_for_retry(retry, text), out);
        }
        if let Some(StepKind::Text { captures, .. }) = step.map(|step| &step.kind) {
            for (place, path) in captures {
                let Some(value) = path.find(text) else {
                    let kind = format!("answer has no `{}`", path.text);
                    let kind = Kind::new(Cause::LacksValue, kind);
                    return self.fail(now_ns, index, &kind, || lossy(text), out);
                };
                self.keep(index, vec![(*place, value)]);
            }
        }
        self.finish_op(now_ns, index, Ok(()), out);
    }

    fn match_data(&mut self, now_ns: u64, index: usize, text: &[u8], out: &mut Output<Command>) {
        let mark = string_field(text, b"\"data\"").and_then(read_mark);
        let op_code = string_field(text, b"\"op_code\"").and_then(number);
        let to = self.program.audience_of(op_code.unwrap_or(0));
        let (Some(mark), Some(to)) = (mark, to) else {
            self.record.deliveries.foreign += 1;
            return;
        };
        let is_mine = mark.sender == self.settings.sender_of(self.players[index].number);
        if mark.run != self.settings.run_tag || (to == Audience::Sender && !is_mine) {
            self.record.deliveries.foreign += 1;
            return;
        }
        self.settle_later(now_ns);
        let player = &mut self.players[index];
        let deliveries = &mut self.record.deliveries;
        match player.inbox.take(mark.sender, to, mark.number) {
            Arrival::InOrder => {}
            Arrival::After { skipped } => deliveries.lost += i64::from(skipped),
            Arrival::Late => {
                deliveries.lost -= 1;
                deliveries.reordered += 1;
            }
            Arrival::Untracked => deliveries.untracked += 1,
            Arrival::Doubled => {
                deliveries.doubled += 1;
                return;
            }
        }
        deliveries.received[audience_index(to)] += 1;
        let is_awaited = player.doing == Doing::Busy
            && player.expecting == Expecting::Delivery(mark.number)
            && to == Audience::Sender;
        if is_awaited {
            return self.finish_op(now_ns, index, Ok(()), out);
        }
        let op = self.program.match_ops[audience_index(to)];
        if let Some(op) = op.and_then(|op| self.record.op(op)) {
            let service_ns = mark.age_ns(now_ns + self.mono_offset_ns);
            op.done += 1;
            op.service.record(service_ns, 1);
            if !self.settings.saturate {
                op.response.record(service_ns + mark.late_ns, 1);
            }
        }
    }

    /// Gives each player its own moment for pings, so that they do not come all at once.
    fn spread_ping(&mut self, now_ns: u64, index: usize) {
        let player = &self.players[index];
        let plan = &self.program.sessions[usize::from(player.session)];
        self.players[index].next_ping_ns =
            plan.ping_every_ns.map_or(u64::MAX, |every_ns| now_ns + every_ns);
    }

    /// Sends a ping if one is due.
    pub(super) fn ping(&mut self, now_ns: u64, index: usize, out: &mut Output<Command>) {
        let player = &mut self.players[index];
        if player.next_ping_ns > now_ns {
            return;
        }
        if player.ping.is_some() {
            self.drop_link(index, out);
            let kind = Kind::of(Cause::TimeOut, "ping unanswered");
            return self.fail(now_ns, index, &kind, String::new, out);
        }
        let plan = &self.program.sessions[usize::from(player.session)];
        let every_ns = plan.ping_every_ns.unwrap_or(u64::MAX);
        player.next_ping_ns = player.next_ping_ns.saturating_add(every_ns).max(now_ns);
        player.cid = player.cid.wrapping_add(1);
        player.ping = Some((player.cid, now_ns));
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.extend_from_slice(b"{\"cid\":\"");
        text.extend_from_slice(itoa::Buffer::new().format(player.cid).as_bytes());
        text.extend_from_slice(b"\",\"ping\":{}}");
        self.send_frame(index, Opcode::Text, &text, out);
        self.text = text;
        if let Some(op) = self.program.ping_op.and_then(|op| self.record.op(op)) {
            op.started += 1;
        }
    }

    /// Messages that were sent last and never came: known when both sides are ours and still in
    /// the same match.
    pub(super) fn count_tail_losses(&mut self) {
        if !self.settings.phases.is_empty() {
            return;
        }
        let receivers = 0..self.players.len();
        let lost: u64 = receivers.map(|index| self.under_way_to(index, true)).sum();
        self.record.deliveries.lost += i64::try_from(lost).unwrap_or(i64::MAX);
    }

    /// Messages that players of this generator have sent to this one's match and that it has not
    /// got, of the senders that it has heard of; only of those who are connected if asked for.
    pub(super) fn under_way_to(&self, index: usize, only_connected: bool) -> u64 {
        let receiver = &self.players[index];
        let mut count = 0;
        for (sender, to, last) in receiver.inbox.last_of_each() {
            let Some(place) = sender.checked_sub(self.settings.first_sender) else { continue };
            let Some(sender) = self.players.get(place as usize) else { continue };
            let ids = [&sender.captured, &receiver.captured];
            let [theirs, ours] = ids.map(|captured| self.program.match_id(captured));
            if theirs == ours && (sender.conn.is_some() || !only_connected) {
                let newest = sender.numbers[audience_index(to)].wrapping_sub(1);
                count += u64::from(numbers_between(last, newest));
            }
        }
        count
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The value of the first key that reads so, without its quotes; a bare number likewise. Not for
/// values with escapes.
fn string_field<'a>(json: &'a [u8], quoted_key: &[u8]) -> Option<&'a [u8]> {
    let after = &json[memmem::find(json, quoted_key)? + quoted_key.len()..];
    let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let (value, is_end): (_, fn(u8) -> bool) = match value.strip_prefix(b"\"") {
        Some(value) => (value, |byte| byte == b'"'),
        None => (value, |byte| !byte.is_ascii_digit() && byte != b'-'),
    };
    value.iter().position(|&byte| is_end(byte)).map(|end| &value[..end])
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn read_mark(base64: &[u8]) -> Option<Mark> {
    let mut payload = [0; PAYLOAD_BYTES_MAX + 3];
    let written = STANDARD.decode_slice(base64, &mut payload).ok()?;
    Mark::read(&payload[..written])
}

/// The error that an envelope carries, if it does.
fn error_of(text: &[u8]) -> Option<Wrong> {
    let envelope: serde_json::Value = serde_json::from_slice(text).ok()?;
    let error = envelope.get("error")?;
    let code = error.get("code").and_then(serde_json::Value::as_i64).unwrap_or(0);
    let message = error.get("message").and_then(serde_json::Value::as_str).unwrap_or("");
    let kind = Kind::new(Cause::Envelope, format!("error {code}: {message}"));
    Some(Wrong::new(kind, lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::{error_of, number, string_field};

    #[test]
    fn fields_are_found_in_any_layout() {
        for (json, wanted) in [
            (r#"{"match_data":{"op_code":"12","data":"aGk="}}"#, (Some(12), Some("aGk="))),
            (r#"{"match_data": {"data" : "aGk=", "op_code" : "1"}}"#, (Some(1), Some("aGk="))),
            (r#"{"match_data":{"op_code":3,"label":"\"data\":\"no\""}}"#, (Some(3), None)),
            (r#"{"match_data":{"op_code":3"#, (None, None)),
            ("", (None, None)),
        ] {
            let json = json.as_bytes();
            let op_code = string_field(json, b"\"op_code\"").and_then(number::<i64>);
            let data = string_field(json, b"\"data\"").and_then(|it| std::str::from_utf8(it).ok());
            assert_eq!((op_code, data), wanted, "{json:?}");
        }
    }

    #[test]
    fn errors_are_named() {
        let text = br#"{"cid":"4","error":{"code":4,"message":"Match not found"}}"#;
        assert_eq!(error_of(text).unwrap().kind.text, "error 4: Match not found");
        assert!(error_of(br#"{"cid":"4","rpc":{"payload":"\"error\""}}"#).is_none());
    }
}
