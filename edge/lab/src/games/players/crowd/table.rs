//! The players of one server, in the thread that plays them.

use std::net::{IpAddr, Ipv4Addr};

use super::{Look, Place};
use crate::games::players::client::{Client, Out};
use crate::games::players::probe::Probe;
use crate::games::players::reference;
use crate::games::players::seen::{PlayerSeen, ServerSeen};
use crate::games::players::socket::Socket;
use crate::games::players::teeworlds;
use crate::games::query::{Info, Query};
use crate::measure::arrivals::Stream;

/// Addresses of loopback from which Quake III is asked, because it answers one a second to each, and ten
/// to all.
const ASKERS: u8 = 8;
/// A player who has been sent nothing for so long is lost.
const SILENCE_NS: u64 = 2_000_000_000;

/// One place in the thread's list of sockets.
pub(super) struct Seat {
    pub(super) client: Box<dyn Client>,
    pub(super) socket: Socket,
    pub(super) seen: PlayerSeen,
    pub(super) stream: Stream,
    /// Plays, and does not only ask.
    pub(super) is_player: bool,
}

impl Seat {
    fn is_lost(&self, now_ns: u64) -> bool {
        let last_ns = self.seen.schedule.last_ns();
        !self.client.is_in() || now_ns.saturating_sub(last_ns) > SILENCE_NS
    }

    /// Sends; how many the kernel took, and how many not.
    pub(super) fn send(&self, out: &mut Out) -> [u64; 2] {
        let mut counts = [0; 2];
        for bytes in out.0.drain(..) {
            let is_sent = self.socket.send(&bytes);
            let [sent, unsent] = &mut counts;
            *(if is_sent { sent } else { unsent }) += 1;
        }
        counts
    }
}

/// The seats of one server.
pub(super) struct Table {
    pub(super) place: Place,
    pub(super) seats: Vec<usize>,
    told: Option<Info>,
}

impl Table {
    pub(super) fn new(place: Place) -> Self {
        Self { place, seats: Vec::new(), told: None }
    }

    pub(super) fn look(&self, seats: &[Option<Seat>]) -> Look {
        let all = || self.of(seats);
        let is_playing = |it: &&Seat| it.is_player && it.client.is_in();
        Look {
            players: self.place.players,
            playing: count(all().filter(is_playing)),
            refused: all().find_map(|it| it.seen.refused),
            info: all().find_map(|it| it.seen.info),
        }
    }

    fn of<'a>(&self, seats: &'a [Option<Seat>]) -> impl Iterator<Item = &'a Seat> {
        self.seats.iter().filter_map(|it| seats.get(*it)?.as_ref())
    }

    pub(super) fn begin(&mut self, seats: &mut [Option<Seat>]) {
        let told = self.of(seats).find_map(|it| it.seen.info);
        self.told = told;
        for index in &self.seats {
            if let Some(Some(seat)) = seats.get_mut(*index) {
                seat.seen.begin();
            }
        }
    }

    pub(super) fn end(&self, seats: &mut [Option<Seat>], now_ns: u64) -> ServerSeen {
        let mut all = ServerSeen {
            name: self.place.name.clone(),
            players: self.place.players,
            told: [self.told, self.of(seats).find_map(|it| it.seen.info)],
            ..ServerSeen::default()
        };
        let lost = self.of(seats).filter(|it| it.is_player && it.is_lost(now_ns));
        // Those for whom there was not even a socket are lost too.
        let seated = count(self.of(seats).filter(|it| it.is_player));
        all.lost = count(lost) + self.place.players.saturating_sub(seated);
        all.refused = self.of(seats).find_map(|it| it.seen.refused);
        for index in &self.seats {
            if let Some(Some(seat)) = seats.get_mut(*index) {
                seat.seen.end(&mut all);
            }
        }
        all
    }
}

fn count<'a>(seats: impl Iterator<Item = &'a Seat>) -> u32 {
    u32::try_from(seats.count()).unwrap_or(u32::MAX)
}

/// Everybody who belongs to a place. Those for whom there is no socket are left out, and are lost.
pub(super) fn seats(place: &Place, streams: &mut impl FnMut() -> Stream) -> Vec<Seat> {
    let mut all = Vec::new();
    let mut add = |client: Box<dyn Client>, from, is_player, stream| {
        if let Ok(socket) = Socket::connect(place.address, from) {
            let seen = PlayerSeen::default();
            all.push(Seat { client, socket, seen, stream, is_player });
        }
    };
    let period_ns = u64::try_from(place.period.as_nanos()).unwrap_or(u64::MAX);
    for index in 0..place.players {
        let mut stream = streams();
        let client: Box<dyn Client> = match place.query {
            Query::Throng => Box::new(reference::Player::new(period_ns)),
            Query::Teeworlds => {
                let own_token = stream.below(u32::MAX - 1) + 1;
                Box::new(teeworlds::Player::new(format!("p{index}"), own_token, period_ns))
            }
            // Nobody plays there who is not the server's own.
            Query::Quake3 | Query::A2s => continue,
        };
        add(client, None, true, stream);
    }
    for from in askers(place) {
        add(Box::new(Probe::new(place.query)), from, false, streams());
    }
    all
}

fn askers(place: &Place) -> Vec<Option<Ipv4Addr>> {
    let is_local = matches!(place.address.ip(), IpAddr::V4(it) if it.is_loopback());
    if place.query == Query::Quake3 && is_local {
        (1..=ASKERS).map(|it| Some(Ipv4Addr::new(127, 0, 1, it))).collect()
    } else {
        vec![None]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ASKERS, Place, Query, seats};
    use crate::measure::arrivals::Stream;

    #[test]
    fn who_belongs_to_a_place() {
        for (query, address, players, askers) in [
            (Query::Throng, "127.0.0.1:9", 12, 1),
            (Query::Teeworlds, "127.0.0.1:9", 12, 1),
            (Query::Quake3, "127.0.0.1:9", 0, usize::from(ASKERS)),
        ] {
            let place = Place {
                name: "a".to_owned(),
                address: address.parse().unwrap(),
                query,
                players: 12,
                period: Duration::from_millis(30),
            };
            let all = seats(&place, &mut || Stream::new(1, 1));
            let playing = all.iter().filter(|it| it.is_player).count();
            assert_eq!((playing, all.len() - playing), (players, askers), "{query:?}");
        }
    }
}
