//! Pilots of the zone, as one generator has them: what comes for each, and what all of them together know.
//!
//! Messages are envelopes in protobuf; packets in them are read and written by `world`, which is what any
//! client in Rust would use (docs/world/protocol.md).
//!
//! In: messages of sockets, moments of controls. Out: what was told, frames' payloads, counts in the record.

mod pilot;
mod trace;

use wire::nakama::Envelope;
use wire::nakama::realtime::{MatchDataSend, MatchJoin, Message};
use world::{FromClient, Place, Snapshot, Welcome};

pub(super) use pilot::Pilot;
use trace::Trace;

use super::http::Wrong;
use super::player::Player;
use super::turn::Turn;
use crate::load::record::kind::{Cause, Kind};

/// What a message was.
pub(super) enum Told {
    /// The player has a ship.
    Welcome,
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
    tick_rate_hz: u8,
}

impl Zone {
    /// A message has come for a player, whose controls are timed as `op`.
    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        (player, op): (&mut Player, Option<u16>),
        bytes: &[u8],
    ) -> Told {
        let message = match Envelope::decode_protobuf(bytes) {
            Ok(envelope) => envelope.message,
            Err(error) => return bad(format!("no envelope in protobuf: {error}")),
        };
        match message {
            Some(Message::MatchData(data)) if data.op_code == i64::from(Snapshot::KIND) => {
                self.snapshot(turn, (player, op), &data.data)
            }
            Some(Message::MatchData(data)) if data.op_code == i64::from(Welcome::KIND) => {
                self.welcome(player, &data.data)
            }
            Some(Message::MatchData(data)) if data.op_code == i64::from(Place::KIND) => {
                waits(&data.data)
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
        bytes: &[u8],
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
            let since = |ns: u64| turn.at.now_ns.saturating_sub(ns);
            let times_ns = (since(control.sent_ns), since(control.intended_ns));
            turn.recorder.timed(op, 1, times_ns);
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
pub(super) fn under_way(player: &Player) -> u64 {
    player.pilot.as_ref().map_or(0, |pilot| pilot.under_way() as u64)
}

/// Appends the request to join a match.
pub(super) fn write_join(out: &mut Vec<u8>, cid: u32, match_id: &str) {
    let join = MatchJoin { match_id: Some(match_id.to_owned()), ..MatchJoin::default() };
    Envelope::new(cid.to_string(), Message::MatchJoin(join)).encode_protobuf(out);
}

/// Appends a packet for a match.
pub(super) fn write_controls(out: &mut Vec<u8>, match_id: &str, packet: &FromClient) {
    let mut data = Vec::new();
    packet.encode(&mut data);
    let send = MatchDataSend {
        match_id: match_id.to_owned(),
        op_code: i64::from(FromClient::KIND),
        data: data.into(),
        ..MatchDataSend::default()
    };
    Envelope::new("", Message::MatchDataSend(send)).encode_protobuf(out);
}
