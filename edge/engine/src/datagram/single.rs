//! One call for each datagram: waiting in it, or with epoll_wait(2) when there is nothing more.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll;

use super::control::CONTROL_BYTES;
use super::messages::Messages;
use super::options::{Source, is_nothing, timespec};
use super::segments::give;
use super::{Batch, Datagram, OpenError, Receiver, Setup};

/// A socket, and room for one message of it.
struct One {
    source: Source,
    message: Messages,
    bytes_max: usize,
}

impl One {
    fn new(socket: UdpSocket, setup: &Setup) -> Result<Self, OpenError> {
        let source = Source::new(socket, setup, false)?;
        let control_bytes = if setup.ecn { CONTROL_BYTES } else { 0 };
        let bytes_max = setup.datagram_bytes_max;
        let message =
            Messages::new(1, bytes_max, control_bytes).map_err(OpenError::of("memory"))?;
        Ok(Self { source, message, bytes_max })
    }

    /// Receives one; whether there was one.
    #[inline]
    fn receive(
        &mut self,
        flags: i32,
        batch: &mut Batch,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<bool> {
        batch.calls += 1;
        match self.message.receive(&self.source.socket, flags) {
            Ok(()) => {
                give(self.message.piece(0), self.bytes_max, batch, each);
                Ok(true)
            }
            Err(error) if is_nothing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// [`super::Style::Recv`].
pub(super) struct Blocking {
    one: One,
    /// How long the socket waits in a call.
    patience: Option<Duration>,
}

impl Blocking {
    pub(super) fn open(socket: UdpSocket, setup: &Setup) -> Result<Self, OpenError> {
        socket.set_nonblocking(false).map_err(OpenError::of("blocking"))?;
        Ok(Self { one: One::new(socket, setup)?, patience: None })
    }
}

impl Receiver for Blocking {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch> {
        let mut batch = Batch::default();
        let flags = if patience.is_zero() { libc::MSG_DONTWAIT } else { 0 };
        if !patience.is_zero() && self.patience != Some(patience) {
            self.one.source.socket.set_read_timeout(Some(patience))?;
            self.patience = Some(patience);
            batch.calls += 1;
        }
        self.one.receive(flags, &mut batch, each)?;
        Ok(batch)
    }

    fn dropped(&self) -> io::Result<u64> {
        self.one.source.dropped()
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        self.one.source.waiting_bytes()
    }
}

/// [`super::Style::Epoll`].
pub(super) struct Polled {
    one: One,
    epoll: OwnedFd,
    batch: usize,
}

impl Polled {
    pub(super) fn open(socket: UdpSocket, setup: &Setup) -> Result<Self, OpenError> {
        let one = One::new(socket, setup)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .and_then(|it| {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&it, &one.source.socket, data, epoll::EventFlags::IN)?;
                Ok(it)
            })
            .map_err(|error| OpenError::of("epoll")(error.into()))?;
        Ok(Self { one, epoll, batch: setup.batch })
    }

    /// Receives until there is nothing more.
    fn drain(&mut self, batch: &mut Batch, each: &mut dyn FnMut(Datagram<'_>)) -> io::Result<bool> {
        for taken in 0..self.batch {
            if !self.one.receive(libc::MSG_DONTWAIT, batch, each)? {
                return Ok(taken > 0);
            }
        }
        Ok(true)
    }
}

impl Receiver for Polled {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch> {
        let mut batch = Batch::default();
        if self.drain(&mut batch, each)? || patience.is_zero() {
            return Ok(batch);
        }
        let mut events: [std::mem::MaybeUninit<epoll::Event>; 1] =
            [std::mem::MaybeUninit::uninit()];
        batch.calls += 1;
        match epoll::wait(&self.epoll, &mut events, Some(&timespec(patience))) {
            Ok(([], _)) => {}
            Ok(_) => {
                self.drain(&mut batch, each)?;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(batch)
    }

    fn dropped(&self) -> io::Result<u64> {
        self.one.source.dropped()
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        self.one.source.waiting_bytes()
    }
}
