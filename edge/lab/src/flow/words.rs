//! What the two ends of a flow say to each other on the control connection of its session (see
//! `peer::protocol`), in lines of a word and `name=value`.
//!
//! ```text
//! > flow protocol=tcp back=0 lanes=4 bytes=131072 core=- work=0 style=recv    asks
//! < ready lanes=4 most=…                                                      or `no WORD text`
//! > open                                                                      of datagrams: they come
//! < opened lanes=4
//! > begin number=1 stage=warm-up                                              a stretch begins
//! < at number=1 lanes=4 at=… bytes=… user=… system=… …                        what was done until then
//! > end                                                                       nothing more is sent
//! < connection retransmits=… rtt=…                                            one for each that sends
//! < ended number=… bytes=…                                                    all in all
//! ```
//!
//! Between asking and the first stretch the connections of the flow are made, or its first datagrams
//! sent. Where the server sends datagrams, each socket that receives goes on to send such first ones
//! twice a second: who is silent is sent nothing. In: lines of strangers. Out: what they say; names that are not known are left out, and values
//! that are no numbers are 0.

use std::fmt::Write as _;
use std::time::Duration;

use super::machine::Machine;
use super::meter::Stage;
use super::tcp_info::TcpInfo;
use crate::load::FlowConnection;

/// What is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A stream of bytes on each connection.
    #[default]
    Tcp,
    /// Datagrams with numbers.
    Udp,
}

impl Protocol {
    /// As it stands in results.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Bytes of a call below which what is sent costs its calls, and not the bytes.
const SMALL_BYTES: u32 = 16 << 10;

/// Bytes that a datagram of so many takes on Ethernet, of IPv4 or IPv6, in as many packets as it is cut
/// into: with the headers of UDP and IP, those of Ethernet, its checksum, preamble and gap, and what fills
/// up the shortest. Source: RFC 768, RFC 791, RFC 8200, IEEE 802.3.
pub(crate) fn wire_bytes(bytes: u32, is_ipv6: bool) -> u32 {
    /// Header 14, checksum 4, preamble 8, gap 12; and all of the shortest frame with them.
    const ETHERNET: u32 = 38;
    const LEAST: u32 = 84;
    let segment = bytes.saturating_add(8);
    // Of a packet of 1,500; fragments are cut at multiples of eight, and of IPv6 have 8 of a header.
    let (header, most) = if is_ipv6 { (40, 1_460) } else { (20, 1_480) };
    let cut = if is_ipv6 { 8 } else { 0 };
    let (packets, fragment) =
        if segment <= most { (1, 0) } else { (segment.div_ceil((most - cut) & !7), cut) };
    let all = packets.saturating_mul(header + fragment + ETHERNET).saturating_add(segment);
    all.max(LEAST)
}

/// What a client asks of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) protocol: Protocol,
    /// Whether the server sends.
    pub(crate) is_back: bool,
    /// Connections of TCP, or sockets that send datagrams.
    pub(crate) lanes: u32,
    /// Of one call that sends or receives, or of a datagram.
    pub(crate) bytes: u32,
    /// Processor of the server's threads.
    pub(crate) core: Option<usize>,
    /// Burned for each datagram.
    pub(crate) work: Duration,
    /// How datagrams are received, if the server receives them, and how they are sent if it sends.
    pub(crate) style: String,
    pub(crate) send_style: String,
    /// Calls a second of each lane, if the server is to send at a rate.
    pub(crate) rate: Option<f64>,
}

impl Asked {
    pub(crate) fn line(&self) -> String {
        let core = self.core.map_or("-".to_owned(), |core| core.to_string());
        let rate = self.rate.map_or("-".to_owned(), |rate| rate.to_string());
        format!(
            "flow protocol={} back={} lanes={} bytes={} core={core} work={} style={} send={} \
             rate={rate}\n",
            self.protocol.word(),
            u8::from(self.is_back),
            self.lanes,
            self.bytes,
            self.work.as_nanos(),
            self.style,
            self.send_style,
        )
    }

