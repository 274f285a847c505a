//! What the driver of a network interface says of itself: offloads, queues, rings. On this machine it
//! is asked over generic netlink, on a recorded one the text that `ethtool` printed is read.
//!
//! Only questions: nothing is set. Statistics of drivers (`ethtool -S`) and hash tables (`-x`) are
//! not asked for: the first have no message, the second is refused by most virtual devices.
//!
//! Source: Documentation/networking/ethtool-netlink.rst of Linux 6.18, linux/ethtool_netlink.h,
//! netlink(7).

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
    sockopt,
};

/// How long the kernel may take for an answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Bytes of an answer: the features of an interface take some 4 KiB.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What an interface has, as far as it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Offloads by their name in `ethtool -k`.
    pub(super) features: BTreeMap<String, Feature>,
    /// Receive queues: now, at most.
    pub(super) channels: Option<Channels>,
    /// Places in the receive ring: now, at most.
    pub(super) ring: Option<(u32, u32)>,
    /// How long the card waits before it interrupts.
    pub(super) coalescing: Option<Coalescing>,
}

/// Interrupts that are put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coalescing {
    pub(super) rx_us: u32,
    /// Whether the driver chooses by the load.
    pub(super) is_adaptive: bool,
}

/// An offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) is_on: bool,
    /// Whether it cannot be changed.
    pub(super) is_fixed: bool,
}

/// Queues with an interrupt of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Channels {
    pub(super) now: u32,
    pub(super) most: u32,
    /// What `ethtool -L` calls them: `combined` or `rx`.
    pub(super) word: &'static str,
}

impl Channels {
    /// From (rx at most, combined at most, rx now, combined now); none where there is nothing to
    /// choose.
    fn of([rx_most, combined_most, rx, combined]: [u32; 4]) -> Option<Self> {
        match (combined_most, rx_most) {
            (0, 0) => None,
            (0, most) => Some(Self { now: rx, most, word: "rx" }),
            (most, _) => Some(Self { now: combined, most, word: "combined" }),
        }
    }
}

/// Names of netlink, and what `ethtool -k` calls them.
const NAMES: [(&str, &str); 4] = [
    ("rx-gro", "generic-receive-offload"),
    ("tx-generic-segmentation", "generic-segmentation-offload"),
    ("tx-tcp-segmentation", "tx-tcp-segmentation"),
    ("tx-udp-segmentation", "tx-udp-segmentation"),
];

impl Settings {
    /// From what `ethtool -k`, `-l` and `-g` print.
    pub(super) fn printed(features: &str, channels: &str, rings: &str) -> Self {
        let feature = |line: &str| {
            let (name, state) = line.trim().split_once(": ")?;
            let is_on = state.starts_with("on");
            (is_on || state.starts_with("off"))
                .then(|| (name.to_owned(), Feature { is_on, is_fixed: state.contains("[fixed]") }))
        };
        // Two parts of one form: what is possible, and what is set.
        let number = |text: &str, part: usize, name: &str| {
            let text = text.split("Current hardware settings:").nth(part)?;
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse::<u32>().ok()
        };
        let channel = |part, name| number(channels, part, name).unwrap_or(0);
        let [most, now] = [0, 1].map(|part| number(rings, part, "RX:"));
        Self {
            features: features.lines().filter_map(feature).collect(),
            channels: Channels::of([
                channel(0, "RX:"),
                channel(0, "Combined:"),
                channel(1, "RX:"),
                channel(1, "Combined:"),
            ]),
            ring: now.zip(most),
            coalescing: None,
        }
    }

    /// Adds what `ethtool -c` prints.
    pub(super) fn with_coalescing(self, text: &str) -> Self {
        let value = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
        let rx_us = value("rx-usecs:").and_then(|it| it.trim().parse().ok());
        let adaptive = value("Adaptive RX:").is_some_and(|it| it.trim_start().starts_with("on"));
        let coalescing = rx_us.map(|rx_us| Coalescing { rx_us, is_adaptive: adaptive });
        Self { coalescing, ..self }
    }

    /// Of an interface of this machine's network namespace; empty where the kernel does not answer.
    pub(super) fn here(interface: &str) -> Self {
        Self::asked(interface).unwrap_or_default()
    }

