//! Why an outgoing connection could not be made: the system's error in the words of [`event`].
//! Both drivers come here, so that the same failure reads the same on either.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use event::ConnectFailure;
use rustix::io::Errno;
use socket2::SockAddr;

/// What to bind a socket to that is to connect from `from`. The port is left to connect(2): bound to
/// one now, it would be taken for all other peers too. Source: ip(7), `IP_BIND_ADDRESS_NO_PORT`.
pub(crate) fn source(from: IpAddr) -> SockAddr {
    SocketAddr::new(from, 0).into()
}

/// What `error` of socket(2) or connect(2) means.
pub(crate) fn failed(error: &Error) -> ConnectFailure {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => ConnectFailure::Refused,
        ErrorKind::TimedOut => ConnectFailure::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            ConnectFailure::Unreachable
        }
        ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => ConnectFailure::NoLocalPort,
        _ => other(error),
    }
}

fn other(error: &Error) -> ConnectFailure {
    let errno = error.raw_os_error().unwrap_or(0);
    // The ring says ENFILE when all of its registered files are taken.
    if [Errno::MFILE, Errno::NFILE].iter().any(|it| it.raw_os_error() == errno) {
        return ConnectFailure::NoFiles;
    }
    ConnectFailure::Other { errno: u16::try_from(errno).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use event::ConnectFailure;
    use rustix::io::Errno;

    use super::failed;

    #[test]
    fn every_error_of_connecting_has_its_word() {
        for (errno, wanted) in [
            (Errno::CONNREFUSED, ConnectFailure::Refused),
            (Errno::CONNRESET, ConnectFailure::Refused),
            (Errno::TIMEDOUT, ConnectFailure::TimedOut),
            (Errno::NETUNREACH, ConnectFailure::Unreachable),
            (Errno::HOSTUNREACH, ConnectFailure::Unreachable),
            (Errno::NETDOWN, ConnectFailure::Unreachable),
            (Errno::ADDRNOTAVAIL, ConnectFailure::NoLocalPort),
            (Errno::ADDRINUSE, ConnectFailure::NoLocalPort),
            (Errno::MFILE, ConnectFailure::NoFiles),
            (Errno::NFILE, ConnectFailure::NoFiles),
            (Errno::ACCESS, ConnectFailure::Other { errno: 13 }),
        ] {
            let found = failed(&Error::from_raw_os_error(errno.raw_os_error()));
            assert_eq!(found, wanted, "{errno:?}");
        }
        let nameless = ConnectFailure::Other { errno: 0 };
        assert_eq!(failed(&Error::other("no number")), nameless);
    }
}
