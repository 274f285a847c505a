//! Limits of users and addresses where they are met: connections, requests, messages, sockets. The
//! counting is in `crate::limits`, calls that wait are in `dispatch`.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use event::ConnId;
use game::error::ApiError;
use game::session::Claims;

use super::Core;
use super::access::Head;
use super::http::Verified;
use super::socket::Session;
use crate::limits::{Limit, SHARED};

/// Connections of one address beyond its limit that may be told so at one time. Saying it keeps a
/// connection until its client has closed it, two seconds at most; more are closed without a word.
const REFUSED_CONNECTIONS_MAX: u32 = 64;

/// What becomes of a new connection.
#[derive(Debug)]
pub(super) enum Admission {
    Open,
    /// It is told why it is closed.
    Refused(ApiError),
    /// It is closed at once.
    Dropped,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) ip: IpAddr,
    /// The address as a number; 0 if limits of addresses do not hold for it.
    pub(super) client: u128,
}

impl Core {
    /// Counts a limit that was met, names it in the log, and words the refusal.
    pub(super) fn limited(&mut self, limit: Limit, who: impl Display) -> ApiError {
        let stats = &self.stats;
        match limit {
            Limit::RequestsPerUser => stats.limited_requests_per_user.up(),
            Limit::RequestsPerAddress => stats.limited_requests_per_address.up(),
            Limit::SocketsPerUser => stats.limited_sockets_per_user.up(),
            Limit::SocketsPerAddress => stats.limited_sockets_per_address.up(),
            Limit::ConnectionsPerAddress => stats.limited_connections_per_address.up(),
            Limit::CallsWaiting => stats.refused_jobs.up(),
            Limit::CallsWaitingPerUser => stats.limited_calls_waiting_per_user.up(),
            Limit::CallsWaitingPerAddress => stats.limited_calls_waiting_per_address.up(),
            Limit::ListingsPerUser => stats.limited_listings_per_user.up(),
            Limit::PasswordsWaiting => stats.limited_passwords_waiting.up(),
            // Of rooms and workers, which count them.
            Limit::RelayedMatchesPerUser
            | Limit::PresencesPerSession
            | Limit::StreamsPerUser
            | Limit::PresencesPerStream
            | Limit::PasswordAttemptsPerAccount
            | Limit::PasswordAttemptsPerAddress => {}
        }
        let refusal = limit.refusal(&self.settings.limits);
        let what = format_args!("{who} is refused: {}", refusal.message);
        self.limit_log.hit(self.now, limit.setting(), what);
        refusal
    }

    /// Where a request comes from, behind trusted proxies.
    pub(super) fn origin(&self, request: &impl Head, peer: SocketAddr) -> Origin {
        let (ip, _) = self.client_socket(request, peer);
        Origin { ip, client: self.settings.limits.client(ip).unwrap_or(0) }
    }

    /// One more connection, counted until [`Core::forget_connection`]. Behind proxies nothing is
    /// counted: a connection is the proxy's then, and carries the requests of many clients in turn.
    pub(super) fn admit_connection(&mut self, conn: ConnId, peer: SocketAddr) -> Admission {
        let limits = &self.settings.limits;
        let ip = peer.ip().to_canonical();
        let is_counted = limits.connections_per_address > 0
            && self.settings.socket.proxy_count == 0
            && limits.is_limited(ip);
        if !is_counted {
            return Admission::Open;
        }
        let address = self.groups.address(self.now, ip);
        let Some(slot) = self.conns.get_mut(conn.slot as usize) else { return Admission::Open };
        if address == SHARED {
            return Admission::Open;
        }
        slot.address = address;
        let group = self.groups.get(address);
        let before = group.connections;
        group.connections += 1;
        if !Limit::ConnectionsPerAddress.is_met(limits, before) {
            return Admission::Open;
        }
        let connections_max = limits.connections_per_address;
        let error = self.limited(Limit::ConnectionsPerAddress, format_args!("address {ip}"));
        if before - connections_max < REFUSED_CONNECTIONS_MAX {
            Admission::Refused(error)
        } else {
            Admission::Dropped
        }
    }

