//! Where connections come from.
//!
//! A local address has 28,232 ports for one server by default, and from half of them on the kernel
//! searches for a free one at each connect: that would be measured, and not the server. So over
//! loopback, where there are sixteen million addresses, so many players share one only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use crate::measure::target::TargetError;

/// Players of one loopback address: well below half of its ports, with connections that are closing.
const PLAYERS_OF_ADDRESS: u32 = 8_000;

/// Where a generator's connections come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The one that was asked for.
    bind: Option<IpAddr>,
}

impl Source {
    /// The address `bind` if it is given.
    ///
    /// # Errors
    /// When it is not this machine's.
    pub(crate) fn new(bind: Option<IpAddr>) -> Result<Self, TargetError> {
        if let Some(address) = bind {
            let tried = TcpListener::bind(SocketAddr::new(address, 0));
            tried.map_err(|error| TargetError::Bind { address, error })?;
        }
        Ok(Self { bind })
    }

    /// For the player with this number; none leaves it to the system.
    pub(super) fn of(self, number: u32, to: SocketAddr) -> Option<IpAddr> {
        if self.bind.is_some() {
            return self.bind;
        }
        let is_loopback = to.is_ipv4() && to.ip().is_loopback();
        let group = number / PLAYERS_OF_ADDRESS;
        (is_loopback && group > 0).then(|| {
            // 127.1.0.1 and on: the last byte is neither 0 nor 255.
            let ([_, _, high, low], last) = ((group / 254).to_be_bytes(), group % 254 + 1);
            let last = u8::try_from(last).unwrap_or(1);
            IpAddr::V4(Ipv4Addr::new(127, high.wrapping_add(1), low, last))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;

    use super::{PLAYERS_OF_ADDRESS, Source};

    #[test]
    fn players_beyond_the_first_thousands_come_from_addresses_of_their_own() {
        let source = Source::new(None).unwrap();
        let [here, there] = ["127.0.0.1:7350", "10.0.0.1:7350"].map(|it| it.parse().unwrap());
        assert_eq!(source.of(PLAYERS_OF_ADDRESS - 1, here), None);
        assert_eq!(source.of(u32::MAX, there), None);
        let groups = (1..2_000).map(|group| source.of(group * PLAYERS_OF_ADDRESS, here).unwrap());
        let addresses: BTreeSet<IpAddr> = groups.collect();
        assert!(addresses.len() == 1_999 && addresses.iter().all(IpAddr::is_loopback));
        let bound = Source::new(Some("127.0.0.9".parse().unwrap())).unwrap();
        assert_eq!(bound.of(7, here), Some("127.0.0.9".parse().unwrap()));
        let error = Source::new(Some("192.0.2.1".parse().unwrap())).unwrap_err().to_string();
        assert!(error.contains("--bind 192.0.2.1") && error.contains("this machine"), "{error}");
    }
}
