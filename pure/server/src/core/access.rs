//! Who may call: server key, HTTP key, session token. Contract: A.5, A.8, B.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use event::Now;
use game::api::auth;
use game::error::ApiError;
use game::session::{Claims, Revocation};
use wire::http1::Request;

use super::Core;
use super::http::Verified;
use crate::limits::SHARED;

/// A header's value, if it is there and text.
pub(super) fn header_text<'a>(request: &Request<'a>, name: &str) -> Option<&'a str> {
    std::str::from_utf8(request.header(name)?).ok()
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

    pub(super) fn revoke(&mut self, now: Now, revocation: &Revocation) {
        self.revocations.apply(now, revocation);
    }

    /// The client's address: behind `socket.proxy_count` proxies it is that many entries from the
    /// right in X-Forwarded-For, because only those were written by proxies that we know.
    pub(super) fn client_address(
        &self,
        request: &Request<'_>,
        peer: SocketAddr,
    ) -> (String, String) {
        let direct = || (peer.ip().to_string(), peer.port().to_string());
        let forwarded = header_text(request, "x-forwarded-for").and_then(|text| {
            let from_right = self.settings.socket.proxy_count.checked_sub(1)?;
            let entry = text.rsplit(',').nth(from_right)?;
            entry.trim_ascii().parse::<IpAddr>().ok()
        });
        forwarded.map_or_else(direct, |ip| (ip.to_string(), String::new()))
    }
}
