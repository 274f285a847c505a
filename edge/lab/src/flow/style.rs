//! How datagrams are received: a table of names, and what each of them opens.
//!
//! In: a bound socket. Out: datagrams, lent one by one, and what became of those for which there was no
//! room.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use crate::peer::gone::would_wait;

/// The largest datagram there is.
const DATAGRAM_BYTES: usize = 65_536;

/// A way to receive.
pub(crate) struct Style {
    pub(crate) name: &'static str,
    open: fn(UdpSocket) -> std::io::Result<Box<dyn Receiver>>,
}

/// All, the plainest first.
pub(crate) const STYLES: &[Style] = &[Style { name: "recv", open: Plain::open }];

/// Receives in the style of this name.
pub(crate) fn open(name: &str, socket: UdpSocket) -> std::io::Result<Box<dyn Receiver>> {
    let style = STYLES.iter().find(|style| style.name == name);
    let style = style.ok_or_else(|| std::io::Error::other("there is no such style"))?;
    (style.open)(socket)
}

/// Receives datagrams.
pub(crate) trait Receiver {
    /// Waits at most so long for a first datagram, and gives it and perhaps others with their senders.
    /// How many came.
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(&[u8], SocketAddr),
    ) -> std::io::Result<u64>;

    /// Datagrams for which the socket had no room, since it was opened.
    fn dropped(&self) -> u64;
}

/// A blocking recvfrom(2) for each.
struct Plain {
    socket: UdpSocket,
    patience: Duration,
    buffer: Vec<u8>,
    inode: u64,
}

impl Plain {
    fn open(socket: UdpSocket) -> std::io::Result<Box<dyn Receiver>> {
        let inode = rustix::fs::fstat(socket.as_fd())?.st_ino;
        let (patience, buffer) = (Duration::ZERO, vec![0; DATAGRAM_BYTES]);
        socket.set_nonblocking(false)?;
        Ok(Box::new(Self { socket, patience, buffer, inode }))
    }
}

impl Receiver for Plain {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(&[u8], SocketAddr),
    ) -> std::io::Result<u64> {
        if patience != self.patience {
            self.socket.set_read_timeout(Some(patience))?;
            self.patience = patience;
        }
        match self.socket.recv_from(&mut self.buffer) {
            Ok((len, from)) => {
                each(&self.buffer[..len], from);
                Ok(1)
            }
            Err(error) if would_wait(&error) => Ok(0),
            // What an earlier answer has come back as: the sender has closed its socket.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn dropped(&self) -> u64 {
        ["/proc/self/net/udp", "/proc/self/net/udp6"]
            .iter()
            .filter_map(|table| std::fs::read_to_string(table).ok())
            .find_map(|table| drops(&table, self.inode))
            .unwrap_or(0)
    }
}

/// The last column of the line of a socket: datagrams that it had no room for. Source: proc(5),
/// `/proc/net/udp`; the kernel's net/ipv4/udp.c, `udp4_format_sock`.
fn drops(table: &str, inode: u64) -> Option<u64> {
    let inode = inode.to_string();
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.get(9) == Some(&&*inode))?;
    line.last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::{STYLES, drops, open};

    #[test]
    fn every_style_gives_what_was_sent_and_counts_what_had_no_room() {
        for style in STYLES {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.connect(socket.local_addr().unwrap()).unwrap();
            let mut receiver = open(style.name, socket).unwrap();
            let wait = Duration::from_millis(200);
            assert_eq!(receiver.receive(wait, &mut |_, _| {}).unwrap(), 0, "{}", style.name);
            // More than any buffer of the system's choice.
            let sent = 4_000;
            for _ in 0..sent {
                sender.send(&[7; 1_400]).unwrap();
            }
            let (mut came, mut quiet) = (0, 0);
            while came + receiver.dropped() < sent && quiet < 10 {
                let count = receiver
                    .receive(wait, &mut |bytes, from| {
                        assert_eq!((bytes.len(), from), (1_400, sender.local_addr().unwrap()));
                    })
                    .unwrap();
                came += count;
                quiet += u32::from(count == 0);
            }
            assert_eq!(came + receiver.dropped(), sent, "{}", style.name);
            assert!(came > 0 && receiver.dropped() > 0, "{}: {came}", style.name);
        }
        assert!(open("telepathy", UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn drops_are_the_sockets_own() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             1: 0100007F:2328 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 100 2 0000000000000000 0\n\
             2: 0100007F:2329 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1001 2 0000000000000000 42\n";
        assert_eq!(
            (drops(table, 1_001), drops(table, 100), drops(table, 7)),
            (Some(42), Some(0), None)
        );
    }
}
