//! What a ping is asked for: its kind, where to, how often, how large, how many at once.
//!
//! In: words as people type them (PsPing's forms and this project's). Out: a [`Plan`] that can be
//! run, or an error that says what is wrong with it.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustls::pki_types::ServerName;

use super::buckets::Buckets;
use crate::load::scenario::Process;
use crate::measure::{BadSpan, Span, TlsChoice, TlsError, lookup, tls};

/// Streams at once, at most.
pub const STREAMS_MAX: u16 = 64;
/// Sizes of one sweep, at most.
pub const SIZES_MAX: usize = 32;
/// Bytes of one ping over a connection, at most.
pub(crate) const SIZE_BYTES_MAX: u32 = 16 << 20;
/// Bytes of one datagram, at most: what UDP over IPv4 carries. Source: RFC 768, RFC 791.
const DATAGRAM_BYTES_MAX: u32 = 65_507;
/// Bytes of one ping, at least, where the ping carries its number: 16 say whose it is and which.
pub(super) const SIZE_BYTES_MIN: u32 = 16;
/// Pings of one stream, at most.
const COUNT_MAX: u64 = 1_000_000_000;
/// Shortest distance between two starts of one stream.
const INTERVAL_MIN: Duration = Duration::from_micros(10);

/// What is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A message to `throng ping serve` and its echo, over one connection.
    #[default]
    Tcp,
    /// A datagram and its echo.
    Udp,
    /// From the attempt of a connection until it stands.
    Connect,
    /// A request and its whole answer, over one kept connection.
    Http,
    /// A ping frame and its pong; above 125 bytes a binary message and its echo.
    Ws,
    /// An ICMP echo request and its reply.
    Icmp,
}

impl Kind {
    /// As it stands in results and names of operations.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Ws => "ws",
            Self::Icmp => "icmp",
        }
    }

    /// What is timed, for a headline.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Tcp => "TCP round trips",
            Self::Udp => "UDP round trips",
            Self::Connect => "TCP connects",
            Self::Http => "HTTP requests",
            Self::Ws => "WebSocket requests",
            Self::Icmp => "ICMP echoes",
        }
    }

    /// Whether `throng ping serve` is at the other end, usually.
    fn needs_server(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }

    /// Whether answers may be lost, doubled and reordered on their way.
    pub(super) fn is_of_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Icmp)
    }

    /// Distance between starts when none is asked for: strangers are asked less often.
    #[must_use]
    pub fn usual_interval(self) -> Duration {
        Duration::from_millis(if self.needs_server() { 10 } else { 100 })
    }

    /// Bytes of a ping when none are asked for.
    #[must_use]
    pub fn usual_size(self) -> u32 {
        match self {
            Self::Tcp | Self::Udp => 64,
            Self::Ws | Self::Icmp => 32,
            Self::Connect | Self::Http => 0,
        }
    }

    fn sizes(self) -> Option<(u32, u32)> {
        match self {
            Self::Tcp => Some((SIZE_BYTES_MIN, SIZE_BYTES_MAX)),
            Self::Udp => Some((SIZE_BYTES_MIN, DATAGRAM_BYTES_MAX)),
            // Without the header of ICMP.
            Self::Icmp => Some((SIZE_BYTES_MIN, DATAGRAM_BYTES_MAX - 8)),
            Self::Ws => Some((SIZE_BYTES_MIN, crate::peer::serve::BODY_BYTES_MAX)),
            Self::Http => Some((0, crate::peer::serve::BODY_BYTES_MAX)),
            Self::Connect => None,
        }
    }
}

/// A number of pings, or how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many of each stream.
    Count(u64),
    /// For so long.
    Time(Duration),
}

/// Bytes: `64`, `1k`, `10m`; a k is 1,024, as PsPing counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u32);

/// A distance in time: `1ms`, `10us`, or seconds without a unit, as PsPing has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

