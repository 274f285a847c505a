//! Pilots of the zone, as one generator has them: what comes for each, and what all of them together know.
//!
//! Messages are envelopes in protobuf, or come by datagram (`ways`); packets in them are read and written by `world`,
//! which is what any client in Rust would use (docs/world/protocol.md).
//!
//! In: messages of sockets, datagrams, moments of controls. Out: what was told, frames' payloads, counts in the record.

mod pilot;
mod trace;
mod ways;

use std::net::SocketAddr;

use wire::nakama::Envelope;
use wire::nakama::realtime::{MatchDataSend, MatchJoin, Message, Rpc};
use world::{FromClient, Place, Snapshot, Welcome};

pub(super) use pilot::{Pilot, UnderWay};
use trace::Trace;
use ways::{RPC_ID, Ways};
pub(crate) use ways::{SOCKETS, Way};

use super::http::Wrong;
use super::player::{Expecting, Player};
use super::turn::Turn;
use crate::load::record::kind::{Cause, Kind};

/// What a message was.
pub(super) enum Told {
    /// The player has a ship.
    Welcome,
    /// The player may send datagrams.
    Granted,
    /// The request under way was refused.
    Refused(Wrong),
    /// It could not be used.
    Bad(Kind),
    /// It is taken note of.
    Noted,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Zone {
    trace: Trace,
    ways: Ways,
    tick_rate_hz: u8,
}

impl Zone {
    /// A message has come for the player at a place, connected to this server, whose controls are timed as `op`.
    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        (index, player, op): (usize, &mut Player, Option<u16>),
        (server, bytes): (SocketAddr, &[u8]),
    ) -> Told {
        let message = match Envelope::decode_protobuf(bytes) {
            Ok(envelope) => envelope.message,
            Err(error) => return bad(format!("no envelope in protobuf: {error}")),
        };
        match message {
            Some(Message::MatchData(data)) if data.op_code == i64::from(Snapshot::KIND) => {
                self.snapshot(turn, (player, op), (&data.data, false))
            }
            Some(Message::MatchData(data)) if data.op_code == i64::from(Welcome::KIND) => {
                self.welcome(player, &data.data)
            }
            Some(Message::MatchData(data)) if data.op_code == i64::from(Place::KIND) => {
                waits(&data.data)
            }
            Some(Message::Rpc(rpc)) if rpc.id == RPC_ID => {
                self.granted((index, player), server, &rpc.payload)
            }
            Some(Message::Error(error)) => {
                let text = format!("error {}: {}", error.code, error.message);
                let kind = Kind::new(Cause::Envelope, text);
                Told::Refused(Wrong::new(kind, error.message))
            }
            // The answer to the join, whose end is the welcome, and news for everybody.
            _ => Told::Noted,
        }
    }

    /// Whose datagram this is, as it says.
    pub(super) fn owner(&self, datagram: &[u8]) -> Option<usize> {
        self.ways.owner(datagram)
    }

    /// A datagram has come for a player, whose controls are timed as `op`.
    pub(super) fn take_datagram(
        &mut self,
        turn: &mut Turn<'_>,
        (player, op): (&mut Player, Option<u16>),
        datagram: &[u8],
    ) -> Told {
        let way = player.pilot.as_mut().and_then(|pilot| pilot.way.as_mut());
        match way.and_then(|way| way.open(turn, datagram)) {
            None => Told::Noted,
            Some(Err(error)) => bad(format!("message by datagram: {error}")),
            Some(Ok(message)) if message.op_code == i32::from(Snapshot::KIND) => {
                self.snapshot(turn, (player, op), (message.data, true))
            }
            Some(Ok(message)) => bad(format!("opcode {} by datagram", message.op_code)),
        }
    }

    fn granted(
        &mut self,
        (index, player): (usize, &mut Player),
        server: SocketAddr,
        grant: &str,
    ) -> Told {
        let Some(pilot) = &mut player.pilot else { return bad("datagrams before the welcome") };
        match Way::new(grant, index, server) {
            Ok(way) => {
                self.ways.begin(index, &way);
                pilot.way = Some(way);
                Told::Granted
            }
            Err(error) => {
                let kind = Kind::of(Cause::Other, "datagrams that cannot be used");
                Told::Refused(Wrong::new(kind, error))
            }
        }
    }

