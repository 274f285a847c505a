//! Datagrams of `throng echo`: each goes back to its sender as it is, so that an answer is never larger
//! than what was asked. The sender's address may be forged; so nobody is answered who would answer in
//! turn, or who is no client.
//!
//! What remains: a forged sender gets as much as the forger has sent; and two such servers at
//! *different* ports can be made to answer each other for as long as nothing is lost on the way.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use event::{Datagrams, Output};

use crate::stats::Counter;

/// Ports whose services answer whatever comes: echo (RFC 862), daytime (867), quote (865), character
/// generator (864), time (868).
const ANSWERING_PORTS: [u16; 5] = [7, 13, 17, 19, 37];
/// Ports from here on are clients'; those below are for servers (RFC 6335 section 6).
const CLIENT_PORT_MIN: u16 = 1_024;

/// Datagrams that were not answered, of all cores: each has a counter, which it alone writes.
#[derive(Debug, Default)]
pub struct Unanswered(Vec<Arc<Counter>>);

impl Unanswered {
    /// What one more core answers with, at a port of this number.
    #[must_use]
    pub fn of_core(&mut self, own_port: u16) -> DatagramEcho {
        let unanswered = Arc::<Counter>::default();
        self.0.push(unanswered.clone());
        DatagramEcho { own_port, unanswered }
    }

    /// All together.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.iter().map(|it| it.read()).sum()
    }
}

/// How one core answers datagrams.
#[derive(Debug, Default)]
pub struct DatagramEcho {
    /// The port at which they come. Whoever sends from a port of this number, here or elsewhere, may
    /// be a server like this one.
    own_port: u16,
    unanswered: Arc<Counter>,
}

impl DatagramEcho {
    /// Sends datagrams back.
    pub(super) fn answer(&self, datagrams: Datagrams<'_>, out: &mut Output<()>) {
        let (socket, from) = (datagrams.socket, datagrams.from);
        if may_be_answered(from, self.own_port) {
            datagrams.into_iter().for_each(|bytes| out.send_datagram(socket, from, bytes));
        } else {
            self.unanswered.add(datagrams.count());
        }
    }
}

/// Whether a sender is a client, as far as its address tells.
fn may_be_answered(from: SocketAddr, own_port: u16) -> bool {
    let ip = from.ip().to_canonical();
    let is_one = !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::from([255; 4]);
    let port = from.port();
    let answers = port == own_port || ANSWERING_PORTS.contains(&port);
    is_one && !answers && port > 0 && (port >= CLIENT_PORT_MIN || ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use event::{Datagrams, Output, SocketId};

    use super::{Unanswered, may_be_answered};

    #[test]
    fn who_may_be_no_client_is_not_answered() {
        for (from, is_answered) in [
            ("192.0.2.1:40000", true),
            ("192.0.2.1:1024", true),
            ("[2001:db8::1]:40000", true),
            // For servers.
            ("192.0.2.1:1023", false),
            ("192.0.2.1:53", false),
            ("[2001:db8::1]:123", false),
            ("127.0.0.1:1023", true),
            ("[::1]:53", true),
            ("[::ffff:127.0.0.1]:53", true),
            ("[::ffff:192.0.2.1]:53", false),
            ("127.0.0.1:0", false),
            // Whoever answers anything, and another of our kind.
            ("127.0.0.1:7", false),
            ("127.0.0.1:19", false),
            ("127.0.0.1:7450", false),
            ("192.0.2.1:7450", false),
            // Nobody, and everybody.
            ("0.0.0.0:40000", false),
            ("[::]:40000", false),
            ("224.0.0.1:40000", false),
            ("[ff02::1]:40000", false),
            ("255.255.255.255:40000", false),
        ] {
            let address: SocketAddr = from.parse().unwrap();
            assert_eq!(may_be_answered(address, 7_450), is_answered, "{from}");
        }
    }

    #[test]
    fn datagrams_go_back_as_they_are_or_are_counted() {
        let mut unanswered = Unanswered::default();
        let (echo, other) = (unanswered.of_core(7_450), unanswered.of_core(7_450));
        for (port, is_answered) in [(40_000, true), (7_450, false)] {
            let from = ([192, 0, 2, 1], port).into();
            let mut out = Output::default();
            let mut bytes = *b"aaabbbc";
            echo.answer(Datagrams::merged(SocketId(3), from, 0, 3, &mut bytes), &mut out);
            let sent: Vec<_> = out.datagrams();
            let wanted = [&b"aaa"[..], b"bbb", b"c"].map(|it| (SocketId(3), from, it.to_vec()));
            assert_eq!(sent, if is_answered { wanted.to_vec() } else { Vec::new() });
        }
        let mut bytes = *b"d";
        let from = ([192, 0, 2, 1], 7_450).into();
        let datagram = Datagrams::merged(SocketId(3), from, 0, 1, &mut bytes);
        other.answer(datagram, &mut Output::default());
        assert_eq!(unanswered.read(), 3 + 1);
    }
}
