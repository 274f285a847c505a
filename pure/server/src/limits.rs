//! What one client may take of the server, and how a refusal names the setting that moves it.
//!
//! [`Limit`] is the list of them; `Groups` counts what users and addresses have and do, one table
//! for each core ("a group" is a user, or an address for calls without a user), and how long functions
//! took; `CallersOnly` keeps a function that overran with the callers; `event::Attempts` counts wrong passwords. What deliberately is not here: limits of what the server as a whole can
//! hold (`mail`, `retry_queue`, the engine), and what the log says of a limit that was met (`limit_log`).
//!
//! Threads share nothing, so that all of it holds for each core, room or worker by itself.

mod callers_only;
mod groups;

use std::net::Ipv6Addr;

use game::error::{ApiError, Code};

pub(crate) use callers_only::CallersOnly;
pub(crate) use groups::{Class, FAST_NS_MAX, Functions, Groups, SHARED, key_of, slot_of};

use crate::settings::LimitSettings;

/// A limit for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as its setting")]
pub enum Limit {
    RequestsPerUser,
    RequestsPerAddress,
    SocketsPerUser,
    SocketsPerAddress,
    ConnectionsPerAddress,
    CallsWaiting,
    CallsWaitingPerUser,
    CallsWaitingPerAddress,
    ListingsPerUser,
    PasswordsWaiting,
    RelayedMatchesPerUser,
    PresencesPerSession,
    StreamsPerUser,
    PresencesPerStream,
    PasswordAttemptsPerAccount,
    PasswordAttemptsPerAddress,
}

impl Limit {
    /// The setting that moves it.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::RequestsPerUser => "limit.requests_per_user_per_s",
            Self::RequestsPerAddress => "limit.requests_per_address_per_s",
            Self::SocketsPerUser => "limit.sockets_per_user",
            Self::SocketsPerAddress => "limit.sockets_per_address",
            Self::ConnectionsPerAddress => "limit.connections_per_address",
            Self::CallsWaiting => "limit.calls_waiting",
            Self::CallsWaitingPerUser => "limit.calls_waiting_per_user",
            Self::CallsWaitingPerAddress => "limit.calls_waiting_per_address",
            Self::ListingsPerUser => "limit.listings_per_user",
            Self::PasswordsWaiting => "limit.passwords_waiting",
            Self::RelayedMatchesPerUser => "limit.relayed_matches_per_user",
            Self::PresencesPerSession => "limit.presences_per_session",
            Self::StreamsPerUser => "limit.streams_per_user",
            Self::PresencesPerStream => "limit.presences_per_stream",
            Self::PasswordAttemptsPerAccount => "limit.password_attempts_per_account",
            Self::PasswordAttemptsPerAddress => "limit.password_attempts_per_address",
        }
    }

    /// The seconds for which it holds once it is met, and their setting; `None` if it is counted by
    /// the second or by what is there.
    pub(crate) fn lockout(self, settings: &LimitSettings) -> Option<(&'static str, u32)> {
        match self {
            Self::PasswordAttemptsPerAccount => {
                Some(("limit.password_lockout_account_sec", settings.password_lockout_account_s))
            }
            Self::PasswordAttemptsPerAddress => {
                Some(("limit.password_lockout_address_sec", settings.password_lockout_address_s))
            }
            _ => None,
        }
    }

    /// As [`Limit::refusal`] of a limit that holds for another `left_s` seconds.
    pub(crate) fn refusal_for(self, settings: &LimitSettings, left_s: u32) -> ApiError {
        let mut refusal = self.refusal(settings).after_s(left_s);
        if let Some((setting, lockout_s)) = self.lockout(settings) {
            let text = format!("{}; {left_s} s of {setting} {lockout_s} are left", refusal.message);
            refusal.message = text.into();
        }
        refusal
    }

    /// Its value; 0 is off.
    #[must_use]
    pub fn of(self, settings: &LimitSettings) -> u32 {
        match self {
            Self::RequestsPerUser => settings.requests_per_user_per_s,
            Self::RequestsPerAddress => settings.requests_per_address_per_s,
            Self::SocketsPerUser => settings.sockets_per_user,
            Self::SocketsPerAddress => settings.sockets_per_address,
            Self::ConnectionsPerAddress => settings.connections_per_address,
            Self::CallsWaiting => settings.calls_waiting,
            Self::CallsWaitingPerUser => settings.calls_waiting_per_user,
            Self::CallsWaitingPerAddress => settings.calls_waiting_per_address,
            Self::ListingsPerUser => settings.listings_per_user,
            Self::PasswordsWaiting => settings.passwords_waiting,
            Self::RelayedMatchesPerUser => settings.relayed_matches_per_user,
            Self::PresencesPerSession => settings.presences_per_session,
            Self::StreamsPerUser => settings.streams_per_user,
            Self::PresencesPerStream => settings.presences_per_stream,
            Self::PasswordAttemptsPerAccount => settings.password_attempts_per_account,
            Self::PasswordAttemptsPerAddress => settings.password_attempts_per_address,
        }
    }

    /// Whether `count` of what it limits are too many.
    pub(crate) fn is_met(self, settings: &LimitSettings, count: u32) -> bool {
        let max = self.of(settings);
        max > 0 && count >= max
    }

    /// What a client is told. Code 8 (HTTP 429) for what it did itself, code 14 (HTTP 503) for what
    /// the server as a whole has too much of. The setting's name stands in the text as it is, for
    /// programs to find.
    #[must_use]
    pub fn refusal(self, settings: &LimitSettings) -> ApiError {
        let (setting, max) = (self.setting(), self.of(settings));
        let (code, what) = match self {
            Self::RequestsPerUser | Self::RequestsPerAddress => {
                (Code::ResourceExhausted, "too many requests")
            }
            Self::SocketsPerUser | Self::SocketsPerAddress => {
                (Code::ResourceExhausted, "too many open sockets")
            }
            Self::ConnectionsPerAddress => (Code::ResourceExhausted, "too many open connections"),
            Self::CallsWaiting => {
                (Code::Unavailable, "the server is busy: too many calls are waiting")
            }
            Self::CallsWaitingPerUser | Self::CallsWaitingPerAddress => {
                (Code::ResourceExhausted, "too many calls are waiting")
            }
            Self::ListingsPerUser => (Code::ResourceExhausted, "too many listings are waiting"),
            Self::PasswordsWaiting => {
                (Code::Unavailable, "the server is busy: too many passwords are waiting")
            }
            Self::RelayedMatchesPerUser => (Code::ResourceExhausted, "too many relayed matches"),
            Self::PresencesPerSession => (Code::ResourceExhausted, "too many matches and streams"),
            Self::StreamsPerUser => (Code::ResourceExhausted, "the user is in too many streams"),
            Self::PresencesPerStream => (Code::ResourceExhausted, "the stream is full"),
            // Nakama's words.
            Self::PasswordAttemptsPerAccount | Self::PasswordAttemptsPerAddress => {
                (Code::ResourceExhausted, "Try again later.")
            }
        };
        ApiError::new(code, format!("{what} ({setting} is {max})"))
    }
}

