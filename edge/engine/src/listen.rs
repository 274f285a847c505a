//! Listening sockets that several core threads share by SO_REUSEPORT: the kernel spreads new
//! connections over them. Accepting is the drivers' business.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel keeps waiting for an accept, at most; the system's own limit
/// (`net.core.somaxconn`, 4,096 since Linux 5.4) may be lower.
pub const BACKLOG_MAX: i32 = 4_096;

/// Opens `count` listeners on one address, one for each core thread that will accept from it.
/// Port 0 takes a free port, the same for all.
///
/// Connections inherit TCP_NODELAY from these listeners (tcp(7)), so no call is spent on each.
///
/// # Errors
/// What the system says to socket, setsockopt, bind or listen: address in use, no permission for
/// a port below 1,024, no such address.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let mut address = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        #[cfg(unix)]
        {
            socket.set_reuse_address(true)?;
            if count > 1 {
                socket.set_reuse_port(true)?;
            }
        }
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG_MAX)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::listen;

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