    /// A connection that was admitted is no more, or is a socket now.
    pub(super) fn forget_connection(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get_mut(conn.slot as usize) else { return };
        let address = std::mem::replace(&mut slot.address, SHARED);
        if address != SHARED {
            let group = self.groups.get(address);
            group.connections = group.connections.saturating_sub(1);
        }
    }

    /// One more request of an address.
    pub(super) fn admit_address(&mut self, origin: Origin) -> Result<(), ApiError> {
        let per_s = self.settings.limits.requests_per_address_per_s;
        if origin.client == 0 || per_s == 0 {
            return Ok(());
        }
        let address = self.groups.address(self.now, origin.ip);
        if address == SHARED || self.groups.get(address).take_request(self.now, per_s) {
            return Ok(());
        }
        Err(self.limited(Limit::RequestsPerAddress, format_args!("address {}", origin.ip)))
    }

    /// One more request of whoever calls: the user, or without one the address, whose allowance is
    /// counted by [`Core::admit_address`]. Gives the record that its calls are charged to.
    pub(super) fn admit_group(
        &mut self,
        origin: Origin,
        verified: &mut Option<Verified>,
        caller: Option<&Claims>,
    ) -> Result<u32, ApiError> {
        let Some(claims) = caller else {
            return Ok(self.groups.address(self.now, origin.ip));
        };
        let hint = verified.as_ref().map_or(SHARED, |verified| verified.group);
        let group = self.groups.user(self.now, claims.user_id, hint);
        if let Some(verified) = verified {
            verified.group = group;
        }
        self.admit_user(group, claims).map(|()| group)
    }

    fn admit_user(&mut self, group: u32, claims: &Claims) -> Result<(), ApiError> {
        let per_s = self.settings.limits.requests_per_user_per_s;
        if group == SHARED || self.groups.get(group).take_request(self.now, per_s) {
            return Ok(());
        }
        Err(self.limited(Limit::RequestsPerUser, format_args!("user {}", claims.user_id)))
    }

    /// One more message of a socket.
    pub(super) fn admit_message(&mut self, session: &Session) -> Result<(), ApiError> {
        let per_s = self.settings.limits.requests_per_address_per_s;
        if session.address != SHARED
            && !self.groups.get(session.address).take_request(self.now, per_s)
        {
            let who = format_args!("address {}", session.client.ip());
            return Err(self.limited(Limit::RequestsPerAddress, who));
        }
        self.admit_user(session.group, &session.claims)
    }

    /// One more socket. Gives the records of its user and its address, which count it until
    /// [`Core::forget_socket`].
    pub(super) fn admit_socket(
        &mut self,
        origin: Origin,
        claims: &Claims,
    ) -> Result<(u32, u32), ApiError> {
        let group = self.groups.user(self.now, claims.user_id, SHARED);
        let sockets = self.groups.get(group).sockets;
        if group != SHARED && Limit::SocketsPerUser.is_met(&self.settings.limits, sockets) {
            let who = format_args!("user {}", claims.user_id);
            return Err(self.limited(Limit::SocketsPerUser, who));
        }
        // At once: a record in which nothing counts may go when the address is looked for.
        self.groups.get(group).sockets += 1;
        let address = match origin.client {
            0 => SHARED,
            _ => self.groups.address(self.now, origin.ip),
        };
        let sockets = self.groups.get(address).sockets;
        self.groups.get(address).sockets += 1;
        if address != SHARED && Limit::SocketsPerAddress.is_met(&self.settings.limits, sockets) {
            self.forget_socket((group, address));
            let who = format_args!("address {}", origin.ip);
            return Err(self.limited(Limit::SocketsPerAddress, who));
        }
        Ok((group, address))
    }

    /// A socket that was admitted is no more.
    pub(super) fn forget_socket(&mut self, (user, address): (u32, u32)) {
        for index in [user, address] {
            let group = self.groups.get(index);
            group.sockets = group.sockets.saturating_sub(1);
        }
    }
}
