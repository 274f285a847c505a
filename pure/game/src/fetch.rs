//! What a script asks of another server over HTTP (`nk.http_request`), and what it gets: plain data
//! that any thread may carry. Who carries it out is `edge/fetch`, behind [`Fetch`].
//!
//! Here only the form of a request is known. Whether it may be made, and of whom, is decided where
//! addresses are known.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// What is to be done with the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as in RFC 9110 and RFC 5789")]
pub enum Method {
    Delete,
    Get,
    Head,
    Patch,
    Post,
    Put,
}

impl Method {
    /// The method of a name in any case; `None` for others than Nakama knows.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        const ALL: [Method; 6] =
            [Method::Delete, Method::Get, Method::Head, Method::Patch, Method::Post, Method::Put];
        ALL.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }

    /// As it is sent.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// Characters of a host that are shown: a name of the DNS (RFC 1035) and a port.
const HOST_SHOWN_MAX: usize = 253 + 6;

/// One request of a script. Its URL and headers are as the script wrote them, not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// `http://…` or `https://…`.
    pub url: String,
    /// The method.
    pub method: Method,
    /// Names and values, in any order.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The content; empty for none.
    pub body: Bytes,
    /// How long it may take in all, waiting for its turn included; at least 1.
    pub timeout_ms: u64,
    /// Whether the server's certificate is not to be checked.
    pub is_insecure: bool,
}

impl FetchRequest {
    /// Of whom it asks, for logs: host and port as they are written, without what stands before an `@`.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        // Whether it is one is not known yet.
        host.char_indices().nth(HOST_SHOWN_MAX).map_or(host, |(end, _)| &host[..end])
    }
}

/// What the server answered, after redirects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer {
    /// The status, 100–999.
    pub code: u16,
    /// Canonical names (`Content-Type`) and values; of a header that comes more than once the last
    /// value, as in Nakama.
    pub headers: Vec<(String, Bytes)>,
    /// The content as it was sent: nothing is unpacked.
    pub body: Bytes,
}

/// Why there is no answer: the text for the script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FetchFailed(pub String);

/// For whom a request is made: what is limited by the user is limited by this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// A user's call.
    User(Uuid),
    /// The call of a client that is nobody yet, such as the hook of a login: its address
    /// ([`event::client_bits`]).
    Address(u128),
    /// A match.
    Match(Uuid),
    /// Nobody who could be told from others: events, calls by the HTTP key.
    #[default]
    Server,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user {id}"),
            Self::Address(bits) => {
                let address = std::net::Ipv6Addr::from_bits(*bits);
                write!(f, "address {}", address.to_canonical())
            }
            Self::Match(id) => write!(f, "match {id}"),
            Self::Server => f.write_str("no user"),
        }
    }
}

/// Who pays for a request, and from where: what is limited by the user and by the address is limited
/// by this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchPayer {
    /// For whom it is made.
    pub principal: Principal,
    /// The address of the client that caused it ([`event::client_bits`]), where there is one and
    /// limits of addresses hold for it.
    pub client: Option<u128>,
}

impl From<Principal> for FetchPayer {
    /// Of whom no more is known.
    fn from(principal: Principal) -> Self {
        let client = match principal {
            Principal::Address(bits) => Some(bits),
            Principal::User(_) | Principal::Match(_) | Principal::Server => None,
        };
        Self { principal, client }
    }
}

/// The way of one thread to the network. What comes of a request is mail to this thread; a thread that
/// is told of a request that it has given up forgets it.
pub trait Fetch {
    /// Makes a request; `ticket`, which is the thread's own and not used twice, names its outcome.
    fn start(&self, ticket: u64, payer: FetchPayer, request: FetchRequest);

    /// Gives a request up: no outcome follows, but for one that is on its way. One that is done is
    /// none any more.
    fn cancel(&self, ticket: u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_name_a_host_and_no_password() {
        for (url, wanted) in [
            ("https://a.example/secret?key=1", "a.example"),
            ("http://127.0.0.1:9000", "127.0.0.1:9000"),
            ("http://name:secret@a.example?key", "a.example"),
            ("http://[::1]:80#at", "[::1]:80"),
            ("a.example", "a.example"),
            ("http://", ""),
        ] {
            let (headers, body) = (Vec::new(), Bytes::new());
            let (url, method) = (url.to_owned(), Method::Get);
            let request =
                FetchRequest { url, method, headers, body, timeout_ms: 1, is_insecure: false };
            assert_eq!(request.host(), wanted);
        }
        let url = format!("http://{}", "é".repeat(1_000));
        let (headers, body) = (Vec::new(), Bytes::new());
        let request = FetchRequest {
            url,
            method: Method::Get,
            headers,
            body,
            timeout_ms: 1,
            is_insecure: false,
        };
        assert_eq!(request.host().chars().count(), HOST_SHOWN_MAX);
    }
}