    /// Whether the server is to burn processor time for what it receives.
    pub(crate) fn burns(&self) -> bool {
        self.protocol == Protocol::Udp && !self.is_back && !self.work.is_zero()
    }

    /// Whether the server is to send pieces so small that making them is what its processors do.
    pub(crate) fn sends_small(&self) -> bool {
        self.is_back && (self.protocol == Protocol::Udp || self.bytes < SMALL_BYTES)
    }

    /// Reads what stands behind the word.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let fields = Fields(line);
        let protocol = match fields.text("protocol")? {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => return None,
        };
        let rate = fields.text("rate").and_then(|it| it.parse::<f64>().ok());
        Some(Self {
            protocol,
            is_back: fields.number("back") > 0,
            lanes: u32::try_from(fields.number("lanes")).ok()?,
            bytes: u32::try_from(fields.number("bytes")).ok()?,
            core: fields.text("core").and_then(|it| it.parse().ok()),
            work: Duration::from_nanos(fields.number("work")),
            style: fields.text("style").unwrap_or_default().to_owned(),
            send_style: fields.text("send").unwrap_or_default().to_owned(),
            rate: rate.filter(|it| it.is_finite() && *it > 0.0),
        })
    }
}

/// Words of a line.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|it| it.parse().ok()).unwrap_or(0)
    }
}

/// What is said to who may have what it asked for: its connections or sockets, and how many datagrams a
/// second each is sent at most, where that is not its own choice.
pub(crate) fn ready(lanes: u32, most: Option<f64>) -> String {
    let most = most.map_or(String::new(), |most| format!(" most={most}"));
    format!("ready lanes={lanes}{most}\n")
}

/// Reads of what stands behind the word how many datagrams a second are sent at most.
pub(crate) fn read_most(line: &str) -> Option<f64> {
    let most = Fields(line).text("most").and_then(|it| it.parse::<f64>().ok());
    most.filter(|it| it.is_finite() && *it > 0.0)
}

/// A beginning of a stretch, as it is said.
pub(crate) fn begin(number: u32, stage: Stage) -> String {
    format!("begin number={number} stage={}\n", stage.word())
}

/// Reads what stands behind the word.
pub(crate) fn read_begin(line: &str) -> Option<(u32, Stage)> {
    let fields = Fields(line);
    let word = fields.text("stage")?;
    let stage = Stage::ALL.into_iter().find(|stage| stage.word() == word)?;
    u32::try_from(fields.number("number")).ok().map(|number| (number, stage))
}

/// What an end had done when a stretch began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) lanes: u64,
    /// Since the flow was opened: the mean of the lanes' moments.
    pub(crate) at_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) datagrams: u64,
    pub(crate) missed: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) came: u64,
    pub(crate) counted: u64,
    pub(crate) doubled: u64,
    pub(crate) reordered: u64,
    pub(crate) old: u64,
    pub(crate) missing: u64,
    pub(crate) dropped: u64,
    pub(crate) foreign: u64,
    /// Of an end that sends by TCP: segments sent again; mean round trip; bytes that may be under way,
    /// of all connections.
    pub(crate) retransmits: u64,
    pub(crate) rtt_us: u64,
    pub(crate) window_bytes: u64,
    /// The machine, where it says.
    pub(crate) machine: Option<Machine>,
}

impl Totals {
    /// As it is said behind a first word.
    pub(crate) fn line(&self, word: &str, number: u32) -> String {
        let mut line = format!("{word} number={number}");
        let mut all = *self;
        for (name, value) in all.fields() {
            // What is 0 need not be said. Writing to a String cannot fail.
            if *value > 0 {
                let _ = write!(line, " {name}={value}");
            }
        }
        if let Some(it) = &self.machine {
            let ticks: Vec<String> = it.ticks.iter().map(u64::to_string).collect();
            let _ = write!(
                line,
                " cpus={} hz={} ticks={} dirqs={} irqs={} switches={}",
                it.processors,
                it.ticks_per_s,
                ticks.join(","),
                it.device_interrupts,
                it.interrupts,
                it.switches
            );
        }
        line.push('\n');
        line
    }

