//! Where the datagrams of a connected socket come in: the interface and queue of which [`Style::Xdp`]
//! takes frames, or why it cannot.
//!
//! What sysfs says is looked at only if it is of this network namespace: a process that has moved to
//! another one may still see the files of the first.
//!
//! Source: getifaddrs(3), the kernel's Documentation/ABI/testing/sysfs-class-net.
//!
//! [`Style::Xdp`]: super::Style::Xdp

use std::ffi::CStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use super::xdp::PACKET_BYTES_MAX;

/// Heads of IPv4 and UDP before what a datagram carries.
const HEAD_BYTES: usize = 28;
/// Bytes of a packet where the interface does not say. Source: RFC 894.
const USUAL_PACKET_BYTES: usize = 1_500;

/// Why no frames can be taken of a socket's datagrams.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Not IPv4.
    #[error("it takes frames of IPv4, and {0} is no address of it: name the receiver by one")]
    Family(SocketAddr),
    /// What comes from this machine comes by loopback: merged segments would be lost, and everything
    /// that the machine sends itself would pass the program.
    #[error(
        "it takes frames from an interface, and what {0} sends stays within this machine: send from \
         another machine or network namespace"
    )]
    Loopback(Ipv4Addr),
    /// None, or several, so that nobody knows where the datagrams come in.
    #[error(
        "it takes frames from one interface, and {address} is an address of {count} ({names}): give it \
         to one alone (`ip address`)"
    )]
    Interfaces {
        /// The receiver's.
        address: Ipv4Addr,
        /// How many have it.
        count: usize,
        /// Which.
        names: String,
    },
    /// The kernel spreads datagrams over them, and a socket has one.
    #[error(
        "it takes frames from one queue, and {name} has {count}: `ethtool -L {name} combined 1`"
    )]
    Queues {
        /// The interface's.
        name: String,
        /// How many it has.
        count: usize,
    },
    /// Larger ones come in fragments.
    #[error(
        "it takes whole frames, and over {name} datagrams of more than {bytes_max} bytes come in \
         fragments: {bytes} are too many (-l {bytes_max})"
    )]
    Fragments {
        /// The interface's.
        name: String,
        /// Asked for.
        bytes: usize,
        /// What a frame carries.
        bytes_max: usize,
    },
    /// The system does not say.
    #[error("{step}: {error}")]
    System {
        /// What was asked.
        step: &'static str,
        /// What it said.
        error: io::Error,
    },
}

/// Name of the interface, and number of its queue, where a connected socket's datagrams of so many
/// bytes come in.
///
/// # Errors
/// When they come by loopback, over several interfaces or queues, in fragments, or not over IPv4.
pub fn interface_of(socket: &UdpSocket, bytes: usize) -> Result<(String, u32), PlaceError> {
    let failed = |step| move |error| PlaceError::System { step, error };
    let local = socket.local_addr().map_err(failed("local address"))?;
    let peer = socket.peer_addr().map_err(failed("peer's address"))?;
    let (SocketAddr::V4(to), SocketAddr::V4(from)) = (local, peer) else {
        return Err(PlaceError::Family(local));
    };
    let having = |address| with_address(address).map_err(failed("interfaces"));
    let is_here = from.ip().is_loopback() || !having(*from.ip())?.is_empty();
    if is_here {
        return Err(PlaceError::Loopback(*from.ip()));
    }
    let mut names = having(*to.ip())?;
    let (Some(name), true) = (names.pop(), names.is_empty()) else {
        let names = having(*to.ip())?;
        let (address, count, names) = (*to.ip(), names.len(), names.join(", "));
        return Err(PlaceError::Interfaces { address, count, names });
    };
    let index = rustix::net::netdevice::name_to_index(socket, &name)
        .map_err(|error| failed("interface")(error.into()))?;
    let folder = folder(Path::new("/sys/class/net"), &name, index);
    if let Some(count) = folder.as_deref().map(queues).filter(|count| *count > 1) {
        return Err(PlaceError::Queues { name, count });
    }
    let packet_bytes = folder.as_deref().and_then(packet_bytes).unwrap_or(USUAL_PACKET_BYTES);
    let bytes_max = packet_bytes.min(PACKET_BYTES_MAX).saturating_sub(HEAD_BYTES);
    if bytes > bytes_max {
        return Err(PlaceError::Fragments { name, bytes, bytes_max });
    }
    Ok((name, 0))
}

