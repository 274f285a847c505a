//! Who may call: server key, HTTP key, session token.
//!
//! Source: Nakama 3.40, `server/api.go`, `server/api_rpc.go`, `server/session_cache.go`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use event::Now;
use game::api::auth;
use game::error::ApiError;
use game::session::Claims;
use smallvec::SmallVec;
use wire::http1::Request;
use wire::http2::Fields;

use super::Core;
use super::http::Verified;
use crate::limits::SHARED;

/// Where header fields are looked up, whatever the protocol. Names are in lower case.
pub(super) trait Head {
    /// The value of the first field of this name.
    fn field(&self, name: &str) -> Option<&[u8]>;

    /// The values of all fields of this name.
    fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    /// The credentials.
    fn authorization(&self) -> Option<&str>;
}

impl Head for Request<'_> {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.header(name)
    }

    fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.all(name)
    }

    fn authorization(&self) -> Option<&str> {
        header_text(self, "authorization")
    }
}

impl Head for Fields {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.get(name)
    }

    fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name)
    }

    /// Twice is as bad as malformed (Nakama 3.40, `securityInterceptorFunc` in `server/api.go`).
    fn authorization(&self) -> Option<&str> {
        let mut values = self.all("authorization").chain(self.all("grpcgateway-authorization"));
        let value = values.next()?;
        Some(if values.next().is_some() { "" } else { std::str::from_utf8(value).unwrap_or("") })
    }
}

/// A header's value, if it is there and text.
pub(super) fn header_text<'a>(request: &'a impl Head, name: &str) -> Option<&'a str> {
    std::str::from_utf8(request.field(name)?).ok()
}

impl Core {
    /// The claims of a session token that counts. A connection nearly always sends the token that
    /// it sent before: that one is not verified again, only its time and revocation are looked at.
    pub(super) fn session(
        &self,
        now: Now,
        verified: &mut Option<Verified>,
        token: &str,
    ) -> Result<Arc<Claims>, ApiError> {
        let known = verified.as_ref().filter(|known| &*known.token == token);
        let claims = match known {
            Some(known) if now.unix_s() < known.claims.expires_s => known.claims.clone(),
            Some(_) => return Err(auth::invalid()),
            None => Arc::new(auth::session(token, &self.signer, &self.revocations, now)?),
        };
        if self.revocations.is_revoked(&claims) {
            return Err(auth::invalid());
        }
        if known.is_none() {
            *verified =
                Some(Verified { token: token.into(), claims: claims.clone(), group: SHARED });
        }
        Ok(claims)
    }

    /// The client's address and port as text, the port empty if a proxy did not tell.
    pub(super) fn client_address(&self, request: &impl Head, peer: SocketAddr) -> (String, String) {
        let (ip, port) = self.client_socket(request, peer);
        (ip.to_string(), port.map_or_else(String::new, |port| port.to_string()))
    }

    /// Says, and rarely again, that a proxy seems to stand in front of which nobody has told the
    /// server. To be called for the first request of a connection: proxies name the client in all.
    pub(super) fn look_for_proxy(&mut self, now: Now, peer: SocketAddr, request: &impl Head) {
        if self.settings.socket.proxy_count > 0 || request.field("x-forwarded-for").is_none() {
            return;
        }
        self.stats.forwarded_ignored.up();
        if now.mono_ns < self.proxies_said_ns {
            return;
        }
        self.proxies_said_ns = now.mono_ns.saturating_add(PROXIES_SAID_NS);
        tracing::warn!(
            "{} names a client in X-Forwarded-For, and socket.proxy_count is 0: if it is a proxy, \
             all players behind it count as one client, so that a few wrong passwords of one lock \
             out the logins of all; set socket.proxy_count to the number of proxies (said once an \
             hour)",
            peer.ip()
        );
    }