    fn asked(interface: &str) -> Option<Self> {
        let mut kernel = Kernel::connect()?;
        let features = kernel.ask(FEATURES_GET, interface);
        let channels = kernel.ask(CHANNELS_GET, interface).map(|it| numbers(&it));
        let rings = kernel.ask(RINGS_GET, interface).map(|it| numbers(&it));
        let coalescing = kernel.ask(COALESCE_GET, interface);
        let of = |it: &BTreeMap<u16, u32>, name: u16| it.get(&name).copied();
        Some(Self {
            features: features.map(|it| offloads(&it)).unwrap_or_default(),
            channels: channels.and_then(|it| {
                let [rx_most, combined_most, rx, combined] =
                    [2, 5, 6, 9].map(|name| of(&it, name).unwrap_or(0));
                Channels::of([rx_most, combined_most, rx, combined])
            }),
            ring: rings.and_then(|it| of(&it, 6).zip(of(&it, 2))),
            coalescing: coalescing.and_then(|it| {
                // The only attribute of one byte that matters here is a switch.
                let is_adaptive = attributes(&it).any(|(kind, value)| kind == 11 && value == [1]);
                Some(Coalescing { rx_us: of(&numbers(&it), 2)?, is_adaptive })
            }),
        })
    }
}

/// `GENL_ID_CTRL` and its question for a family's number.
const CONTROL: u16 = 16;
const FAMILY_GET: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Questions of the family `ethtool`.
const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const COALESCE_GET: u8 = 19;
/// `NLM_F_REQUEST`, and the kind of message that is an error.
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// A nested attribute, and the bits that say so.
const NESTED: u16 = 0x8000;
const KIND_MASK: u16 = 0x3fff;
/// Bytes of the heads of a netlink message and of a generic one.
const HEAD: usize = 16;
const HEADS: usize = HEAD + 4;

/// The kernel's end of a netlink socket.
struct Kernel {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Kernel {
    fn connect() -> Option<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(GENERIC)).ok()?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_MAX)).ok()?;
        bind(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
        let mut kernel = Self { socket, family: CONTROL, sequence: 0 };
        let name = attribute(FAMILY_NAME, b"ethtool\0");
        let answer = kernel.exchange(FAMILY_GET, 2, &name)?;
        let id = attributes(&answer).find(|it| it.0 == FAMILY_ID)?.1;
        kernel.family = u16::from_ne_bytes(id.get(..2)?.try_into().ok()?);
        Some(kernel)
    }

    /// The attributes of the answer to a question about an interface.
    fn ask(&mut self, question: u8, interface: &str) -> Option<Vec<u8>> {
        // Every question's first attribute is the head, in which the second is the name.
        let name = attribute(2, &[interface.as_bytes(), b"\0"].concat());
        self.exchange(question, 1, &attribute(1 | NESTED, &name))
    }

    fn exchange(&mut self, command: u8, version: u8, body: &[u8]) -> Option<Vec<u8>> {
        self.sequence += 1;
        let mut message = Vec::with_capacity(HEADS + body.len());
        message.extend(u32::try_from(HEADS + body.len()).ok()?.to_ne_bytes());
        message.extend(self.family.to_ne_bytes());
        message.extend(REQUEST.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend([command, version, 0, 0]);
        message.extend(body);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message, SendFlags::empty(), &kernel).ok()?;
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        // Answers to questions that were given up may still come.
        for _ in 0..self.sequence {
            let (len, _) = recv(&self.socket, answer.as_mut_slice(), RecvFlags::empty()).ok()?;
            let head = answer.get(..len.min(answer.len()))?;
            let kind = u16::from_ne_bytes(head.get(4..6)?.try_into().ok()?);
            let sequence = u32::from_ne_bytes(head.get(8..12)?.try_into().ok()?);
            if sequence == self.sequence {
                return (kind != ERROR).then(|| head.get(HEADS..).unwrap_or_default().to_vec());
            }
        }
        None
    }
}

/// One attribute, padded to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Kind and value of each attribute; what is cut off ends it.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & KIND_MASK, value))
    })
}

/// Attributes that are numbers of four bytes.
fn numbers(bytes: &[u8]) -> BTreeMap<u16, u32> {
    let number =
        |(kind, value): (u16, &[u8])| Some((kind, u32::from_ne_bytes(value.try_into().ok()?)));
    attributes(bytes).filter_map(number).collect()
}

/// The offloads of an answer about features: what can be changed, what is on, what never changes.
fn offloads(bytes: &[u8]) -> BTreeMap<String, Feature> {
    const CHANGEABLE: u16 = 2;
    const ACTIVE: u16 = 4;
    let names = |wanted: u16| -> Vec<String> {
        attributes(bytes).filter(|it| it.0 == wanted).flat_map(|it| set_bits(it.1)).collect()
    };
    let (changeable, active) = (names(CHANGEABLE), names(ACTIVE));
    let feature = |(theirs, ours): &(&str, &str)| {
        let has = |set: &[String]| set.iter().any(|it| it == theirs);
        (!active.is_empty()).then(|| {
            ((*ours).to_owned(), Feature { is_on: has(&active), is_fixed: !has(&changeable) })
        })
    };
    NAMES.iter().filter_map(feature).collect()
}