/// Why something cannot be pinged so.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a count nor a time.
    #[error("`{0}` is neither a count nor a time: write 2000 or 2s")]
    Amount(String),
    /// Not a size.
    #[error("`{0}` is not a size: write 64, 1k or 10m")]
    Size(String),
    /// Not a distance.
    #[error("`{0}` is not an interval: write 1ms, 10us, or seconds; 0 is back to back")]
    Interval(String),
    /// Shorter than a stream keeps.
    #[error("an interval of {} is too short: {} at least, or 0 for back to back", tell(.0), tell(&INTERVAL_MIN))]
    TooOften(Duration),
    /// More than a run has.
    #[error("{0} pings are too many: {COUNT_MAX} of each stream at most")]
    TooMany(u64),
    /// A size that this kind cannot have.
    #[error("-l {size}: {kind} takes {least} to {most} bytes")]
    SizeOf {
        /// Asked for.
        size: u32,
        /// Of what.
        kind: &'static str,
        /// At least.
        least: u32,
        /// At most.
        most: u32,
    },
    /// A size where there is none.
    #[error("--connect sends nothing: leave --size out")]
    NoSize,
    /// Too many sizes.
    #[error("{0} sizes: a sweep has {SIZES_MAX} at most")]
    Sizes(usize),
    /// Streams beyond the limit.
    #[error("{0} streams: 1 to {STREAMS_MAX}")]
    Streams(u16),
    /// Not a place.
    #[error("`{0}` is not a target: write {1}")]
    Target(String, &'static str),
    /// TLS cannot be spoken so.
    #[error(transparent)]
    Tls(TlsError),
    /// A name without an address.
    #[error("{name} has no address{of}: {error}")]
    Name {
        /// As given.
        name: String,
        /// Which kind of address was asked for.
        of: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

fn tell(span: &Duration) -> String {
    crate::measure::number::time_f64(span.as_secs_f64() * 1e9)
}

impl FromStr for Amount {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if let Ok(count) = text.parse() {
            return if count <= COUNT_MAX {
                Ok(Self::Count(count))
            } else {
                Err(PlanError::TooMany(count))
            };
        }
        let span: Result<Span, BadSpan> = text.parse();
        span.map(|it| Self::Time(it.0)).map_err(|_| PlanError::Amount(text.to_owned()))
    }
}

impl FromStr for Size {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let bad = || PlanError::Size(text.to_owned());
        let lower = text.to_ascii_lowercase();
        let (digits, factor) = match lower.strip_suffix('k') {
            Some(digits) => (digits, 1_024),
            None => lower.strip_suffix('m').map_or((&*lower, 1), |digits| (digits, 1 << 20)),
        };
        let count: u32 = digits.parse().map_err(|_| bad())?;
        count.checked_mul(factor).map(Self).ok_or_else(bad)
    }
}

impl FromStr for Interval {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let bad = || PlanError::Interval(text.to_owned());
        let with_unit = if text.ends_with(|c: char| c.is_ascii_digit()) {
            format!("{text}s")
        } else {
            text.to_owned()
        };
        let span: Span = with_unit.parse().map_err(|_| bad())?;
        match span.0 {
            it if it.is_zero() || it >= INTERVAL_MIN => Ok(Self(it)),
            it => Err(PlanError::TooOften(it)),
        }
    }
}

/// Which addresses of a name are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// The first that the system names.
    #[default]
    Any,
    /// `-4`.
    V4,
    /// `-6`.
    V6,
}

impl Family {
    fn takes(self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::V4 => " of IPv4",
            Self::V6 => " of IPv6",
        }
    }
}

/// Where pings go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As given.
    pub text: String,
    /// Name and port, as HTTP has them.
    pub host: String,
    /// Path and query of HTTP and WebSocket.
    pub path: String,
    /// Where the name leads.
    pub addr: SocketAddr,
    /// Whose certificate it is to have, if it begins with https:// or wss://.
    pub tls_name: Option<ServerName<'static>>,
}

