//! Where the two ends are: on one loopback interface, or in two network namespaces.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use engine::VethPair;
use engine::datagram::{OpenError, Setup};

use super::result::Path;

/// A place that has been made, and goes when it is dropped.
#[derive(Debug)]
pub(super) enum Place {
    Loopback,
    Veth(VethPair),
}

impl Place {
    /// Makes it, or says why it cannot be.
    pub(super) fn new(path: Path) -> Result<Self, String> {
        match path {
            Path::Loopback => Ok(Self::Loopback),
            Path::Veth => VethPair::new().map(Self::Veth).map_err(|error| error.to_string()),
        }
    }

    fn addresses(&self) -> (Ipv4Addr, Ipv4Addr) {
        match self {
            Self::Loopback => (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
            Self::Veth(_) => (VethPair::NEAR, VethPair::FAR),
        }
    }

    /// A socket at the receiving end, where the calling thread stays.
    pub(super) fn receiver(&self) -> Result<UdpSocket, String> {
        if let Self::Veth(pair) = self {
            pair.far.enter().map_err(|error| error.to_string())?;
        }
        bind(self.addresses().1).map_err(|error| format!("a port to receive on: {error}"))
    }

    /// So many sockets at the sending end, where the calling thread stays.
    pub(super) fn senders(&self, count: u16, to: u16) -> Result<Vec<UdpSocket>, String> {
        if let Self::Veth(pair) = self {
            pair.near.enter().map_err(|error| error.to_string())?;
        }
        let (from, ip) = self.addresses();
        let connect = |_| {
            let socket = bind(from)?;
            socket.connect((ip, to))?;
            Ok(socket)
        };
        let made: io::Result<Vec<_>> = (0..count).map(connect).collect();
        made.map_err(|error| format!("a port to send from: {error}"))
    }

    /// Adds to a receiver's set-up what it has to know of the place.
    pub(super) fn complete(&self, setup: Setup) -> Setup {
        let interface = match self {
            Self::Loopback => None,
            Self::Veth(_) => Some((VethPair::INTERFACE.to_owned(), 0)),
        };
        Setup { interface, ..setup }
    }
}

fn bind(ip: Ipv4Addr) -> io::Result<UdpSocket> {
    UdpSocket::bind((ip, 0))
}

/// Why a style was not opened, in words for its row.
pub(super) fn why(error: &OpenError) -> String {
    match error {
        OpenError::NoInterface => {
            "takes frames from an interface with queues; loopback has none".to_owned()
        }
        other => other.to_string(),
    }
}
