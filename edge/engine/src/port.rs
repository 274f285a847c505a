//! A core thread's sockets for datagrams: what both drivers do with them when the poller or the ring
//! says that one can be read, and at the end of a turn. Decides nothing: see the crate `reactor`.
//!
//! How many are told in a turn is the reactor's bound. What is beyond it stays in the kernel's
//! socket; of pieces that were taken already, here, until the next turn.

#[cfg(any(test, not(target_os = "linux")))]
mod plain;

use std::io;
use std::net::UdpSocket;

use event::SocketId;
use reactor::{Count, Net, Reactor};

#[cfg(target_os = "linux")]
use crate::datagram::port::Port;
#[cfg(not(target_os = "linux"))]
use plain::Port;

/// All of a thread.
pub(crate) struct Ports {
    all: Vec<Open>,
    /// Which of them is the first in the next turn: each in turn, because they share its bound.
    first: usize,
    is_stopped: bool,
}

/// One of them.
struct Open {
    port: Port,
    /// It can be read.
    is_ready: bool,
    /// Pieces that were taken from the kernel, and how many of them were told.
    taken: usize,
    told: usize,
}

impl Ports {
    /// Takes over bound sockets.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn open(sockets: Vec<UdpSocket>) -> io::Result<Self> {
        let open =
            |socket| Ok(Open { port: Port::open(socket)?, is_ready: false, taken: 0, told: 0 });
        let all = sockets.into_iter().map(open).collect::<io::Result<_>>()?;
        Ok(Self { all, first: 0, is_stopped: false })
    }

    /// Their sockets, in the order of `SocketId`.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.all.iter().map(|open| open.port.socket())
    }

    /// There is something to read on one of them.
    pub(crate) fn is_readable(&mut self, index: usize) {
        self.all[index].is_ready = true;
    }

    /// Whether pieces were taken from the kernel that are not told: nothing else is waited for.
    pub(crate) fn have_untold(&self) -> bool {
        self.all.iter().any(|open| open.told < open.taken)
    }

    /// Tells what is there, until that is enough for a turn.
    ///
    /// `is_behind`: what the kernel has told is not all looked at. Then it may wait in line there that
    /// a socket can be read, for many turns, so it is looked without being told.
    #[inline]
    pub(crate) fn deliver<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, is_behind: bool) {
        let count = self.all.len();
        if count == 0 || self.is_stopped {
            return;
        }
        for step in 0..count {
            let index = (self.first + step) % count;
            let Ok(id) = u16::try_from(index) else { continue };
            self.all[index].is_ready |= is_behind;
            self.all[index].deliver(SocketId(id), reactor);
        }
        self.first = (self.first + 1) % count;
    }

    /// Offers the kernel all that is to be sent.
    #[inline]
    pub(crate) fn send<M>(&mut self, net: &mut Net<M>) {
        for (id, open) in (0..net.sockets()).map(SocketId).zip(&mut self.all) {
            if !net.outbox(id).is_empty() {
                let (taken, calls) = open.port.send(net.outbox(id));
                net.counters.add(Count::SystemCalls, calls);
                net.on_datagrams_offered(id, taken);
            }
        }
    }

    /// Nothing more is told: counts what was taken, and what was lost.
    pub(crate) fn stop<M>(&mut self, net: &mut Net<M>) {
        if std::mem::replace(&mut self.is_stopped, true) {
            return;
        }
        for open in &mut self.all {
            open.is_ready = false;
            let mut untold = 0;
            for index in std::mem::replace(&mut open.told, open.taken)..open.taken {
                let piece = open.port.piece(SocketId(0), index);
                untold += piece.map_or(1, |piece| piece.count());
            }
            net.on_datagrams_unreadable(untold);
            net.on_datagrams_lost(open.port.take_lost());
        }
    }
}

impl Open {
    fn deliver<M: Send + 'static>(&mut self, id: SocketId, reactor: &mut Reactor<M>) {
        let mut is_ready = std::mem::take(&mut self.is_ready);
        loop {
            while self.told < self.taken {
                if reactor.net.are_datagrams_spent() {
                    return;
                }
                match self.port.piece(id, self.told) {
                    Some(piece) => reactor.on_datagrams(piece),
                    None => reactor.net.on_datagrams_unreadable(1),
                }
                self.told += 1;
            }
            // What is left for the next turn is told then: it can still be read.
            if !is_ready || reactor.net.are_datagrams_spent() {
                return;
            }
            (self.taken, self.told) = (self.port.receive(), 0);
            reactor.net.counters.add(Count::SystemCalls, 1);
            is_ready = Port::may_have_more(self.taken);
            if self.taken > 1 {
                // They come faster than they are taken: perhaps too fast.
                reactor.net.counters.add(Count::SystemCalls, 1);
                reactor.net.on_datagrams_lost(self.port.take_lost());
            }
            reactor.take_mail();
        }
    }
}