/// What sysfs says of an interface, if it speaks of the one with this index.
fn folder(all: &Path, name: &str, index: u32) -> Option<PathBuf> {
    let folder = all.join(name);
    let told = std::fs::read_to_string(folder.join("ifindex")).ok()?;
    (told.trim().parse() == Ok(index)).then_some(folder)
}

fn queues(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
    entries.filter(|it| it.file_name().to_string_lossy().starts_with("rx-")).count()
}

fn packet_bytes(folder: &Path) -> Option<usize> {
    std::fs::read_to_string(folder.join("mtu")).ok()?.trim().parse().ok()
}

/// Names of the interfaces that have an address.
fn with_address(address: Ipv4Addr) -> io::Result<Vec<String>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the place for the list lives.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut names, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: an entry of the list, which is freed below.
        let entry = unsafe { &*next };
        if address_of(entry) == Some(address) && !entry.ifa_name.is_null() {
            // SAFETY: a name of the list ends with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            names.push(name.to_string_lossy().into_owned());
        }
        next = entry.ifa_next;
    }
    // SAFETY: made above, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(names)
}

/// The address of IPv4 in an entry of the list.
fn address_of(entry: &libc::ifaddrs) -> Option<Ipv4Addr> {
    if entry.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    let family = unsafe { (*entry.ifa_addr).sa_family };
    if i32::from(family) != libc::AF_INET {
        return None;
    }
    // SAFETY: addresses of that family have this form.
    let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::path::Path;

    use super::{PlaceError, folder, interface_of, packet_bytes, queues, with_address};
    use crate::VethPair;

    #[test]
    fn loopback_has_its_address_and_no_frames() {
        assert_eq!(with_address(Ipv4Addr::LOCALHOST).unwrap(), ["lo"]);
        assert!(with_address(Ipv4Addr::new(203, 0, 113, 77)).unwrap().is_empty());
        let socket = |from: &str, to: &str| {
            let socket = UdpSocket::bind(from).unwrap();
            socket.connect(to).unwrap();
            interface_of(&socket, 100)
        };
        let found = socket("127.0.0.1:0", "127.0.0.1:9");
        assert!(matches!(found, Err(PlaceError::Loopback(_))), "{found:?}");
        let found = socket("[::1]:0", "[::1]:9");
        assert!(matches!(found, Err(PlaceError::Family(_))), "{found:?}");
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        let Ok(pair) = VethPair::new().map_err(|error| eprintln!("skipped: {error}")) else {
            return;
        };
        let found = |from: Ipv4Addr, to: Ipv4Addr, bytes| {
            let there = || {
                let socket = UdpSocket::bind((to, 0)).unwrap();
                socket.connect((from, 9)).unwrap();
                interface_of(&socket, bytes)
            };
            pair.far.within(there).unwrap()
        };
        let (near, far) = (VethPair::NEAR, VethPair::FAR);
        assert_eq!(found(near, far, 1_472).unwrap(), (VethPair::INTERFACE.to_owned(), 0));
        let own = found(far, far, 100);
        assert!(matches!(own, Err(PlaceError::Loopback(_))), "{own:?}");
        let large = found(near, far, 1_473);
        assert!(matches!(large, Err(PlaceError::Fragments { bytes_max: 1_472, .. })), "{large:?}");
    }

    #[test]
    fn what_sysfs_says_of_another_interface_is_not_listened_to() {
        let path = std::env::temp_dir().join(format!("throng-interface-{}", std::process::id()));
        let own = path.join("eth0");
        for queue in ["rx-0", "rx-1", "tx-0"] {
            std::fs::create_dir_all(own.join("queues").join(queue)).unwrap();
        }
        std::fs::write(own.join("ifindex"), "7\n").unwrap();
        std::fs::write(own.join("mtu"), "9000\n").unwrap();
        let of = |name, index| folder(Path::new(&path), name, index);
        assert_eq!((of("eth0", 8), of("eth1", 7)), (None, None));
        let found = of("eth0", 7).unwrap();
        assert_eq!((queues(&found), packet_bytes(&found)), (2, Some(9_000)));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
