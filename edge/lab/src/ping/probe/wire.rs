//! A connection that never waits: what is to be sent lies in a buffer until the kernel takes it,
//! what has come is lent with the moment at which it came.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::PollFlags;

use super::super::plan::Plan;
use super::{Clock, Gone, Traffic, would_wait};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
    sent: usize,
    until: usize,
    inbox: Vec<u8>,
    traffic: Traffic,
}

/// Connects, with the time that it took in `traffic`.
pub(super) fn connect(plan: &Plan, clock: Clock, traffic: &mut Traffic) -> Result<TcpStream, Gone> {
    let from_ns = clock.now();
    let stream = TcpStream::connect_timeout(&plan.place.addr, plan.timeout);
    let stream = stream.map_err(|error| plan.unreachable(error))?;
    traffic.connects.record(clock.now() - from_ns, 1);
    stream.set_nodelay(true).map_err(Gone::Network)?;
    Ok(stream)
}

impl Wire {
    /// Of a connection whose opening words have been exchanged.
    pub(super) fn new(stream: TcpStream, traffic: Traffic) -> Result<Self, Gone> {
        stream.set_nonblocking(true).map_err(Gone::Network)?;
        let inbox = vec![0; READ_BYTES];
        Ok(Self { stream, out: Vec::new(), sent: 0, until: 0, inbox, traffic })
    }

    pub(super) fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        let out = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        (self.stream.as_fd(), PollFlags::IN | out)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.until
    }

    /// Begins to send the first `len` bytes of `out`; when that was.
    pub(super) fn begin(&mut self, clock: Clock, len: usize) -> Result<u64, Gone> {
        (self.sent, self.until) = (0, len.min(self.out.len()));
        let sent_ns = clock.now();
        self.go_on()?;
        Ok(sent_ns)
    }

    pub(super) fn go_on(&mut self) -> Result<(), Gone> {
        while let Some(rest) = self.out.get(self.sent..self.until).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(len) => {
                    self.sent += len;
                    self.traffic.sent_bytes += len as u64;
                }
                Err(error) if would_wait(&error) => break,
                Err(error) => return Err(Gone::of(error)),
            }
        }
        Ok(())
    }

    /// What has come, and when; nothing if nothing has.
    pub(super) fn read(&mut self, clock: Clock) -> Result<Option<(&[u8], u64)>, Gone> {
        match self.stream.read(&mut self.inbox) {
            Ok(0) => Err(Gone::Closed),
            Ok(len) => {
                let at_ns = clock.now();
                self.traffic.received_bytes += len as u64;
                Ok(self.inbox.get(..len).map(|bytes| (bytes, at_ns)))
            }
            Err(error) if would_wait(&error) => Ok(None),
            Err(error) => Err(Gone::of(error)),
        }
    }

    pub(super) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}
