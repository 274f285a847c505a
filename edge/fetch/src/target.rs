//! URLs: what a script may write, where it leads, and what a redirect makes of it.
//!
//! In: text. Out: a [`Target`], of which every part is known to be harmless in a request's head and
//! in a list of hosts. Not here: addresses.
//!
//! Source: RFC 3986 (sections 3 and 5.2 for references), RFC 9110 section 4.2 for what http adds.

use std::fmt;
use std::net::Ipv6Addr;

/// Bytes of a URL, at most.
const URL_BYTES_MAX: usize = 8 << 10;
/// Bytes of a name of the DNS (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// What is wrong with a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text says it")]
pub(crate) enum BadUrl {
    #[error("the URL has more than {URL_BYTES_MAX} bytes")]
    Long,
    #[error("the URL holds a control character")]
    Control,
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    #[error("the URL has a user or password in it: use the header Authorization")]
    User,
    #[error("the URL has no host that a name server or an address could be asked for")]
    Host,
    #[error("the URL's port is not 1 to 65535")]
    Port,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) is_tls: bool,
    /// In lower case, without the dot at its end; an address of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query, as sent; begins with a slash.
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, BadUrl> {
        if url.len() > URL_BYTES_MAX {
            return Err(BadUrl::Long);
        }
        if url.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(BadUrl::Control);
        }
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl::Scheme)?;
        let is_tls = match () {
            () if scheme.eq_ignore_ascii_case("https") => true,
            () if scheme.eq_ignore_ascii_case("http") => false,
            () => return Err(BadUrl::Scheme),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        // A backslash is a slash to some readers of URLs and part of a name to others.
        let end = rest.find(['/', '?', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(BadUrl::User);
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            Some(port) => port,
            None if is_tls => 443,
            None => 80,
        };
        let mut sent = String::with_capacity(path.len() + 1);
        if !path.starts_with('/') {
            sent.push('/');
        }
        encode(path, &mut sent);
        Ok(Self { is_tls, host: host_of(host)?, port, path: sent })
    }

    /// Where a `Location` leads from here.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, BadUrl> {
        let location = location.trim();
        if has_scheme(location) {
            return Self::parse(location);
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let (path, _) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let reference = location.split('#').next().unwrap_or_default();
        let joined = match reference.chars().next() {
            None => self.path.clone(),
            Some('/') => reference.to_owned(),
            Some('?') => format!("{path}{reference}"),
            Some(_) => {
                let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
                format!("{folder}{reference}")
            }
        };
        Self::parse(&format!("{scheme}://{}{}", self.authority(), without_dots(&joined)))
    }

    /// As the header `Host` has it: without the port that goes without saying.
    pub(crate) fn authority(&self) -> String {
        let is_usual = self.port == if self.is_tls { 443 } else { 80 };
        let (open, close) = if self.is_v6() { ("[", "]") } else { ("", "") };
        let host = &self.host;
        if is_usual {
            format!("{open}{host}{close}")
        } else {
            format!("{open}{host}{close}:{}", self.port)
        }
    }

    /// Whether credentials for the one are for the other, too.
    pub(crate) fn is_same_origin(&self, other: &Self) -> bool {
        (self.is_tls, &self.host, self.port) == (other.is_tls, &other.host, other.port)
    }

    fn is_v6(&self) -> bool {
        self.host.contains(':')
    }
}

impl fmt::Display for Target {
    /// Host and port: not the path, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.is_v6() { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

/// Host, in brackets or not, and port of `host:port`.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), BadUrl> {
    let behind = match authority.rfind(']') {
        Some(at) => at + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(behind);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').ok_or(BadUrl::Host)?;
    let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| is_number && *port > 0);
    Ok((host, Some(port.ok_or(BadUrl::Port)?)))
}

/// The host as it is compared and asked for.
fn host_of(text: &str) -> Result<String, BadUrl> {
    if let Some(text) = text.strip_prefix('[') {
        let address = text.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
        return address.map(|address| address.to_string()).ok_or(BadUrl::Host);
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= HOST_BYTES_MAX && name.bytes().all(is_letter);
    if is_name { Ok(name.to_ascii_lowercase()) } else { Err(BadUrl::Host) }
}

/// Writes what no request line may hold as `%XX`; what is written so already stays.
fn encode(path: &str, into: &mut String) {
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            into.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            into.push('%');
            into.push(char::from(DIGITS[usize::from(byte >> 4)]));
            into.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_letter)
}

/// A path without `.` and `..` (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = match path.find('?') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let mut parts: Vec<&str> = Vec::new();
    let mut pieces = path.split('/').skip(1).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        match piece {
            "." => {}
            ".." => drop(parts.pop()),
            piece => {
                parts.push(piece);
                continue;
            }
        }
        if is_last {
            parts.push("");
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// Hosts and ports as settings name them: `host`, `host:port`, `*.domain`, `*:port`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: HostPart,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPart {
    Any,
    /// The domain with a dot before it; its subdomains are meant, not it.
    Below(String),
    Is(String),
}

