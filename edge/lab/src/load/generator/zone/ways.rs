//! Datagrams of pilots, as one generator has them: each pilot that has asked over its socket sends and gets them by
//! one of the generator's sockets (docs/datagrams.md). What is said by them is `zone`'s.
//!
//! In: grants, datagrams with the number of a session. Out: datagrams, whose they are, how many came and how many not.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use client::{Datagrams, Grant, Opened};
use event::SocketId;
use wire::datagram::{MatchData, Unreadable, peek};

use crate::load::generator::turn::Turn;

/// The RPC function by which a session asks for datagrams.
pub(super) const RPC_ID: &str = "throng_datagrams";

/// Sockets for datagrams of a generator. What the kernel keeps for one of them is what comes of some hundred snapshots,
/// and all snapshots of a tick come within some milliseconds.
pub(crate) const SOCKETS: u16 = 16;

/// One pilot's.
#[derive(Debug)]
pub(crate) struct Way {
    datagrams: Datagrams,
    socket: SocketId,
    to: SocketAddr,
}

impl Way {
    /// By the generator's socket for the player at this place, to the server that it is connected to.
    ///
    /// # Errors
    /// Why there is none, as text.
    pub(super) fn new(grant: &str, index: usize, server: SocketAddr) -> Result<Self, String> {
        let grant: Grant = serde_json::from_str(grant).map_err(|error| error.to_string())?;
        let ip = match &*grant.host {
            "" => server.ip(),
            host => host.parse::<IpAddr>().map_err(|_| {
                format!(
                    "`{host}` (datagram.public_address) is no address, and names are not asked for"
                )
            })?,
        };
        if ip.is_ipv4() != server.is_ipv4() {
            return Err(format!(
                "{ip} (datagram.public_address) is of another family than {server}"
            ));
        }
        let no_grant = || format!("a grant of version {}, or malformed", grant.version);
        let datagrams = Datagrams::new(&grant).ok_or_else(no_grant)?;
        let socket = u16::try_from(index % usize::from(SOCKETS)).unwrap_or(0);
        let to = SocketAddr::new(ip, grant.port);
        Ok(Self { datagrams, socket: SocketId(socket), to })
    }

    /// Where it leads.
    pub(super) fn to(&self) -> SocketAddr {
        self.to
    }

    /// Whether the server sends by it, as far as can be known.
    pub(in super::super) fn is_open(&self) -> bool {
        self.datagrams.is_open()
    }

    /// Sends a sign of life, or looks for the way, if it is time to.
    pub(in super::super) fn probe(&mut self, turn: &mut Turn<'_>) {
        if let Some(datagram) = self.datagrams.due(Duration::from_nanos(turn.at.now_ns)) {
            self.send(turn, &datagram);
        }
    }

    /// Sends a message to a match; `false` if it has to go over the socket.
    pub(in super::super) fn message(
        &mut self,
        turn: &mut Turn<'_>,
        match_id: &str,
        (op_code, data): (u8, &[u8]),
    ) -> bool {
        if !self.is_open() {
            return false;
        }
        let Some(datagram) = self.datagrams.message(match_id, op_code.into(), data) else {
            return false;
        };
        self.send(turn, &datagram);
        true
    }

    /// Takes a datagram; gives the message in it, or why there is none that can be read.
    pub(super) fn open<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        datagram: &'a [u8],
    ) -> Option<Result<MatchData<'a>, Unreadable>> {
        let now = Duration::from_nanos(turn.at.now_ns);
        let Opened { missing, message, answer } = self.datagrams.open(now, datagram)?;
        if let Some(answer) = answer {
            self.send(turn, &answer);
        }
        let record = turn.recorder.zone();
        record.datagrams += 1;
        record.datagrams_missing += missing;
        message
    }

    fn send(&self, turn: &mut Turn<'_>, datagram: &[u8]) {
        turn.recorder.sent_bytes(datagram.len());
        turn.out.send_datagram(self.socket, self.to, datagram);
    }
}

/// Whose datagrams are whose, by the number of the session.
#[derive(Debug, Default)]
pub(super) struct Ways {
    players: HashMap<u64, usize>,
    /// By player, so that there is one of each at most.
    ids: Vec<Option<u64>>,
}

impl Ways {
    /// The player at this place has this way from now on.
    pub(super) fn begin(&mut self, index: usize, way: &Way) {
        if self.ids.len() <= index {
            self.ids.resize(index + 1, None);
        }
        let id = way.datagrams.id();
        if let Some(before) = self.ids[index].replace(id) {
            self.players.remove(&before);
        }
        self.players.insert(id, index);
    }

    /// Whose this datagram says it is.
    pub(super) fn owner(&self, datagram: &[u8]) -> Option<usize> {
        self.players.get(&peek(datagram).ok()?.id).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{SOCKETS, Way, Ways};

    fn grant(host: &str, id: &str) -> String {
        let key = "07".repeat(32);
        format!(r#"{{"version":1,"host":"{host}","port":7,"id":"{id}","key":"{key}"}}"#)
    }

    const SERVER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
    const ID: &str = "0100000000000000";

    #[test]
    fn a_grant_names_where_to_send_or_is_refused() {
        let to = |host| Way::new(&grant(host, ID), 0, SERVER).map(|way| way.to.to_string());
        assert_eq!(to(""), Ok("127.0.0.1:7".to_owned()));
        assert_eq!(to("127.0.0.9"), Ok("127.0.0.9:7".to_owned()));
        assert!(to("::1").unwrap_err().contains("another family"));
        assert!(to("game.example").unwrap_err().contains("datagram.public_address"));
        assert!(Way::new("{}", 0, SERVER).is_err());
        assert!(Way::new(&grant("", "01"), 0, SERVER).unwrap_err().contains("malformed"));
        let socket = |index| Way::new(&grant("", ID), index, SERVER).unwrap().socket.0;
        assert_eq!([socket(0), socket(SOCKETS.into()), socket(17)], [0, 0, 1]);
    }

    #[test]
    fn a_player_has_one_way_at_a_time() {
        let mut ways = Ways::default();
        let way = |id: &str| Way::new(&grant("", id), 3, SERVER).unwrap();
        let first = way(ID);
        ways.begin(3, &first);
        ways.begin(3, &way("0200000000000000"));
        assert_eq!(
            (ways.players.len(), ways.players.get(&2), ways.owner(b"noise")),
            (1, Some(&3), None)
        );
    }
}