/// The names in a set of bits: of a list without a mask all, else those with a value.
fn set_bits(set: &[u8]) -> Vec<String> {
    const NO_MASK: u16 = 1;
    const BITS: u16 = 3;
    const NAME: u16 = 2;
    const VALUE: u16 = 3;
    let is_list = attributes(set).any(|it| it.0 == NO_MASK);
    let bits = attributes(set).filter(|it| it.0 == BITS).flat_map(|it| attributes(it.1));
    let name = |(_, bit): (u16, &[u8])| {
        let name = attributes(bit).find(|it| it.0 == NAME)?.1;
        let is_set = is_list || attributes(bit).any(|it| it.0 == VALUE);
        is_set.then(|| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
    };
    bits.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::{Channels, Feature, NESTED, Settings, attribute, attributes, offloads};

    #[test]
    fn what_ethtool_prints_is_read() {
        let features = "Features for eth0:\nrx-checksumming: on [fixed]\n\
                        generic-receive-offload: off\n\ttx-tcp-segmentation: off [fixed]\n";
        let channels = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\n\
                        Other:\t\tn/a\nCombined:\t63\nCurrent hardware settings:\nRX:\t\tn/a\n\
                        TX:\t\tn/a\nOther:\t\tn/a\nCombined:\t1\n";
        let rings = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\n\
                     TX:\t\t8192\nCurrent hardware settings:\nRX:\t\t1024\nTX:\t\t1024\n";
        let it = Settings::printed(features, channels, rings);
        assert_eq!(it.channels, Some(Channels { now: 1, most: 63, word: "combined" }));
        assert_eq!(it.ring, Some((1_024, 8_192)));
        let feature = |name: &str| it.features.get(name).copied();
        let off = Feature { is_on: false, is_fixed: false };
        assert_eq!(feature("generic-receive-offload"), Some(off));
        assert!(feature("tx-tcp-segmentation").is_some_and(|it| !it.is_on && it.is_fixed));
        assert_eq!(Settings::printed("", "", ""), Settings::default());
        let text = "Coalesce parameters for eth0:\nAdaptive RX: off  TX: n/a\nrx-usecs:\t256\n\
                    rx-usecs-irq:\tn/a\n";
        let coalescing = Settings::default().with_coalescing(text).coalescing;
        assert!(coalescing.is_some_and(|it| it.rx_us == 256 && !it.is_adaptive));
        let text = "Adaptive RX: on  TX: on\nrx-usecs: 8\n";
        let coalescing = Settings::default().with_coalescing(text).coalescing;
        assert!(coalescing.is_some_and(|it| it.rx_us == 8 && it.is_adaptive));
    }

    #[test]
    fn answers_of_the_kernel_are_read_and_may_be_cut_off_anywhere() {
        let bit = |name: &[u8], is_set: bool| {
            let mut inner = attribute(2, name);
            if is_set {
                inner.extend(attribute(3, b""));
            }
            attribute(1 | NESTED, &inner)
        };
        let set = |is_list: bool, bits: &[u8]| {
            let mut set = if is_list { attribute(1, b"") } else { Vec::new() };
            set.extend(attribute(3 | NESTED, bits));
            set
        };
        let hardware = [bit(b"rx-gro\0", true), bit(b"tx-udp-segmentation\0", false)].concat();
        let active = [bit(b"tx-udp-segmentation\0", false), bit(b"tx-tcp-segmentation\0", false)];
        let mut answer = attribute(2 | NESTED, &set(false, &hardware));
        answer.extend(attribute(4 | NESTED, &set(true, &active.concat())));
        let found = offloads(&answer);
        let of = |name: &str| found.get(name).map(|it| (it.is_on, it.is_fixed));
        assert_eq!(of("generic-receive-offload"), Some((false, false)));
        assert_eq!(of("tx-udp-segmentation"), Some((true, true)));
        assert_eq!(of("generic-segmentation-offload"), Some((false, true)));
        for end in 0..answer.len() {
            assert!(offloads(&answer[..end]).len() <= 4);
        }
        assert_eq!(attributes(&[3, 0, 1, 0, 9]).count(), 0);
    }

    #[test]
    fn loopback_answers_on_this_machine() {
        // A kernel without ethtool's netlink says nothing, which is no error either.
        let it = Settings::here("lo");
        if let Some(gro) = it.features.get("generic-receive-offload") {
            assert!(it.features.len() == 4, "{gro:?}");
        }
        assert_eq!(Settings::here("none-such"), Settings::default());
    }
}