    /// The same as numbers.
    pub(super) fn client_socket(
        &self,
        request: &impl Head,
        peer: SocketAddr,
    ) -> (IpAddr, Option<u16>) {
        let proxies = self.settings.socket.proxy_count;
        let lines = (proxies > 0).then(|| request.fields("x-forwarded-for"));
        let client = forwarded(lines.into_iter().flatten(), proxies);
        client.unwrap_or((peer.ip().to_canonical(), Some(peer.port())))
    }
}

/// How often it is said that nobody's X-Forwarded-For is believed.
const PROXIES_SAID_NS: u64 = 3_600_000_000_000;

/// Who the outermost of `proxies` trusted proxies says that the client is. Each proxy adds whom it
/// heard from at the end, so that only so many entries from the right are theirs; whatever stands
/// to the left the client may have written. `None` without proxies, with fewer entries than
/// proxies, and if the entry is no address: then the peer is the client.
///
/// Several header lines are one list (RFC 9110 §5.3), its empty entries do not count (§5.6.1).
fn forwarded<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    proxies: usize,
) -> Option<(IpAddr, Option<u16>)> {
    let from_right = proxies.checked_sub(1)?;
    let entries: SmallVec<[&[u8]; 16]> = lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .collect();
    let entry = entries.iter().rev().nth(from_right)?;
    address(std::str::from_utf8(entry).ok()?)
}

/// An address as proxies write it: with or without port, IPv6 in brackets if there is one.
fn address(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let (ip, port) = match bare.parse::<IpAddr>() {
        Ok(ip) => (ip, None),
        Err(_) => text.parse::<SocketAddr>().map(|it| (it.ip(), Some(it.port()))).ok()?,
    };
    Some((ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::forwarded;

    fn check(lines: &[&str], proxies: usize) -> String {
        let lines = lines.iter().map(|line| line.as_bytes());
        match forwarded(lines, proxies) {
            None => "peer".to_owned(),
            Some((ip, None)) => ip.to_string(),
            Some((ip, Some(port))) => format!("{ip} port {port}"),
        }
    }

    #[test]
    fn so_many_entries_from_the_right_are_believed_as_there_are_proxies() {
        for (lines, proxies, expected) in [
            // Nobody stands in front: whoever writes the header is the client.
            (&["1.1.1.1"][..], 0, "peer"),
            (&["1.1.1.1"], 1, "1.1.1.1"),
            (&["6.6.6.6, 1.1.1.1"], 1, "1.1.1.1"),
            // The client's own line comes first, the proxy's behind it.
            (&["6.6.6.6", "1.1.1.1"], 1, "1.1.1.1"),
            (&["6.6.6.6,7.7.7.7", "1.1.1.1"], 1, "1.1.1.1"),
            (&["6.6.6.6", "1.1.1.1, 10.0.0.1"], 2, "1.1.1.1"),
            (&["6.6.6.6", "1.1.1.1", "10.0.0.1"], 2, "1.1.1.1"),
            // Empty entries move nothing.
            (&["6.6.6.6,,,", "", ", 1.1.1.1 ,"], 1, "1.1.1.1"),
            (&["6.6.6.6, , 1.1.1.1", ",10.0.0.1"], 2, "1.1.1.1"),
            // Fewer entries than proxies: it did not come through them all.
            (&["6.6.6.6"], 2, "peer"),
            (&[","], 1, "peer"),
            (&[], 1, "peer"),
            // What is no address is nobody's.
            (&["unknown"], 1, "peer"),
            (&["1.1.1.1, _hidden"], 1, "peer"),
            (&["1.1.1.1.1"], 1, "peer"),
            (&["\u{e4}"], 1, "peer"),
            // Ports and IPv6.
            (&["1.1.1.1:80"], 1, "1.1.1.1 port 80"),
            (&["2001:db8::1"], 1, "2001:db8::1"),
            (&["[2001:db8::1]"], 1, "2001:db8::1"),
            (&["[2001:db8::1]:443"], 1, "2001:db8::1 port 443"),
            (&["::ffff:1.1.1.1"], 1, "1.1.1.1"),
            (&["[::1"], 1, "peer"),
        ] {
            assert_eq!(check(lines, proxies), expected, "{lines:?} {proxies}");
        }
    }
}