impl HostPattern {
    /// Reads one. `None` if it is none.
    ///
    /// ```
    /// use fetch::HostPattern;
    /// assert!(HostPattern::parse("*.example.com:443").is_some());
    /// assert!(HostPattern::parse("http://example.com").is_none());
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = split_port(text).ok()?;
        let host = match host.strip_prefix('*') {
            Some("") => HostPart::Any,
            Some(domain) => {
                HostPart::Below(format!(".{}", host_of(domain.strip_prefix('.')?).ok()?))
            }
            None => HostPart::Is(host_of(host).ok()?),
        };
        Some(Self { host, port })
    }

    pub(crate) fn holds(&self, target: &Target) -> bool {
        let is_host = match &self.host {
            HostPart::Any => true,
            HostPart::Below(domain) => target.host.ends_with(domain),
            HostPart::Is(host) => target.host == *host,
        };
        is_host && self.port.is_none_or(|port| target.port == port)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadUrl, HostPattern, Target};

    fn told(url: &str) -> String {
        match Target::parse(url) {
            Ok(it) => format!("{} {} {}", if it.is_tls { "tls" } else { "tcp" }, it, it.path),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn urls_are_read() {
        for (url, wanted) in [
            ("http://example.com", "tcp example.com:80 /"),
            ("HTTPS://Example.COM/a?b#c", "tls example.com:443 /a?b"),
            ("https://example.com.:8443?x=1", "tls example.com:8443 /?x=1"),
            ("http://[::1]:81/", "tcp [::1]:81 /"),
            ("http://[2001:DB8::0:1]", "tcp [2001:db8::1]:80 /"),
            ("http://127.0.0.1/a b/ü\"", "tcp 127.0.0.1:80 /a%20b/%C3%BC%22"),
            ("http://2130706433/", "tcp 2130706433:80 /"),
            ("http://a_b.c/%41", "tcp a_b.c:80 /%41"),
            // Whoever reads a backslash as a slash must not read another host than we.
            ("http://good\\@evil/", "tcp good:80 /%5C@evil/"),
            ("ftp://example.com", "Scheme"),
            ("file:///etc/passwd", "Scheme"),
            ("gopher://example.com", "Scheme"),
            ("//example.com", "Scheme"),
            ("example.com", "Scheme"),
            ("", "Scheme"),
            ("http:/example.com", "Scheme"),
            ("http://", "Host"),
            ("http:///path", "Host"),
            ("http://user@example.com/", "User"),
            ("http://good.com:80@evil.com/", "User"),
            ("http://exa mple.com/", "Host"),
            ("http://exämple.com/", "Host"),
            ("http://%31%32%37.0.0.1/", "Host"),
            ("http://::1/", "Port"),
            ("http://[::1/", "Port"),
            ("http://[::1%25lo]/", "Host"),
            ("http://[fe80::1%lo]/", "Host"),
            ("http://[::1]x:80/", "Host"),
            ("http://.", "Host"),
            ("http://example.com:/", "Port"),
            ("http://example.com:0/", "Port"),
            ("http://example.com:+80/", "Port"),
            ("http://example.com:65536/", "Port"),
            ("http://example.com:000080/", "Port"),
            ("http://example.com/\r\nHost: b", "Control"),
            ("http://example.com\0", "Control"),
            ("http://example.com/\x7f", "Control"),
        ] {
            assert_eq!(told(url), wanted, "{url:?}");
        }
        assert_eq!(Target::parse(&format!("http://a/{}", "x".repeat(8192))), Err(BadUrl::Long));
        assert_eq!(Target::parse(&format!("http://{}", "x".repeat(254))), Err(BadUrl::Host));
    }

    #[test]
    fn redirects_lead_where_browsers_go() {
        let base = Target::parse("https://host:8443/a/b/c?q").unwrap();
        for (location, wanted) in [
            ("http://Other/x", "tcp other:80 /x"),
            ("//other/x", "tls other:443 /x"),
            ("/x?y#z", "tls host:8443 /x?y"),
            ("x", "tls host:8443 /a/b/x"),
            ("./x", "tls host:8443 /a/b/x"),
            ("../x", "tls host:8443 /a/x"),
            ("../../../../x", "tls host:8443 /x"),
            ("..", "tls host:8443 /a/"),
            (".", "tls host:8443 /a/b/"),
            ("?y", "tls host:8443 /a/b/c?y"),
            ("", "tls host:8443 /a/b/c?q"),
            (" /x ", "tls host:8443 /x"),
            ("x:y", "Scheme"),
            ("javascript:alert(1)", "Scheme"),
            ("file:///etc/passwd", "Scheme"),
            ("//user@other/x", "User"),
            ("/x\r\nSet-Cookie: a", "Control"),
        ] {
            let told = match base.redirected(location) {
                Ok(it) => {
                    format!("{} {} {}", if it.is_tls { "tls" } else { "tcp" }, it, it.path)
                }
                Err(error) => format!("{error:?}"),
            };
            assert_eq!(told, wanted, "{location:?}");
        }
    }

    #[test]
    fn hosts_are_matched_whole() {
        for (pattern, url, wanted) in [
            ("*", "http://a:1", true),
            ("*:443", "https://a", true),
            ("*:443", "http://a", false),
            ("example.com", "http://example.com:99", true),
            ("Example.com.", "http://example.com", true),
            ("example.com", "http://www.example.com", false),
            ("example.com", "http://notexample.com", false),
            ("*.example.com", "http://www.example.com", true),
            ("*.example.com", "http://a.b.example.com", true),
            ("*.example.com", "http://example.com", false),
            ("*.example.com", "http://evilexample.com", false),
            ("*.example.com:80", "https://www.example.com", false),
            ("[::1]:80", "http://[0:0::1]/", true),
            ("10.0.0.1", "http://10.0.0.1", true),
        ] {
            let pattern = HostPattern::parse(pattern).unwrap();
            assert_eq!(pattern.holds(&Target::parse(url).unwrap()), wanted, "{pattern:?} {url}");
        }
        for bad in
            ["", "*example.com", "a/b", "http://a", "a:b", "a:0", "*.", "*.*.a", "[::1", ":80"]
        {
            assert_eq!(HostPattern::parse(bad), None, "{bad}");
        }
    }
}
