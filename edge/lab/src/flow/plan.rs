//! What a flow is asked for: over what, by how many threads on which processors, how much at a time,
//! how fast, for how long.
//!
//! In: words as people type them (NTttcp's forms and this project's). Out: a [`Plan`] that can be run,
//! or an error that says what is wrong with it.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::datagram::{SendStyle, Style};

use super::words::Protocol;
use crate::measure::number::float;
use crate::measure::processors::cpus;
use crate::ping::Place;

/// Threads of this end, at most.
pub const THREADS_MAX: u32 = 64;
/// Connections of one thread, at most.
pub const PER_THREAD_MAX: u32 = 64;
/// Connections in all, at most; the server may allow fewer.
pub const CONNECTIONS_MAX: u32 = 512;
/// Bytes of one call that sends or receives, at most.
pub(crate) const BUFFER_BYTES_MAX: u32 = 16 << 20;
/// Bytes of one datagram, at most and at least: what UDP over IPv4 carries, and whose it is and which.
/// Source: RFC 768, RFC 791.
pub(crate) const DATAGRAM_BYTES: [u32; 2] = [16, 65_507];
/// Processor time that is burned for each datagram, at most.
pub(crate) const WORK_MAX: Duration = Duration::from_millis(1);
/// How long the server sends datagrams, at most: nothing on the way tells it to slow down.
pub(crate) const BACK_MAX: Duration = Duration::from_mins(10);
/// Longest time of each stage.
const STAGE_MAX: Duration = Duration::from_hours(24);
/// Shortest time that is counted.
const COUNTED_MIN: Duration = Duration::from_millis(100);

/// So many threads, on this processor, or wherever the system puts them; NTttcp's
/// `threads,processor,address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// How many.
    pub threads: u32,
    /// On which processor; none is `*`.
    pub core: Option<usize>,
    /// Where they send to.
    pub host: Option<String>,
}

/// How fast is sent, of all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bits a second of what is carried, without heads.
    Bits(f64),
    /// Datagrams a second.
    Datagrams(f64),
}

/// Why something cannot be done so.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not a mapping.
    #[error(
        "`{0}` is not a mapping: write THREADS,CORE[,ADDRESS], with * for any core: 4,*,10.0.0.2"
    )]
    Mapping(String),
    /// More threads or connections than there may be.
    #[error(
        "{threads} threads with {each} connections each: 1 to {THREADS_MAX} threads with 1 to \
         {PER_THREAD_MAX} each, {CONNECTIONS_MAX} in all"
    )]
    Connections {
        /// Asked for.
        threads: u32,
        /// Of each.
        each: u32,
    },
    /// A processor that this process may not use.
    #[error("there is no processor {0} for this program: it may use {1}")]
    Core(usize, String),
    /// Two receivers.
    #[error(
        "`{0}` and `{1}` are two receivers: one at a time; several threads need one mapping each at most"
    )]
    Hosts(String, String),
    /// Not a rate.
    #[error(
        "`{0}` is not a rate: write 500Mb or 9.5Gb (bits a second), or 20kpps (datagrams a second)"
    )]
    Rate(String),
    /// Datagrams a second of a stream of bytes.
    #[error("a stream of bytes has no datagrams: --rate 500Mb, or --udp")]
    RateOfTcp,
    /// A size that there is not.
    #[error("-l {bytes}: {protocol} takes {least} to {most} bytes")]
    Bytes {
        /// Asked for.
        bytes: u32,
        /// `tcp` or `udp`.
        protocol: &'static str,
        /// At least.
        least: u32,
        /// At most.
        most: u32,
    },
    /// Nothing would be counted, or for too long.
    #[error("-t counts 100 ms at least, and no stage lasts longer than 24 h")]
    Time,
    /// Longer than a server sends datagrams.
    #[error(
        "--udp --reverse lasts {} min at most, -W, -t and -C together: nothing on the way tells a \
         server that sends datagrams to slow down", BACK_MAX.as_secs() / 60
    )]
    BackTime,
    /// Datagrams only.
    #[error("{0} is of datagrams: with --udp")]
    OnlyUdp(&'static str),
    /// Streams only.
    #[error("{0} is of TCP: leave out --udp, or name threads with -m")]
    OnlyTcp(&'static str),
    /// More than a receiver is to burn.
    #[error("--work burns 1 ms for each datagram at most")]
    Work,
    /// A queue of an interface gives its frames to one socket.
    #[error("--style xdp receives what one socket sends: one thread (-m 1,*)")]
    OneByXdp,
}

impl FromStr for Mapping {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let bad = || PlanError::Mapping(text.to_owned());
        let mut parts = text.splitn(3, ',').map(str::trim);
        let threads = parts.next().and_then(|it| it.parse().ok()).ok_or_else(bad)?;
        let core = match parts.next() {
            None | Some("*") => None,
            Some(core) => Some(core.parse().map_err(|_| bad())?),
        };
        let host = parts.next().filter(|it| !it.is_empty()).map(str::to_owned);
        Ok(Self { threads, core, host })
    }
}