impl Place {
    /// Reads `host:port` (of ICMP `host`), or a URL for HTTP and WebSocket, and looks the name up.
    ///
    /// # Errors
    /// When it has another form, or the name has no address of this family; when `stop` is set before
    /// the system has answered.
    pub fn parse(
        text: &str,
        kind: Kind,
        family: Family,
        stop: &AtomicBool,
    ) -> Result<Self, PlanError> {
        let form = match kind {
            Kind::Icmp => "HOST",
            Kind::Http => "HOST:PORT, or http:// or https:// and HOST[:PORT][/PATH]",
            Kind::Ws => "HOST:PORT, or ws:// or wss:// and HOST[:PORT][/PATH]",
            Kind::Tcp | Kind::Udp | Kind::Connect => "HOST:PORT",
        };
        let bad = || PlanError::Target(text.to_owned(), form);
        let schemes: &[(&str, u16, bool)] = match kind {
            Kind::Http => &[("http://", 80, false), ("https://", 443, true)],
            Kind::Ws => &[("ws://", 80, false), ("wss://", 443, true)],
            Kind::Tcp | Kind::Udp | Kind::Connect | Kind::Icmp => &[],
        };
        let found = schemes
            .iter()
            .find_map(|(scheme, port, is_tls)| Some((text.strip_prefix(scheme)?, *port, *is_tls)));
        let (rest, port, is_tls) = match found {
            Some((rest, port, is_tls)) => (rest, Some(port), is_tls),
            None => (text, (kind == Kind::Icmp).then_some(0), false),
        };
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let has_path = matches!(kind, Kind::Http | Kind::Ws);
        if host.is_empty() || rest.contains([' ', '@']) || (path != "/" && !has_path) {
            return Err(bad());
        }
        let (name, port) = name_and_port(host, port).ok_or_else(bad)?;
        let tls_name = is_tls.then(|| ServerName::try_from(name.to_owned())).transpose();
        let tls_name = tls_name.map_err(|_| bad())?;
        let none = |error| PlanError::Name { name: host.to_owned(), of: family.words(), error };
        let found = lookup::addresses(name, port, stop).map_err(none)?;
        let addr = found.into_iter().find(|it| family.takes(it.ip()));
        let addr = addr.ok_or_else(|| none(std::io::Error::other("the name has others only")))?;
        let [text, host, path] = [text, host, path].map(str::to_owned);
        Ok(Self { text, host, path, addr, tls_name })
    }
}

/// `name:port`, `[::1]:port`, and without a port where there is a usual one.
fn name_and_port(host: &str, usual: Option<u16>) -> Option<(&str, u16)> {
    let bare = |name: &'_ str| name.trim_start_matches('[').trim_end_matches(']').len();
    let is_bracketed = host.starts_with('[');
    if let Some((name, port)) = host.rsplit_once(':')
        && (is_bracketed == name.ends_with(']'))
        && (is_bracketed || !name.contains(':'))
    {
        let name = &name[usize::from(is_bracketed)..][..bare(name)];
        return port.parse().ok().filter(|port| *port > 0).map(|port| (name, port));
    }
    let name = &host[usize::from(is_bracketed)..][..bare(host)];
    usual.filter(|_| !name.is_empty()).map(|port| (name, port))
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is timed.
    pub kind: Kind,
    /// Datagrams go to a server that sends back whatever comes, without a session: nothing is known of
    /// it but its answers. Of [`Kind::Udp`] only.
    pub is_plain: bool,
    /// Where to.
    pub place: Place,
    /// What counts: pings of each stream, or for how long.
    pub amount: Amount,
    /// What comes before and does not.
    pub warm_up: Amount,
    /// Bytes of the pings, taken in turn.
    pub sizes: Vec<u32>,
    /// Between the intended starts of one stream; zero is back to back, a closed loop.
    pub interval: Duration,
    /// How starts are spaced.
    pub arrivals: Process,
    /// Threads, each with a connection of its own.
    pub streams: u16,
    /// Of the histogram.
    pub buckets: Buckets,
    /// Proves to the server that one may.
    pub token: Option<String>,
    /// Whom to trust, where TLS is spoken.
    pub tls: TlsChoice,
    /// Silence after which the other end counts as gone, and an answer as lost.
    pub timeout: Duration,
    /// Wait without sleeping: takes a processor for each stream.
    pub busy_poll: bool,
    /// The processor of the streams.
    pub pin: Option<usize>,
    /// Streams before all ordinary threads.
    pub realtime: bool,
    /// Of Poisson arrivals; random by default.
    pub seed: Option<u64>,
    /// What is measured, in words.
    pub peer: String,
    /// Set from outside to end the run.
    pub stop: Arc<AtomicBool>,
}

