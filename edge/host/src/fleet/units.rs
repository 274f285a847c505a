//! Values with units in a fleet's file: bytes, sets of processors, networks.
//!
//! In: text as people write it. Out: numbers, or what to write instead.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Processors that a set may name.
const CORES_MAX: usize = 1_024;

/// A number of bytes: `"256M"`, or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a number of bytes: write 512K, 256M or 2G");
        let (number, unit) = match text.char_indices().last() {
            Some((at, 'K')) => (&text[..at], 1_u64 << 10),
            Some((at, 'M')) => (&text[..at], 1 << 20),
            Some((at, 'G')) => (&text[..at], 1 << 30),
            _ => (text, 1),
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        let bytes = number.checked_mul(unit).filter(|bytes| *bytes > 0 && *bytes < 1 << 50);
        bytes.map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bits, unit) in [(30, 'G'), (20, 'M'), (10, 'K')] {
            if self.0 >= 1 << bits && self.0.trailing_zeros() >= bits {
                return write!(f, "{}{unit}", self.0 >> bits);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
            Other(serde::de::IgnoredAny),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
            Written::Other(_) => String::new(),
        };
        text.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A set of processors, as the kernel writes it: `"0-3,6"`. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a set of processors: write \"0-3,6\"");
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| bad());
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= CORES_MAX {
                return Err(bad());
            }
            all.extend(first..=last);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Self(all))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, core) in self.0.iter().enumerate() {
            write!(f, "{}{core}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Cores {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A network of IPv4: `"10.213.0.0/16"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its own address, all bits of the host 0.
    pub first: Ipv4Addr,
    /// Bits of the network, 8 to 29.
    pub bits: u8,
}

impl Subnet {
    /// How many servers have room: all but the network's, the machine's and the broadcast's address.
    #[must_use]
    pub fn servers(self) -> u32 {
        (1_u32 << (32 - u32::from(self.bits))) - 3
    }

    /// The machine's address in it.
    #[must_use]
    pub fn machine(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first.to_bits() + 1)
    }

    /// The address of a server, from 0 on; `None` beyond the end.
    #[must_use]
    pub fn server(self, slot: u32) -> Option<Ipv4Addr> {
        (slot < self.servers()).then(|| Ipv4Addr::from_bits(self.first.to_bits() + 2 + slot))
    }

    /// Whether an address lies in it.
    #[must_use]
    pub fn holds(self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.first.to_bits()) >> (32 - u32::from(self.bits)) == 0
    }

    /// Whether an address lies in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let wider = if self.bits < other.bits { self } else { other };
        wider.holds(self.first) && wider.holds(other.first)
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a network: write \"10.213.0.0/16\", 8 to 29 bits");
        let (first, bits) = text.split_once('/').ok_or_else(bad)?;
        let first: Ipv4Addr = first.parse().map_err(|_| bad())?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        if !(8..=29).contains(&bits) || first.to_bits() << bits != 0 {
            return Err(bad());
        }
        Ok(Self { first, bits })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Cores, Subnet};

    #[test]
    fn values_are_read_and_written() {
        for (text, bytes) in [("1", 1), ("4K", 4_096), ("256M", 256 << 20), ("2G", 2 << 30)] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read.0, read.to_string()), (bytes, text.to_owned()));
        }
        for text in ["", "K", "0", "-1M", "1.5G", "1T", "99999999999G", "1 M"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!("0-2,5,1".parse::<Cores>().unwrap().0, [0, 1, 2, 5]);
        for text in ["", "a", "3-1", "0-", "1024", ",", "0-99999999"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_gives_addresses() {
        let net: Subnet = "10.1.2.0/29".parse().unwrap();
        assert_eq!(net.machine().to_string(), "10.1.2.1");
        assert_eq!(net.server(0).unwrap().to_string(), "10.1.2.2");
        assert_eq!((net.servers(), net.server(4).unwrap().to_string()), (5, "10.1.2.6".to_owned()));
        assert_eq!(net.server(5), None);
        assert!(net.holds("10.1.2.7".parse().unwrap()) && !net.holds("10.1.2.8".parse().unwrap()));
        for (other, is_over) in [
            ("10.1.2.0/28", true),
            ("10.1.0.0/16", true),
            ("10.1.2.8/29", false),
            ("10.2.0.0/16", false),
        ] {
            let other: Subnet = other.parse().unwrap();
            assert_eq!((net.overlaps(other), other.overlaps(net)), (is_over, is_over), "{other}");
        }
        for text in ["10.1.2.0", "10.1.2.1/24", "10.0.0.0/30", "0.0.0.0/0", "x/24", "10.0.0.0/7"] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