impl FromStr for Rate {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let bad = || PlanError::Rate(text.to_owned());
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/');
        let unit = &text[digits.len()..];
        let number: f64 = digits.parse().map_err(|_| bad())?;
        let (factor, unit) = match unit.chars().next() {
            Some('k' | 'K') => (1e3, &unit[1..]),
            Some('M') => (1e6, &unit[1..]),
            Some('G') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        let per_s = number * factor;
        if !per_s.is_finite() || per_s <= 0.0 {
            return Err(bad());
        }
        match unit {
            "b" | "bit" | "bps" | "b/s" | "bit/s" => Ok(Self::Bits(per_s)),
            "pps" | "p/s" | "/s" => Ok(Self::Datagrams(per_s)),
            _ => Err(bad()),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Over what.
    pub protocol: Protocol,
    /// Where to.
    pub place: Place,
    /// Whether the server sends and this end receives.
    pub is_back: bool,
    /// Threads and their processors; together [`THREADS_MAX`] threads at most.
    pub mappings: Vec<Mapping>,
    /// Connections of each thread.
    pub per_thread: u32,
    /// Bytes of each call that sends, or of each datagram.
    pub bytes: u32,
    /// How fast; none is as fast as can be.
    pub rate: Option<Rate>,
    /// What counts.
    pub counted: Duration,
    /// What comes before and does not.
    pub warm_up: Duration,
    /// What comes after and does not.
    pub cool_down: Duration,
    /// Processor of the server's threads.
    pub remote_core: Option<usize>,
    /// Processor time that the receiver burns for each datagram.
    pub work: Duration,
    /// How datagrams are received.
    pub style: Style,
    /// How they are sent.
    pub send_style: SendStyle,
    /// Proves to the server that one may.
    pub token: Option<String>,
    /// Silence after which the other end counts as gone.
    pub timeout: Duration,
    /// What is measured, in words.
    pub peer: String,
    /// Set from outside to end the run.
    pub stop: Arc<AtomicBool>,
}

impl Plan {
    /// Threads of this end.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.mappings.iter().map(|it| it.threads).fold(0, u32::saturating_add)
    }

    /// Connections, or sockets of datagrams, in all.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.threads().saturating_mul(self.per_thread)
    }

    /// The processor of each thread.
    pub(crate) fn cores(&self) -> Vec<Option<usize>> {
        let of =
            |it: &Mapping| std::iter::repeat_n(it.core, usize::try_from(it.threads).unwrap_or(0));
        self.mappings.iter().flat_map(of).collect()
    }

    /// Calls that send, or datagrams, a second of each of so many senders; none is as fast as can be.
    pub(crate) fn rate_of_each(&self, senders: u32) -> Option<f64> {
        let per_s = match self.rate? {
            Rate::Bits(bits) => bits / 8.0 / float(u64::from(self.bytes)),
            Rate::Datagrams(datagrams) => datagrams,
        };
        Some(per_s / float(u64::from(senders.max(1))))
    }