impl Plan {
    /// Whether each ping begins when the last is answered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.interval.is_zero()
    }

    /// Whether `throng ping serve` is needed at the other end.
    pub(super) fn needs_server(&self) -> bool {
        self.kind.needs_server() && !self.is_plain
    }

    /// Names of the operations, one a size.
    #[must_use]
    pub fn operations(&self) -> Vec<String> {
        let word = self.kind.word();
        match &*self.sizes {
            [_] | [] => vec![word.to_owned()],
            sizes => sizes.iter().map(|size| format!("{word} {size} B")).collect(),
        }
    }

    /// Finds out whether this can be run.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), PlanError> {
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Err(PlanError::Streams(self.streams));
        }
        if self.place.tls_name.is_some() {
            tls::client(&self.tls).map_err(PlanError::Tls)?;
        }
        if self.sizes.is_empty() || self.sizes.len() > SIZES_MAX {
            return Err(PlanError::Sizes(self.sizes.len()));
        }
        let Some((least, most)) = self.kind.sizes() else {
            return if *self.sizes == [0] { Ok(()) } else { Err(PlanError::NoSize) };
        };
        let wrong = self.sizes.iter().find(|size| !(least..=most).contains(size));
        wrong.map_or(Ok(()), |size| {
            Err(PlanError::SizeOf { size: *size, kind: self.kind.word(), least, most })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::atomic::AtomicBool;

    use super::{Amount, Family, Interval, Kind, Place, Size, name_and_port};

    #[test]
    fn amounts_sizes_and_intervals_are_read_as_psping_has_them() {
        for (text, wanted) in [
            ("2000", Some(Amount::Count(2_000))),
            ("2s", Some(Amount::Time(Duration::from_secs(2)))),
            ("100ms", Some(Amount::Time(Duration::from_millis(100)))),
            ("2x", None),
            ("2000000000", None),
        ] {
            assert_eq!(text.parse::<Amount>().ok(), wanted, "{text}");
        }
        for (text, wanted) in [
            ("64", Some(64)),
            ("1k", Some(1_024)),
            ("10M", Some(10 << 20)),
            ("9999m", None),
            ("k", None),
        ] {
            assert_eq!(text.parse::<Size>().ok().map(|it| it.0), wanted, "{text}");
        }
        for (text, wanted_us) in [
            ("0", Some(0)),
            ("1ms", Some(1_000)),
            ("10us", Some(10)),
            ("0.5", Some(500_000)),
            ("1us", None),
            ("x", None),
        ] {
            let found = text.parse::<Interval>().ok().map(|it| it.0.as_micros());
            assert_eq!(found, wanted_us, "{text}");
        }
    }

    #[test]
    fn places_are_names_with_ports_or_urls() {
        for (text, usual, wanted) in [
            ("a:1", None, Some(("a", 1))),
            ("a", None, None),
            ("a", Some(80), Some(("a", 80))),
            ("[::1]:9", None, Some(("::1", 9))),
            ("[::1]", Some(80), Some(("::1", 80))),
            ("::1", Some(0), Some(("::1", 0))),
            ("a:x", Some(80), None),
            ("a:0", None, None),
        ] {
            assert_eq!(name_and_port(text, usual), wanted, "{text}");
        }
        let stop = AtomicBool::new(false);
        let of = |text, kind| Place::parse(text, kind, Family::Any, &stop).ok();
        let place = of("http://127.0.0.1:7350/healthcheck?a=b", Kind::Http).unwrap();
        assert_eq!((&*place.host, &*place.path), ("127.0.0.1:7350", "/healthcheck?a=b"));
        assert_eq!(of("ws://127.0.0.1/ws", Kind::Ws).unwrap().addr.port(), 80);
        for (text, kind, port) in [
            ("https://127.0.0.1/a", Kind::Http, 443),
            ("wss://127.0.0.1:7/a", Kind::Ws, 7),
            ("https://[::1]", Kind::Http, 443),
        ] {
            let place = of(text, kind).unwrap();
            assert_eq!((place.addr.port(), place.tls_name.is_some()), (port, true), "{text}");
        }
        assert_eq!(of("127.0.0.1", Kind::Icmp).unwrap().addr.port(), 0);
        for (text, kind) in [
            ("127.0.0.1", Kind::Tcp),
            ("http://127.0.0.1:1", Kind::Tcp),
            ("wss://127.0.0.1:1", Kind::Http),
            ("https://a_b:1", Kind::Connect),
            ("127.0.0.1:1/a", Kind::Udp),
            ("", Kind::Icmp),
        ] {
            assert_eq!(of(text, kind), None, "{text}");
        }
        let error =
            Place::parse("127.0.0.1:1", Kind::Tcp, Family::V6, &stop).unwrap_err().to_string();
        assert!(error.contains("no address of IPv6"), "{error}");
    }
}
