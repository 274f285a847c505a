//! Sockets at one address that several core threads share by SO_REUSEPORT: the kernel spreads new
//! connections over listeners, and datagrams over bound sockets by their senders. Accepting and
//! receiving are the drivers' business.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel keeps waiting for an accept, at most; the system's own limit
/// (`net.core.somaxconn`, 4,096 since Linux 5.4) may be lower.
pub const BACKLOG_MAX: i32 = 4_096;

/// Bytes that may wait in a socket for datagrams, with the kernel's own for each: some milliseconds
/// of a flood.
const WAITING_BYTES: usize = 1 << 20;

/// Bytes that may wait in it to be sent: a turn's, and what the kernel keeps for machines on the link
/// that do not answer.
const SENDING_BYTES: usize = 4 << 20;

/// How long an address that is in use is tried for: after `kill -9` the kernel takes some time to
/// tear down the rings of the process that was killed, and they hold its listeners.
const IN_USE_MAX: Duration = Duration::from_secs(2);
/// Between two tries.
const IN_USE_PAUSE: Duration = Duration::from_millis(10);

/// Opens `count` listeners on one address, one for each core thread that will accept from it.
/// Port 0 takes a free port, the same for all.
///
/// Connections inherit TCP_NODELAY from these listeners (tcp(7)), so no call is spent on each.
///
/// # Errors
/// What the system says to socket, setsockopt, bind or listen: address in use (for two seconds), no
/// permission for a port below 1,024, no such address.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let mut address = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = patiently(address, || open(address, count > 1))?;
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Binds `count` sockets for datagrams to one address, one for each core thread that will receive
/// from it. Port 0 takes a free port, the same for all. What one address and port sends goes to the
/// same socket as long as all are there.
///
/// # Errors
/// What the system says to socket, setsockopt or bind, as for [`listen`].
pub fn bind_udp(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    let mut address = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = patiently(address, || bind(address, count > 1))?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr, is_shared: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    #[cfg(unix)]
    if is_shared {
        socket.set_reuse_port(true)?;
    }
    // The system gives what it allows (net.core.rmem_max); a refusal leaves its usual size.
    let _ = socket.set_recv_buffer_size(WAITING_BYTES);
    // What waits for the hardware address of a machine that does not answer is charged to the socket
    // for some three seconds: the usual size is full after 256 datagrams, and then nobody is sent
    // anything.
    let _ = socket.set_send_buffer_size(SENDING_BYTES);
    socket.bind(&address.into())?;
    Ok(UdpSocket::from(socket))
}

fn patiently<T>(address: SocketAddr, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let since = Instant::now();
    let mut is_told = false;
    loop {
        match open() {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && since.elapsed() < IN_USE_MAX =>
            {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(
                        %address,
                        "the address is in use: trying for two seconds, because the kernel may \
                         still be clearing up after a server that was killed"
                    );
                }
                std::thread::sleep(IN_USE_PAUSE);
            }
            result => return result,
        }
    }
}

fn open(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    {
        socket.set_reuse_address(true)?;
        if is_shared {
            socket.set_reuse_port(true)?;
        }
    }
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG_MAX)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::{bind_udp, listen};

    #[test]
    fn an_address_that_becomes_free_is_waited_for() -> std::io::Result<()> {
        let held = listen(([127, 0, 0, 1], 0).into(), 1)?.remove(0);
        let address = held.local_addr()?;
        let holder = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(held);
        });
        let listeners = listen(address, 1)?;
        assert_eq!(listeners[0].local_addr()?, address);
        let in_use = listen(address, 1).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(in_use, Err(std::io::ErrorKind::AddrInUse));
        assert!(holder.join().is_ok());
        Ok(())
    }

    #[test]
    fn sockets_for_datagrams_share_a_free_port_and_one_alone_does_not() -> std::io::Result<()> {
        let sockets = bind_udp(([127, 0, 0, 1], 0).into(), 3)?;
        let address = sockets[0].local_addr()?;
        assert!(sockets.iter().all(|it| it.local_addr().is_ok_and(|it| it == address)));
        let alone = bind_udp(([127, 0, 0, 1], 0).into(), 1)?.remove(0).local_addr()?;
        assert_ne!(alone.port(), 0);
        Ok(())
    }

    #[test]
    fn listeners_share_a_free_port() -> std::io::Result<()> {
        let listeners = listen(([127, 0, 0, 1], 0).into(), 3)?;
        let ports: Vec<_> =
            listeners.iter().filter_map(|l| l.local_addr().ok()).map(|a| a.port()).collect();
        assert_eq!(ports.len(), 3);
        assert!(ports[0] != 0 && ports.iter().all(|port| *port == ports[0]));
        Ok(())
    }
}