    fn welcome(&mut self, player: &mut Player, bytes: &[u8]) -> Told {
        let welcome = match Welcome::decode(bytes) {
            Ok(welcome) => welcome,
            Err(error) => return bad(format!("welcome: {error}")),
        };
        self.tick_rate_hz = welcome.tick_rate_hz;
        self.trace.joins(welcome.ship);
        player.pilot = Some(Box::new(Pilot::new(&welcome)));
        Told::Welcome
    }

    fn snapshot(
        &mut self,
        turn: &mut Turn<'_>,
        (player, op): (&mut Player, Option<u16>),
        (bytes, by_datagram): (&[u8], bool),
    ) -> Told {
        let Some(pilot) = &mut player.pilot else {
            return bad("snapshot before the welcome");
        };
        let applied = match pilot.take(bytes) {
            Ok(applied) => applied,
            Err(error) => return bad(format!("snapshot: {error}")),
        };
        let speed = pilot.view.tau_permille();
        let record = turn.recorder.zone();
        if applied.is_old {
            record.old += 1;
            return Told::Noted;
        }
        record.snapshots += 1;
        record.by_datagram += u64::from(by_datagram);
        record.snapshot_bytes += bytes.len() as u64;
        record.updates += u64::from(applied.updates);
        record.gone += u64::from(applied.gone);
        record.in_sight += pilot.view.in_sight() as u64;
        record.summaries += pilot.view.summaries().len() as u64;
        record.tick_rate_hz = self.tick_rate_hz;
        record.speed(speed);
        let tick = pilot.view.tick().unwrap_or(0);
        let rates = (speed, self.tick_rate_hz);
        let (late_ns, newer) = self.trace.schedule.came(turn.at.now_ns, tick, rates);
        record.ticks += u64::from(newer);
        self.trace.snapshot(pilot, &mut player.random, (late_ns, record));
        while let Some(control) = pilot.followed() {
            turn.recorder.timed(op, 1, control.times_ns(turn.at.now_ns));
            turn.news.has_delivery = true;
        }
        Told::Noted
    }
}

/// A player that has to wait in line is not ready: a run needs a zone with room for all of its players.
fn waits(bytes: &[u8]) -> Told {
    match Place::decode(bytes) {
        Ok(Place { place, waiting }) => {
            let kind = Kind::of(Cause::Envelope, "has to wait in line (world.players_max)");
            Told::Refused(Wrong::new(kind, format!("number {place} of {waiting}")))
        }
        Err(error) => bad(format!("place: {error}")),
    }
}

fn bad(text: impl Into<String>) -> Told {
    Told::Bad(Kind::new(Cause::Other, text.into()))
}

/// Controls of a player that its ship does not follow yet.
pub(super) fn under_way(player: &Player) -> impl Iterator<Item = UnderWay> {
    player.pilot.iter().flat_map(|pilot| pilot.under_way())
}

/// Where the datagrams go for which a player waits.
pub(super) fn waits_for(player: &Player) -> Option<SocketAddr> {
    let way = player.pilot.as_ref()?.way.as_ref()?;
    player.awaits(Expecting::Way).then(|| way.to())
}

/// Appends the request to join a match.
pub(super) fn write_join(out: &mut Vec<u8>, cid: u32, match_id: &str) {
    let join = MatchJoin { match_id: Some(match_id.to_owned()), ..MatchJoin::default() };
    Envelope::new(cid.to_string(), Message::MatchJoin(join)).encode_protobuf(out);
}

/// Appends the request for datagrams.
pub(super) fn write_ask(out: &mut Vec<u8>, cid: u32) {
    let rpc = Rpc { id: RPC_ID.to_owned(), ..Rpc::default() };
    Envelope::new(cid.to_string(), Message::Rpc(rpc)).encode_protobuf(out);
}

/// Appends a packet for a match, as it has been encoded.
pub(super) fn write_controls(out: &mut Vec<u8>, match_id: &str, packet: &[u8]) {
    let send = MatchDataSend {
        match_id: match_id.to_owned(),
        op_code: i64::from(FromClient::KIND),
        data: packet.to_vec().into(),
        ..MatchDataSend::default()
    };
    Envelope::new("", Message::MatchDataSend(send)).encode_protobuf(out);
}
