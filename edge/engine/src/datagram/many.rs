//! Many messages with one call, and with UDP_GRO many datagrams in one message.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use super::control::CONTROL_BYTES;
use super::messages::Messages;
use super::options::{Source, is_nothing, wait};
use super::segments::give;
use super::{Batch, Datagram, OpenError, Receiver, Setup};

/// Bytes of a piece that the kernel has merged, at most. Source: udp_gro_receive in the kernel's
/// net/ipv4/udp_offload.c, which goes by the length in the IP header.
pub(super) const MERGED_BYTES: usize = 65_536;

/// [`super::Style::Mmsg`] and [`super::Style::Gro`].
pub(super) struct Many {
    source: Source,
    messages: Messages,
    bytes_max: usize,
    gather: Duration,
}

impl Many {
    pub(super) fn open(socket: UdpSocket, setup: &Setup, has_gro: bool) -> Result<Self, OpenError> {
        let source = Source::new(socket, setup, has_gro)?;
        let control_bytes = if setup.ecn || has_gro { CONTROL_BYTES } else { 0 };
        let piece_bytes = if has_gro { MERGED_BYTES } else { setup.datagram_bytes_max };
        let messages = Messages::new(setup.batch, piece_bytes, control_bytes)
            .map_err(OpenError::of("memory"))?;
        let (bytes_max, gather) = (setup.datagram_bytes_max, setup.gather);
        Ok(Self { source, messages, bytes_max, gather })
    }

    /// Takes what is there; whether there was anything.
    fn take(&mut self, batch: &mut Batch, each: &mut dyn FnMut(Datagram<'_>)) -> io::Result<bool> {
        batch.calls += 1;
        let count = match self.messages.receive_many(&self.source.socket) {
            Ok(count) => count,
            Err(error) if is_nothing(&error) => 0,
            Err(error) => return Err(error),
        };
        for index in 0..count {
            give(self.messages.piece(index), self.bytes_max, batch, each);
        }
        Ok(count > 0)
    }
}

impl Receiver for Many {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch> {
        let mut batch = Batch::default();
        if self.take(&mut batch, each)? {
            return Ok(batch);
        }
        let (is_ready, calls) = wait(&self.source.socket, patience, self.gather)?;
        batch.calls += calls;
        if is_ready {
            self.take(&mut batch, each)?;
        }
        Ok(batch)
    }

    fn dropped(&self) -> io::Result<u64> {
        self.source.dropped()
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        self.source.waiting_bytes()
    }
}