    /// Reads what stands behind the word: the number of the stretch, and what was done.
    pub(crate) fn read(line: &str) -> Option<(u32, Self)> {
        let fields = Fields(line);
        let number = u32::try_from(fields.number("number")).ok()?;
        let mut totals = Self::default();
        for (name, value) in totals.fields() {
            *value = fields.number(name);
        }
        totals.machine = fields.text("ticks").map(|ticks| {
            let mut machine = Machine {
                processors: fields.number("cpus"),
                ticks_per_s: fields.number("hz"),
                device_interrupts: fields.number("dirqs"),
                interrupts: fields.number("irqs"),
                switches: fields.number("switches"),
                ..Machine::default()
            };
            for (place, tick) in machine.ticks.iter_mut().zip(ticks.split(',')) {
                *place = tick.parse().unwrap_or(0);
            }
            machine
        });
        Some((number, totals))
    }

    /// Adds what TCP knows of the connections that this end sends on.
    pub(crate) fn add_tcp(&mut self, infos: &[TcpInfo]) {
        let sum = |of: fn(&TcpInfo) -> u64| infos.iter().map(of).fold(0, u64::saturating_add);
        self.retransmits = sum(|it| it.retransmits);
        self.rtt_us = sum(|it| it.rtt_us) / u64::try_from(infos.len().max(1)).unwrap_or(1);
        self.window_bytes = sum(TcpInfo::window_bytes);
    }

