//! Reading responses: framing by `wire`, judgement by the step.

use event::{ConnId, Output};
use wire::http1::Response;

use super::{ANSWER_LIMITS, Command, Generator};
use crate::load::generator::player::{Doing, Expecting, Link};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{EXAMPLE_BYTES_MAX, NO_OP};
use crate::load::scenario::program::{HttpStep, Retry, Step, StepKind};

/// Bytes of a response that is kept for comparison, at most.
const LAST_BYTES_MAX: usize = 8 << 10;

/// The last response that was parsed and found good, with the step that it answered. Bytes that
/// are the same mean the same, so an answer that repeats it need not be parsed again: servers'
/// answers to one request differ once a second, when the `Date` changes. This keeps the generator
/// cheaper than any server.
#[derive(Debug, Default)]
pub(super) struct LastResponse {
    step: (u16, u16),
    bytes: Vec<u8>,
}

impl LastResponse {
    /// How many bytes of `input` are this response once more; 0 when they are not.
    fn repeated(&self, step: (u16, u16), input: &[u8]) -> usize {
        let is_same = self.step == step && !self.bytes.is_empty() && input.starts_with(&self.bytes);
        if is_same { self.bytes.len() } else { 0 }
    }

    fn keep(&mut self, step: (u16, u16), bytes: &[u8]) {
        self.step = step;
        self.bytes.clear();
        if bytes.len() <= LAST_BYTES_MAX {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// What is wrong with an answer.
pub(super) struct Wrong {
    pub(super) kind: Kind,
    pub(super) example: String,
    /// The step says to try again when it is told this.
    pub(super) is_retry: bool,
}

impl Wrong {
    pub(super) fn new(kind: Kind, example: impl Into<String>) -> Self {
        Self { kind, example: example.into(), is_retry: false }
    }

    /// Looks for the step's text in the whole answer.
    pub(super) fn look_for_retry(mut self, retry: Option<&Retry>, answer: &[u8]) -> Self {
        self.is_retry = retry.is_some_and(|it| it.on.find(answer).is_some());
        self
    }
}

/// What some bytes meant for the operation under way.
#[derive(Default)]
struct Reading {
    good: u16,
    captured: Vec<(u8, Box<str>)>,
    closes: bool,
    wrong: Option<Wrong>,
}

impl Generator {
    pub(super) fn bytes(
        &mut self,
        now_ns: u64,
        conn: ConnId,
        bytes: &[u8],
        out: &mut Output<Command>,
    ) {
        let Some(index) = self.player_of(conn) else { return };
        if self.tls.has(index) {
            self.sealed_bytes(now_ns, (index, conn), bytes, out);
        } else {
            self.plain_bytes(now_ns, index, bytes, out);
        }
    }

    /// Bytes of HTTP or WebSocket have come.
    pub(super) fn plain_bytes(
        &mut self,
        now_ns: u64,
        index: usize,
        bytes: &[u8],
        out: &mut Output<Command>,
    ) {
        self.record.bytes_in += bytes.len() as u64;
        match self.links[index] {
            Link::Http { .. } => self.responses(now_ns, index, bytes, out),
            Link::Upgrading { .. } => self.upgrade_answer(now_ns, index, bytes, out),
            Link::Socket(_) => self.frames(now_ns, index, bytes, out),
            Link::None | Link::Connecting | Link::Securing => {}
        }
    }

    fn responses(&mut self, now_ns: u64, index: usize, bytes: &[u8], out: &mut Output<Command>) {
        let mut rest = bytes;
        let player = &self.players[index];
        let is_asked = player.doing == Doing::Busy && player.expecting == Expecting::Responses;
        let mut reading = Reading::default();
        if is_asked {
            reading = self.read_responses(index, &mut rest);
        }
        let is_done = reading.good > 0 && {
            self.keep(index, std::mem::take(&mut reading.captured));
            self.answered(now_ns, index, reading.good)
        };
        if let Some(wrong) = reading.wrong {
            // What follows cannot be told apart any more, or nothing follows.
            if reading.closes {
                self.drop_link(index, out);
            } else {
                self.drop_link_unless_whole(index, rest, &wrong, out);
            }
            return self.refused(now_ns, index, wrong, out);
        }
        if !rest.is_empty() {
            let kind = Kind::of(Cause::Unasked, "bytes that nobody asked for");
            self.record.error(NO_OP, &kind, || String::from_utf8_lossy(rest).into_owned());
            self.drop_link(index, out);
        } else if reading.closes {
            self.drop_link(index, out);
        }
        if is_done {
            self.advance(now_ns, index, out);
        }
    }

    /// A wrong answer that is nevertheless a whole one leaves the connection usable, unless more
    /// answers are under way.
    fn drop_link_unless_whole(
        &mut self,
        index: usize,
        rest: &[u8],
        wrong: &Wrong,
        out: &mut Output<Command>,
    ) {
        let is_whole = wrong.kind.cause != Cause::NotHttp;
        if !is_whole || !rest.is_empty() || self.players[index].left > 1 {
            self.drop_link(index, out);
        }
    }

    /// Reads as many answers as the operation under way still lacks.
    fn read_responses(&mut self, index: usize, rest: &mut &[u8]) -> Reading {
        let program = self.program.clone();
        let player = &self.players[index];
        let key = (player.session, player.step);
        let step = program.sessions[usize::from(key.0)].steps.get(usize::from(key.1));
        let Some(Step { kind: StepKind::Http(http), retry, .. }) = step else {
            return Reading::default();
        };
        let mut reading = Reading::default();
        let Link::Http { decoder, is_partial } = &mut self.links[index] else { return reading };
        while reading.good < player.left && !rest.is_empty() {
            if !*is_partial {
                let repeated = self.last_response.repeated(key, rest);
                if repeated > 0 {
                    *rest = &rest[repeated..];
                    reading.good += 1;
                    continue;
                }
            }
            let before = *rest;
            let response = match decoder.next(rest, &ANSWER_LIMITS, false) {
                Ok(Some(response)) => response,
                Ok(None) if !*is_partial && !begins_as_http(before) => {
                    // Another protocol's greeting: its head would never come to an end.
                    let start = String::from_utf8_lossy(&before[..before.len().min(80)]);
                    reading.wrong = Some(Wrong::new(
                        Kind::of(Cause::NotHttp, "not HTTP: malformed start line"),
                        start,
                    ));
                    break;
                }
                Ok(None) => {
                    *is_partial = true;
                    break;
                }
                Err(error) => {
                    let start = String::from_utf8_lossy(&before[..before.len().min(80)]);
                    reading.wrong = Some(Wrong::new(
                        Kind::new(Cause::NotHttp, format!("not HTTP: {error}")),
                        start,
                    ));
                    break;
                }
            };
            let was_partial = std::mem::take(is_partial);
            if response.status < 200 {
                continue;
            }
            reading.closes |= !response.keep_alive;
            if self.record.server.is_empty() && !self.knows_server {
                self.knows_server = true;
                let name = response.header("server").unwrap_or_default();
                let name = &name[..name.len().min(EXAMPLE_BYTES_MAX)];
                self.record.server = String::from_utf8_lossy(name).into_owned();
            }
            match judge(http, &response) {
                Ok(captured) => {
                    if !was_partial && captured.is_empty() && response.keep_alive {
                        self.last_response.keep(key, &before[..before.len() - rest.len()]);
                    }
                    reading.captured.extend(captured);
                    reading.good += 1;
                }
                Err(wrong) => {
                    reading.wrong = Some(wrong.look_for_retry(retry.as_ref(), response.body));
                    break;
                }
            }
        }
        reading
    }

    /// The server has closed its side: that may be the end of a body. Returns whether it was.
    pub(super) fn finish_response(
        &mut self,
        now_ns: u64,
        index: usize,
        out: &mut Output<Command>,
    ) -> bool {
        let program = self.program.clone();
        let player = &self.players[index];
        let plan = &program.sessions[usize::from(player.session)];
        let step = plan.steps.get(usize::from(player.step));
        let Some(Step { kind: StepKind::Http(http), retry, .. }) = step else { return false };
        if player.doing != Doing::Busy {
            return false;
        }
        let Link::Http { decoder, .. } = &mut self.links[index] else { return false };
        let Ok(Some(response)) = decoder.finish() else { return false };
        let judged = judge(http, &response)
            .map_err(|wrong| wrong.look_for_retry(retry.as_ref(), response.body));
        self.drop_link(index, out);
        match judged {
            Ok(captured) => {
                self.keep(index, captured);
                if self.answered(now_ns, index, 1) {
                    self.advance(now_ns, index, out);
                } else {
                    let kind = Kind::of(Cause::Closed, "connection closed before all answers");
                    self.fail(now_ns, index, &kind, String::new, out);
                }
            }
            Err(wrong) => self.refused(now_ns, index, wrong, out),
        }
        true
    }
}

/// Whether these may be the first bytes of a response; empty lines may stand before it.
fn begins_as_http(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start();
    let count = line.len().min(b"HTTP/1.".len());
    line[..count] == b"HTTP/1."[..count]
}

/// Whether a response is what the step wants; what it captures from it.
fn judge(step: &HttpStep, response: &Response<'_>) -> Result<Vec<(u8, Box<str>)>, Wrong> {
    let body = || {
        let body = &response.body[..response.body.len().min(240)];
        String::from_utf8_lossy(body).into_owned()
    };
    if !step.expect.contains(&response.status) {
        let body = body();
        return Err(Wrong::new(Kind::refused(Cause::Status(response.status), &body), body));
    }
    if let Some(name) = step.required.iter().find(|name| response.header(name).is_none()) {
        return Err(Wrong::new(
            Kind::new(Cause::LacksHeader, format!("answer lacks the header {name}")),
            body(),
        ));
    }
    if let Some(finder) = &step.contains
        && finder.find(response.body).is_none()
    {
        return Err(Wrong::new(
            Kind::of(Cause::LacksText, "answer lacks the expected text"),
            body(),
        ));
    }
    let mut captured = Vec::new();
    for (place, path) in &step.captures {
        let missing = || {
            Wrong::new(
                Kind::new(Cause::LacksValue, format!("answer has no `{}`", path.text)),
                body(),
            )
        };
        captured.push((*place, path.find(response.body).ok_or_else(missing)?));
    }
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::begins_as_http;

    #[test]
    fn another_protocol_is_told_from_the_first_bytes_of_an_answer() {
        let answer = b"\r\nHTTP/1.1 200 OK\r\n";
        for cut in 0..answer.len() {
            assert!(begins_as_http(&answer[..cut]), "{cut}");
        }
        for other in ["SSH-2.0", "220 mail", "\u{15}\u{3}\u{1}", "HTTP/2", "HTTQ"] {
            assert!(!begins_as_http(other.as_bytes()), "{other}");
        }
    }
}