    /// All stages together.
    fn span(&self) -> Duration {
        self.warm_up.saturating_add(self.counted).saturating_add(self.cool_down)
    }

    /// Finds out whether this can be run.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), PlanError> {
        let (threads, each) = (self.threads(), self.per_thread);
        let is_within = (1..=THREADS_MAX).contains(&threads)
            && (1..=PER_THREAD_MAX).contains(&each)
            && self.connections() <= CONNECTIONS_MAX;
        if !is_within {
            return Err(PlanError::Connections { threads, each });
        }
        let own = cpus();
        for core in self.mappings.iter().filter_map(|it| it.core) {
            if !own.contains(&core) {
                let own: Vec<String> = own.iter().map(usize::to_string).collect();
                return Err(PlanError::Core(core, own.join(", ")));
            }
        }
        let stages = [self.counted, self.warm_up, self.cool_down];
        if self.counted < COUNTED_MIN || stages.iter().any(|it| *it > STAGE_MAX) {
            return Err(PlanError::Time);
        }
        let [least, most] = match self.protocol {
            Protocol::Tcp => [1, BUFFER_BYTES_MAX],
            Protocol::Udp => DATAGRAM_BYTES,
        };
        if !(least..=most).contains(&self.bytes) {
            let (bytes, protocol) = (self.bytes, self.protocol.word());
            return Err(PlanError::Bytes { bytes, protocol, least, most });
        }
        self.check_protocol()
    }

    fn check_protocol(&self) -> Result<(), PlanError> {
        match self.protocol {
            Protocol::Udp if self.style == Style::Xdp && self.threads() > 1 => {
                Err(PlanError::OneByXdp)
            }
            Protocol::Tcp if matches!(self.rate, Some(Rate::Datagrams(_))) => {
                Err(PlanError::RateOfTcp)
            }
            Protocol::Tcp if !self.work.is_zero() => Err(PlanError::OnlyUdp("--work")),
            Protocol::Udp if self.is_back && self.span() > BACK_MAX => Err(PlanError::BackTime),
            Protocol::Udp if self.per_thread > 1 => Err(PlanError::OnlyTcp("-P")),
            Protocol::Udp if self.work > WORK_MAX => Err(PlanError::Work),
            Protocol::Tcp | Protocol::Udp => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mapping, Rate};

    #[test]
    fn mappings_are_read_as_ntttcp_has_them() {
        let mapping = |threads, core, host: Option<&str>| Mapping {
            threads,
            core,
            host: host.map(str::to_owned),
        };
        for (text, wanted) in [
            ("4,*,10.0.0.2", Some(mapping(4, None, Some("10.0.0.2")))),
            ("8,0,::1", Some(mapping(8, Some(0), Some("::1")))),
            ("2", Some(mapping(2, None, None))),
            ("1,3", Some(mapping(1, Some(3), None))),
            ("", None),
            ("x,*", None),
            ("1,-1", None),
        ] {
            assert_eq!(text.parse::<Mapping>().ok(), wanted, "{text}");
        }
    }

    #[test]
    fn rates_are_bits_or_datagrams() {
        for (text, wanted) in [
            ("500Mb", Some(Rate::Bits(5e8))),
            ("9.5Gbps", Some(Rate::Bits(9.5e9))),
            ("64kbit/s", Some(Rate::Bits(64e3))),
            ("20kpps", Some(Rate::Datagrams(20e3))),
            ("250/s", Some(Rate::Datagrams(250.0))),
            ("500M", None),
            ("500", None),
            ("0b", None),
            ("-1b", None),
            ("b", None),
        ] {
            assert_eq!(text.parse::<Rate>().ok(), wanted, "{text}");
        }
    }
}
