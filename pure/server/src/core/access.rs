//! Who may call: server key, HTTP key, session token. Contract: A.5, A.8, B.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use event::Now;
use game::session::{Claims, Revocation};
use wire::http1::Request;

use super::Core;
use super::http::Verified;

/// What an `Authorization` header says. Schemes are compared without case (RFC 9110 §11.1).
pub(super) enum Credentials<'a> {
    /// No header, or a scheme that is not known here.
    None,
    /// The user part of Basic; the password part is ignored.
    Basic(String),
    /// A session token.
    Bearer(&'a str),
}

impl<'a> Credentials<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        let Some(header) = request.header("authorization") else { return Self::None };
        let Ok(header) = std::str::from_utf8(header) else { return Self::None };
        let Some((scheme, rest)) = header.trim_ascii().split_once(' ') else { return Self::None };
        let rest = rest.trim_ascii();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Self::Bearer(rest);
        }
        if scheme.eq_ignore_ascii_case("basic") {
            return basic_user(rest).map_or(Self::None, Self::Basic);
        }
        Self::None
    }
}

fn basic_user(encoded: &str) -> Option<String> {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, _password) = text.split_once(':')?;
    Some(user.to_owned())
}

/// Compares keys in a time that does not tell how much of them agrees.
pub(super) fn is_same_key(given: &str, right: &str) -> bool {
    let differences = given.bytes().zip(right.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == right.len() && differences == 0
}

impl Core {
    /// The claims of a session token that counts. A connection nearly always sends the token that
    /// it sent before: that one is not verified again, only its time and revocation are looked at.
    pub(super) fn session(
        &self,
        now: Now,
        verified: &mut Option<Verified>,
        token: &str,
    ) -> Option<Arc<Claims>> {
        let known = verified.as_ref().filter(|known| &*known.token == token);
        let claims = match known {
            Some(known) if now.unix_s() < known.claims.expires_s => known.claims.clone(),
            Some(_) => return None,
            None => Arc::new(self.signer.verify_session(token, now).ok()?),
        };
        if self.revocations.is_revoked(&claims) {
            return None;
        }
        if known.is_none() {
            *verified = Some(Verified { token: token.into(), claims: claims.clone() });
        }
        Some(claims)
    }

    pub(super) fn revoke(&mut self, now: Now, revocation: &Revocation) {
        self.revocations.apply(now, revocation);
    }

    /// The client's address: behind `socket.proxy_count` proxies it is that many entries from the
    /// right in X-Forwarded-For, because only those were written by proxies that we know.
    pub(super) fn client_address(&self, request: &Request<'_>, peer: SocketAddr) -> (String, String) {
        let direct = || (peer.ip().to_string(), peer.port().to_string());
        let forwarded = request.header("x-forwarded-for").and_then(|value| {
            let text = std::str::from_utf8(value).ok()?;
            let from_right = self.settings.socket.proxy_count.checked_sub(1)?;
            let entry = text.rsplit(',').nth(from_right)?;
            entry.trim_ascii().parse::<IpAddr>().ok()
        });
        forwarded.map_or_else(direct, |ip| (ip.to_string(), String::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::{basic_user, is_same_key};

    #[test]
    fn the_user_part_of_basic_is_the_key() {
        assert_eq!(basic_user("ZGVmYXVsdGtleTo=").as_deref(), Some("defaultkey"));
        assert_eq!(basic_user("ZGVmYXVsdGtleTpwYXNz").as_deref(), Some("defaultkey"));
        assert_eq!(basic_user("bm9jb2xvbg=="), None);
        assert_eq!(basic_user("%%%"), None);
    }

    #[test]
    fn keys_are_compared_whole() {
        assert!(is_same_key("abc", "abc"));
        assert!(!is_same_key("abc", "abd"));
        assert!(!is_same_key("ab", "abc"));
        assert!(!is_same_key("", "abc"));
    }
}