/// How the number of a client ([`event::client_bits`]) is read in the log; 0 is nobody whom limits of
/// addresses hold for.
pub(crate) fn client_text(bits: u128) -> String {
    let address = Ipv6Addr::from_bits(bits);
    match address.to_ipv4_mapped() {
        _ if bits == 0 => "an address of limit.exempt_addresses".to_owned(),
        Some(address) => format!("address {address}"),
        None => format!("address {address}/64"),
    }
}

#[cfg(test)]
mod tests {
    use event::client_bits;
    use game::error::Code::{self, ResourceExhausted, Unavailable};

    use super::{Limit, client_text};
    use crate::settings::LimitSettings;

    /// A limit, its value, and how a refusal reads: what clients are told.
    type Row = (Limit, fn(&mut LimitSettings) -> &mut u32, Code, &'static str);

    const LIMITS: &[Row] = &[
        (
            Limit::RequestsPerUser,
            |all| &mut all.requests_per_user_per_s,
            ResourceExhausted,
            "too many requests (limit.requests_per_user_per_s is 7)",
        ),
        (
            Limit::RequestsPerAddress,
            |all| &mut all.requests_per_address_per_s,
            ResourceExhausted,
            "too many requests (limit.requests_per_address_per_s is 7)",
        ),
        (
            Limit::SocketsPerUser,
            |all| &mut all.sockets_per_user,
            ResourceExhausted,
            "too many open sockets (limit.sockets_per_user is 7)",
        ),
        (
            Limit::SocketsPerAddress,
            |all| &mut all.sockets_per_address,
            ResourceExhausted,
            "too many open sockets (limit.sockets_per_address is 7)",
        ),
        (
            Limit::ConnectionsPerAddress,
            |all| &mut all.connections_per_address,
            ResourceExhausted,
            "too many open connections (limit.connections_per_address is 7)",
        ),
        (
            Limit::CallsWaiting,
            |all| &mut all.calls_waiting,
            Unavailable,
            "the server is busy: too many calls are waiting (limit.calls_waiting is 7)",
        ),
        (
            Limit::CallsWaitingPerUser,
            |all| &mut all.calls_waiting_per_user,
            ResourceExhausted,
            "too many calls are waiting (limit.calls_waiting_per_user is 7)",
        ),
        (
            Limit::CallsWaitingPerAddress,
            |all| &mut all.calls_waiting_per_address,
            ResourceExhausted,
            "too many calls are waiting (limit.calls_waiting_per_address is 7)",
        ),
        (
            Limit::ListingsPerUser,
            |all| &mut all.listings_per_user,
            ResourceExhausted,
            "too many listings are waiting (limit.listings_per_user is 7)",
        ),
        (
            Limit::PasswordsWaiting,
            |all| &mut all.passwords_waiting,
            Unavailable,
            "the server is busy: too many passwords are waiting (limit.passwords_waiting is 7)",
        ),
        (
            Limit::RelayedMatchesPerUser,
            |all| &mut all.relayed_matches_per_user,
            ResourceExhausted,
            "too many relayed matches (limit.relayed_matches_per_user is 7)",
        ),
        (
            Limit::PresencesPerSession,
            |all| &mut all.presences_per_session,
            ResourceExhausted,
            "too many matches and streams (limit.presences_per_session is 7)",
        ),
        (
            Limit::StreamsPerUser,
            |all| &mut all.streams_per_user,
            ResourceExhausted,
            "the user is in too many streams (limit.streams_per_user is 7)",
        ),
        (
            Limit::PresencesPerStream,
            |all| &mut all.presences_per_stream,
            ResourceExhausted,
            "the stream is full (limit.presences_per_stream is 7)",
        ),
        (
            Limit::PasswordAttemptsPerAccount,
            |all| &mut all.password_attempts_per_account,
            ResourceExhausted,
            "Try again later. (limit.password_attempts_per_account is 7)",
        ),
        (
            Limit::PasswordAttemptsPerAddress,
            |all| &mut all.password_attempts_per_address,
            ResourceExhausted,
            "Try again later. (limit.password_attempts_per_address is 7)",
        ),
    ];

    #[test]
    fn a_limit_is_met_at_its_value_off_at_0_and_named_in_its_refusal() {
        for (limit, value, code, text) in LIMITS {
            let mut settings = LimitSettings::default();
            *value(&mut settings) = 7;
            let refusal = limit.refusal(&settings);
            assert_eq!((refusal.code, &*refusal.message), (*code, *text));
            assert_eq!(refusal.retry_after_s, None);
            let met = [0, 6, 7, 8].map(|count| limit.is_met(&settings, count));
            assert_eq!(met, [false, false, true, true], "{limit:?}");
            *value(&mut settings) = 0;
            assert!(!limit.is_met(&settings, u32::MAX), "{limit:?}");
        }
    }

    #[test]
    fn a_lockout_tells_what_is_left_of_it() {
        let settings = LimitSettings::default();
        for (limit, text) in [
            (
                Limit::PasswordAttemptsPerAccount,
                "Try again later. (limit.password_attempts_per_account is 5); 9 s of \
                 limit.password_lockout_account_sec 60 are left",
            ),
            (
                Limit::PasswordAttemptsPerAddress,
                "Try again later. (limit.password_attempts_per_address is 10); 9 s of \
                 limit.password_lockout_address_sec 600 are left",
            ),
            (Limit::CallsWaiting, &*Limit::CallsWaiting.refusal(&settings).message),
        ] {
            let refusal = limit.refusal_for(&settings, 9);
            assert_eq!(refusal.message, text);
            assert_eq!(refusal.retry_after_s.map(u32::from), Some(9));
        }
    }

    #[test]
    fn clients_are_read_as_addresses() {
        let text = |text: &str| client_text(client_bits(text.parse().unwrap()));
        assert_eq!(text("10.0.0.1"), "address 10.0.0.1");
        assert_eq!(text("2001:db8::1"), "address 2001:db8::/64");
        assert_eq!(client_text(0), "an address of limit.exempt_addresses");
    }
}
