//! What bytes of HTTP mean for the step that asked: framing by `wire`, judgement by the step.
//!
//! In: bytes, and what was asked. Out: how many good answers, what they give, or what is wrong.
//! Keeps the last good response only.

use wire::http1::{Limits, Response, ResponseDecoder};

use super::links::Link;
use crate::load::record::EXAMPLE_BYTES_MAX;
use crate::load::record::kind::{Cause, Kind};
use crate::load::scenario::program::{HttpStep, Retry};

/// Bytes of a response that is kept for comparison, at most.
const LAST_BYTES_MAX: usize = 8 << 10;
/// Bytes of what is no HTTP that stand in an example, at most.
const START_BYTES_MAX: usize = 80;
/// What one answer may have.
pub(super) const ANSWER_LIMITS: Limits =
    Limits { head_bytes_max: 16 << 10, headers_max: 64, body_bytes_max: 4 << 20 };

/// What a player asked for, and by which step: its session and place.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) by: (u16, u16),
    pub(super) http: &'a HttpStep,
    pub(super) retry: Option<&'a Retry>,
    /// Answers that the operation still lacks.
    pub(super) left: u16,
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

    fn not_http(kind: Kind, bytes: &[u8]) -> Self {
        let start = &bytes[..bytes.len().min(START_BYTES_MAX)];
        Self::new(kind, String::from_utf8_lossy(start))
    }

    /// Looks for the step's text in the whole answer.
    pub(super) fn look_for_retry(mut self, retry: Option<&Retry>, answer: &[u8]) -> Self {
        self.is_retry = retry.is_some_and(|it| it.on.find(answer).is_some());
        self
    }
}

/// Values that an answer gave, each with its place among those of the player.
pub(super) type Captured = Vec<(u8, Box<str>)>;

/// What some bytes meant for the operation under way.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) good: u16,
    pub(super) captured: Captured,
    /// The server closes the connection.
    pub(super) closes: bool,
    pub(super) wrong: Option<Wrong>,
    /// What the server calls itself, with the first answer that was parsed.
    pub(super) server: Option<String>,
}

/// The last response that was parsed and found good, with the step that it answered. Bytes that
/// are the same mean the same, so an answer that repeats it need not be parsed again: servers'
/// answers to one request differ once a second, when the `Date` changes. This keeps the generator
/// cheaper than any server.
#[derive(Debug, Default)]
pub(super) struct Responses {
    step: (u16, u16),
    bytes: Vec<u8>,
    knows_server: bool,
}

impl Responses {
    /// Reads as many answers as the operation under way still lacks.
    pub(super) fn read(&mut self, asked: Asked<'_>, link: &mut Link, rest: &mut &[u8]) -> Reading {
        let mut reading = Reading::default();
        let Link::Http { decoder, is_partial } = link else { return reading };
        while reading.good < asked.left && !rest.is_empty() {
            if !*is_partial {
                let repeated = self.repeated(asked.by, rest);
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
                    let kind = Kind::of(Cause::NotHttp, "not HTTP: malformed start line");
                    reading.wrong = Some(Wrong::not_http(kind, before));
                    break;
                }
                Ok(None) => {
                    *is_partial = true;
                    break;
                }
                Err(error) => {
                    let kind = Kind::new(Cause::NotHttp, format!("not HTTP: {error}"));
                    reading.wrong = Some(Wrong::not_http(kind, before));
                    break;
                }
            };
            let was_partial = std::mem::take(is_partial);
            if response.status < 200 {
                continue;
            }
            reading.closes |= !response.keep_alive;
            if !std::mem::replace(&mut self.knows_server, true) {
                reading.server = Some(server_of(&response));
            }
            match judge(asked.http, &response) {
                Ok(captured) => {
                    if !was_partial && captured.is_empty() && response.keep_alive {
                        self.keep(asked.by, &before[..before.len() - rest.len()]);
                    }
                    reading.captured.extend(captured);
                    reading.good += 1;
                }
                Err(wrong) => {
                    reading.wrong = Some(wrong.look_for_retry(asked.retry, response.body));
                    break;
                }
            }
        }
        reading
    }

    /// How many bytes of `input` are the last response once more; 0 when they are not.
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

/// The answer that ends with its connection, if there is one: what it gives, or what is wrong.
pub(super) fn finish(
    asked: Asked<'_>,
    decoder: &mut ResponseDecoder,
) -> Option<Result<Captured, Wrong>> {
    let Ok(Some(response)) = decoder.finish() else { return None };
    let judged = judge(asked.http, &response);
    Some(judged.map_err(|wrong| wrong.look_for_retry(asked.retry, response.body)))
}

fn server_of(response: &Response<'_>) -> String {
    let name = response.header("server").unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(EXAMPLE_BYTES_MAX)]).into_owned()
}

/// Whether these may be the first bytes of a response; empty lines may stand before it.
fn begins_as_http(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start();
    let count = line.len().min(b"HTTP/1.".len());
    line[..count] == b"HTTP/1."[..count]
}

/// Whether a response is what the step wants; what it captures from it.
fn judge(step: &HttpStep, response: &Response<'_>) -> Result<Captured, Wrong> {
    let body = || {
        let body = &response.body[..response.body.len().min(240)];
        String::from_utf8_lossy(body).into_owned()
    };
    if !step.expect.contains(&response.status) {
        let body = body();
        return Err(Wrong::new(unexpected(response.status, &step.expect, &body), body));
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

/// The kind of an error of another status than the step expects. One that is no failure by itself is
/// one because of what was wanted.
fn unexpected(status: u16, wanted: &[u16], body: &str) -> Kind {
    if status >= 400 {
        return Kind::refused(Cause::Status(status), body);
    }
    let wanted: Vec<String> = wanted.iter().map(u16::to_string).collect();
    Kind::new(Cause::Status(status), format!("status {status}, wanted {}", wanted.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::{begins_as_http, unexpected};

    #[test]
    fn a_good_status_that_was_not_wanted_says_what_was() {
        assert_eq!(unexpected(200, &[201], "").text, "status 200, wanted 201");
        assert_eq!(unexpected(302, &[200, 201], "").text, "status 302, wanted 200 or 201");
        assert_eq!(unexpected(401, &[200], "").text, "status 401");
    }

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
