//! Requests over HTTP/1.1: one at a time on a kept connection, a new one where the server closes it.
//!
//! Without a size it is a GET, with one a POST of so many bytes. An answer is whole when its body
//! is; one whose status is 400 or above counts as failed.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::ClientConfig;
use wire::http1::{self, Limits, RequestHead, ResponseDecoder};

use super::message::bearer;
use super::wire::Wire;
use super::{Answered, Clock, Gone, Probe, Start, Traffic};
use crate::measure::text::one_line;

/// Bytes of an answer's body, at most.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub(super) struct Http {
    plan: super::super::plan::Plan,
    tls: Option<Arc<ClientConfig>>,
    wire: Wire,
    decoder: ResponseDecoder,
    extra: Vec<u8>,
    body: Vec<u8>,
    /// What is under way.
    number: Option<u64>,
    /// The server closes, or has closed, the connection behind the last answer.
    is_over: bool,
    /// Of connections that are gone.
    traffic: Traffic,
}

impl Http {
    pub(super) fn connect(start: Start<'_>) -> Result<Self, Gone> {
        let mut traffic = Traffic::default();
        let wire = Wire::connect(start.plan, start.tls, start.clock, &mut traffic)?;
        Ok(Self {
            plan: start.plan.clone(),
            tls: start.tls.cloned(),
            wire,
            decoder: ResponseDecoder::new(),
            extra: bearer(start.plan),
            body: vec![0; start.largest()],
            number: None,
            is_over: false,
            traffic,
        })
    }

    fn connect_again(&mut self, clock: Clock) -> Result<(), Gone> {
        let last = self.wire.take_traffic();
        self.traffic.sent_bytes += last.sent_bytes;
        self.traffic.received_bytes += last.received_bytes;
        self.wire = Wire::connect(&self.plan, self.tls.as_ref(), clock, &mut self.traffic)?;
        self.decoder = ResponseDecoder::new();
        self.is_over = false;
        Ok(())
    }
}

impl Probe for Http {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        let (fd, flags) = self.wire.waits_on();
        // A connection that is over is always readable: nobody waits for it.
        (fd, if self.is_over { PollFlags::empty() } else { flags })
    }

    fn waiting_max(&self) -> usize {
        1
    }

    fn has_unsent(&self) -> bool {
        self.wire.has_unsent()
    }

    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone> {
        if self.is_over {
            self.connect_again(clock)?;
        }
        self.number = Some(number);
        let body = &self.body[..usize::try_from(size).unwrap_or(0).min(self.body.len())];
        let method = if body.is_empty() { "GET" } else { "POST" };
        let (target, host) = (&*self.plan.place.path, &*self.plan.place.host);
        self.wire.out.clear();
        let head = RequestHead { method, target, host, extra: &self.extra };
        http1::request(&mut self.wire.out, &head, body);
        let len = self.wire.out.len();
        self.wire.begin(clock, len)
    }

    fn go_on(&mut self) -> Result<(), Gone> {
        self.wire.go_on()
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        if self.is_over {
            return Ok(false);
        }
        let (bytes, at_ns) = match self.wire.read(clock) {
            Ok(None) => return Ok(false),
            Ok(Some(it)) => it,
            // Between two requests a server may close.
            Err(Gone::Closed | Gone::Reset) if self.number.is_none() => {
                self.is_over = true;
                return Ok(false);
            }
            Err(Gone::Closed) => {
                self.is_over = true;
                let at_ns = clock.now();
                let last = self.decoder.finish();
                let last = last.map_err(|error| Gone::Broken(error.to_string()))?;
                let (Some(response), Some(number)) = (last, self.number.take()) else {
                    return Err(Gone::Closed);
                };
                let bad_status = Some(response.status).filter(|status| *status >= 400);
                answers.push(Answered { number, at_ns, bad_status });
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let mut input = bytes;
        let limits = Limits { body_bytes_max: ANSWER_BYTES_MAX, ..Limits::default() };
        let begins = one_line(&String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        let response = self.decoder.next(&mut input, &limits, false);
        let response = response.map_err(|error| Gone::Broken(format!("{error} (`{begins}`)")))?;
        let Some(response) = response.filter(|response| response.status >= 200) else {
            return Ok(true);
        };
        let bad_status = Some(response.status).filter(|status| *status >= 400);
        self.is_over = !response.keep_alive;
        if self.traffic.server.is_empty() {
            let server = response.header("server").unwrap_or_default();
            self.traffic.server = one_line(&String::from_utf8_lossy(server));
        }
        if let Some(number) = self.number.take() {
            answers.push(Answered { number, at_ns, bad_status });
        }
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        let mut traffic = std::mem::take(&mut self.traffic);
        let last = self.wire.take_traffic();
        traffic.sent_bytes += last.sent_bytes;
        traffic.received_bytes += last.received_bytes;
        // So that it is not looked for again.
        self.traffic.server.clone_from(&traffic.server);
        traffic
    }
}