    /// Every number with the name that it has on the way: short, because a line is.
    fn fields(&mut self) -> [(&'static str, &mut u64); 19] {
        [
            ("lanes", &mut self.lanes),
            ("at", &mut self.at_ns),
            ("bytes", &mut self.bytes),
            ("calls", &mut self.calls),
            ("datagrams", &mut self.datagrams),
            ("missed", &mut self.missed),
            ("user", &mut self.user_ns),
            ("system", &mut self.system_ns),
            ("came", &mut self.came),
            ("counted", &mut self.counted),
            ("doubled", &mut self.doubled),
            ("reordered", &mut self.reordered),
            ("old", &mut self.old),
            ("missing", &mut self.missing),
            ("dropped", &mut self.dropped),
            ("foreign", &mut self.foreign),
            ("retransmits", &mut self.retransmits),
            ("rtt", &mut self.rtt_us),
            ("window", &mut self.window_bytes),
        ]
    }
}

/// What became of a connection in the counted time, as it is said.
pub(crate) fn connection(it: &FlowConnection) -> String {
    format!(
        "connection retransmits={} rtt={} deviation={} least={} window={} segment={} rate={} \
         receiver={} buffer={} acknowledged={}\n",
        it.retransmits,
        it.rtt_ns,
        it.rtt_deviation_ns,
        it.rtt_least_ns,
        it.window_bytes,
        it.segment_bytes,
        it.delivery_bits_per_s,
        it.receiver_limited_share,
        it.buffer_limited_share,
        it.acknowledged_bytes,
    )
}

/// Reads what stands behind the word.
pub(crate) fn read_connection(line: &str) -> FlowConnection {
    let fields = Fields(line);
    let float = |name: &str| {
        let value = fields.text(name).and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
        if value.is_finite() { value } else { 0.0 }
    };
    FlowConnection {
        retransmits: fields.number("retransmits"),
        rtt_ns: fields.number("rtt"),
        rtt_deviation_ns: fields.number("deviation"),
        rtt_least_ns: fields.number("least"),
        window_bytes: fields.number("window"),
        segment_bytes: fields.number("segment"),
        delivery_bits_per_s: float("rate"),
        receiver_limited_share: float("receiver"),
        buffer_limited_share: float("buffer"),
        acknowledged_bytes: fields.number("acknowledged"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        Asked, Machine, Protocol, Stage, Totals, begin, connection, read_begin, read_connection,
        read_most, ready,
    };
    use crate::load::FlowConnection;
    use crate::peer::protocol::LINE_BYTES_MAX;

    /// What stands behind the first word of a line.
    fn rest(line: &str) -> &str {
        assert!(line.len() <= LINE_BYTES_MAX, "{} bytes: {line}", line.len());
        line.strip_suffix('\n').unwrap().split_once(' ').unwrap().1
    }

    #[test]
    fn datagrams_take_more_on_the_wire_than_they_carry() {
        for (bytes, is_ipv6, wanted) in [
            // The shortest frame.
            (16, false, 84),
            (18, false, 84),
            (1_000, false, 1_066),
            (1_472, false, 1_538),
            // Two packets: 1,480 and 1 bytes of UDP.
            (1_473, false, 1_481 + 2 * 58),
            (1_452, true, 1_460 + 78),
            (1_453, true, 1_461 + 2 * 86),
            (65_507, false, 65_515 + 45 * 58),
        ] {
            assert_eq!(super::wire_bytes(bytes, is_ipv6), wanted, "{bytes} {is_ipv6}");
        }
        // A gigabit a second of the smallest: what a card of that speed carries.
        let most = 1e9 / (8.0 * f64::from(super::wire_bytes(16, false)));
        assert!((1.488e6..1.489e6).contains(&most), "{most}");
    }

    #[test]
    fn lines_are_read_back() {
        for asked in [
            Asked { lanes: 3, bytes: 1_200, style: "recv".to_owned(), ..Asked::default() },
            Asked {
                protocol: Protocol::Udp,
                is_back: true,
                core: Some(1),
                work: Duration::from_nanos(200),
                send_style: "gso".to_owned(),
                rate: Some(1.5e6),
                ..Asked::default()
            },
        ] {
            assert_eq!(Asked::read(rest(&asked.line())), Some(asked));
        }
        assert_eq!(read_most(rest(&ready(3, Some(1.5)))), Some(1.5));
        assert_eq!(read_most(rest(&ready(3, None))), None);
        assert_eq!(read_begin(rest(&begin(7, Stage::CoolDown))), Some((7, Stage::CoolDown)));
        let it = FlowConnection {
            retransmits: 5,
            rtt_ns: 250_000,
            window_bytes: 14_480,
            delivery_bits_per_s: 9.5e9,
            buffer_limited_share: 0.25,
            ..FlowConnection::default()
        };
        assert_eq!(read_connection(rest(&connection(&it))), it);
    }

    #[test]
    fn totals_are_read_back_and_the_longest_fit_a_line() {
        let mut most = Totals::default();
        for (_, value) in most.fields() {
            *value = 999_999_999_999_999;
        }
        most.machine = Some(Machine {
            processors: 4_096,
            ticks_per_s: 100,
            ticks: [99_999_999_999; 6],
            device_interrupts: 999_999_999_999,
            interrupts: 999_999_999_999,
            switches: 999_999_999_999,
        });
        for totals in [Totals { bytes: 7, ..Totals::default() }, most] {
            let line = totals.line("ended", 4_000_000);
            assert_eq!(Totals::read(rest(&line)), Some((4_000_000, totals)));
        }
    }

    #[test]
    fn what_strangers_say_is_nothing_or_a_number() {
        for line in ["", "protocol=sctp", "protocol=tcp lanes=99999999999", "lanes=1"] {
            assert_eq!(Asked::read(line), None, "{line}");
        }
        let asked = Asked::read("protocol=udp lanes=x rate=inf core=-1 style").unwrap();
        assert_eq!((asked.lanes, asked.rate, asked.core), (0, None, None));
        assert_eq!(read_begin("number=1 stage=later"), None);
        assert_eq!(Totals::read("number=99999999999"), None);
        assert_eq!(Totals::read("bytes=-1 ticks=1,x").unwrap().1.bytes, 0);
        assert!(read_connection("rate=NaN buffer=inf").delivery_bits_per_s.abs() < 1e-9);
    }
}
