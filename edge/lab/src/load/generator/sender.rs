//! Doing what a step says over the player's connection: connects if it has to, sends, and records
//! that the operation was begun. Whether the step's time has come, and what follows, is decided in
//! `sessions`; the bytes are `writer`'s.

use std::sync::Arc;

use event::Output;
use wire::websocket::{self, Opcode};
use world::FromClient;

use super::links::{Link, Links, Sink};
use super::player::{Doing, Expecting, Player};
use super::turn::Turn;
use super::writer::Writer;
use super::{Command, Settings};
use crate::load::scenario::mark::{Mark, NUMBER_MASK};
use crate::load::scenario::program::{Program, Step, StepKind, audience_index};
use crate::load::scenario::{Audience, Await, Fleet};

/// What doing a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acted {
    /// It is done.
    Done,
    /// An operation is under way.
    Sent {
        /// So many answers end it.
        answers: u16,
        expecting: Expecting,
    },
    /// The connection that it needs is being made; then it is to be done again.
    Connecting,
    /// It needs a socket, and none is open.
    NoSocket,
}

/// Writes what a player says; gives how many bytes that was.
type Write = fn(&mut Writer, Sink<'_>, &Player) -> usize;

/// The way to the server.
pub(super) struct Sender {
    settings: Arc<Settings>,
    links: Links,
    writer: Writer,
    /// Reused: a packet for the zone.
    packet: Vec<u8>,
}

impl Sender {
    pub(super) fn new(program: Arc<Program>, settings: Arc<Settings>) -> Self {
        Self {
            links: Links::new(settings.clone()),
            writer: Writer::new(settings.clone(), program),
            packet: Vec::new(),
            settings,
        }
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    pub(super) fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Does the step of the player at this place; thinking is none of it.
    pub(super) fn act(
        &mut self,
        turn: &mut Turn<'_>,
        (index, player): (usize, &mut Player),
        step: &Step,
    ) -> Acted {
        match &step.kind {
            StepKind::Think(_) => Acted::Done,
            StepKind::Close => {
                self.say_goodbye(index, player, turn.out);
                Acted::Done
            }
            StepKind::Http(http) => {
                if !self.has_http(turn, index, player) {
                    return Acted::Connecting;
                }
                let to = self.links.to(index, turn.out);
                turn.recorder.sent_bytes(self.writer.request(to, player, http));
                self.began(turn, player, (step, http.pipeline));
                Acted::Sent { answers: http.pipeline, expecting: Expecting::Responses }
            }
            StepKind::Connect { target, extra } => {
                if !self.has_http(turn, index, player) {
                    return Acted::Connecting;
                }
                let to = self.links.to(index, turn.out);
                let (bytes, key) = self.writer.handshake(to, player, (target, extra));
                turn.recorder.sent_bytes(bytes);
                self.links.upgrades(index, key);
                self.began(turn, player, (step, 1));
                Acted::Sent { answers: 1, expecting: Expecting::Upgrade }
            }
            _ if !self.links.is_socket(index) => Acted::NoSocket,
            StepKind::Text { frame, awaited, .. } => {
                player.cid = player.cid.wrapping_add(1);
                let expecting = match awaited {
                    Await::Nothing => None,
                    Await::Echo => Some(Expecting::Frame),
                    Await::Cid => Some(Expecting::Cid(player.cid)),
                };
                let to = self.links.to(index, turn.out);
                turn.recorder.sent_bytes(self.writer.text(to, player, frame));
                self.sent_frame(turn, player, step, expecting)
            }
            StepKind::ZoneJoin => {
                self.ask(turn, (index, player), step, (Writer::zone_join, Expecting::Welcome))
            }
            StepKind::ZoneDatagrams => {
                self.ask(turn, (index, player), step, (Writer::zone_datagrams, Expecting::Way))
            }
            StepKind::ZoneFly(fleet) => self.fly(turn, (index, player), (step, *fleet)),
            StepKind::Binary { bytes: size, awaited } => {
                let (bytes, number) = self.writer.binary(self.links.to(index, turn.out), *size);
                turn.recorder.sent_bytes(bytes);
                let expecting = (*awaited != Await::Nothing).then_some(Expecting::Echo(number));
                self.sent_frame(turn, player, step, expecting)
            }
            StepKind::Match { op_code, size, to } => {
                let mark = self.mark(turn, player, *to);
                let sink = self.links.to(index, turn.out);
                let message = (*op_code, *size, mark);
                turn.recorder.sent_bytes(self.writer.match_message(sink, player, message));
                self.began(turn, player, (step, 1));
                // In the closed loop the own message that comes back is the answer; in the open one
                // nobody waits. Of match messages only the echo is sure to come back.
                let comes_back = *to == Audience::Sender || op_code.is_none();
                if !(self.settings.saturate && comes_back) {
                    return Acted::Done;
                }
                Acted::Sent {
                    answers: 1,
                    expecting: Expecting::Delivery(mark.number & NUMBER_MASK),
                }
            }
        }
    }

    /// Sends a request for the zone, which has a number of its own.
    fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        (index, player): (usize, &mut Player),
        step: &Step,
        (write, expecting): (Write, Expecting),
    ) -> Acted {
        player.cid = player.cid.wrapping_add(1);
        let to = self.links.to(index, turn.out);
        turn.recorder.sent_bytes(write(&mut self.writer, to, player));
        self.sent_frame(turn, player, step, Some(expecting))
    }

    /// Sends a control, and acknowledges snapshots with it. It is answered by the snapshot in which the
    /// ship follows it.
    fn fly(
        &mut self,
        turn: &mut Turn<'_>,
        (index, player): (usize, &mut Player),
        (step, fleet): (&Step, Fleet),
    ) -> Acted {
        let times_ns = (turn.at.now_ns, player.intended_ns);
        let Some(pilot) = &mut player.pilot else { return Acted::NoSocket };
        let (packet, given_up) = pilot.control(fleet, &mut player.random, times_ns);
        if let Some(control) = given_up {
            turn.recorder.unanswered(step.op, control.times_ns(turn.at.now_ns));
        }
        self.packet.clear();
        packet.encode(&mut self.packet);
        let match_id = self.writer.match_id(&player.captured);
        let by_datagram = pilot.way.as_mut().is_some_and(|way| {
            way.probe(turn);
            way.message(turn, match_id, (FromClient::KIND, &self.packet))
        });
        if !by_datagram {
            let to = self.links.to(index, turn.out);
            turn.recorder.sent_bytes(self.writer.zone_controls(to, player, &self.packet));
        }
        self.began(turn, player, (step, 1));
        Acted::Done
    }

    /// Whether the player's connection speaks HTTP; else begins to make one.
    fn has_http(&mut self, turn: &mut Turn<'_>, index: usize, player: &mut Player) -> bool {
        match self.links.link(index) {
            Link::Http { .. } => return true,
            Link::Connecting | Link::Securing => return false,
            Link::Socket(_) | Link::Upgrading { .. } => self.say_goodbye(index, player, turn.out),
            Link::None => {}
        }
        let is_open = !self.settings.saturate;
        player.connect_behind_ns = if is_open { behind_ns(turn, player) } else { 0 };
        player.doing = Doing::Connecting;
        player.sent_ns = turn.at.now_ns;
        self.links.connect(index, player.number, turn.out);
        false
    }

    /// The mark of the player's next match message to this audience, which counts as sent.
    fn mark(&self, turn: &mut Turn<'_>, player: &mut Player, to: Audience) -> Mark {
        let now_ns = turn.at.now_ns;
        let number = player.numbers[audience_index(to)];
        player.numbers[audience_index(to)] = number.wrapping_add(1);
        let sender = self.settings.sender_of(player.number);
        if to == Audience::Sender {
            player.inbox.expect(sender, to, number & NUMBER_MASK);
        }
        turn.recorder.deliveries().sent[audience_index(to)] += 1;
        Mark {
            run: self.settings.run_tag,
            sender,
            number,
            sent_ns: turn.clock.stamp_ns(now_ns),
            late_ns: now_ns.saturating_sub(player.intended_ns),
        }
    }

    fn sent_frame(
        &self,
        turn: &mut Turn<'_>,
        player: &mut Player,
        step: &Step,
        expecting: Option<Expecting>,
    ) -> Acted {
        self.began(turn, player, (step, 1));
        match expecting {
            Some(expecting) => Acted::Sent { answers: 1, expecting },
            None => {
                turn.recorder.done(step.op);
                Acted::Done
            }
        }
    }

    /// So many operations of the step have been begun with one write.
    fn began(&self, turn: &mut Turn<'_>, player: &mut Player, (step, count): (&Step, u16)) {
        player.sent_ns = turn.at.now_ns;
        let behind_ns = (!self.settings.saturate).then(|| {
            // One that had to connect first was begun with that.
            std::mem::take(&mut player.connect_behind_ns) + behind_ns(turn, player)
        });
        turn.recorder.began(turn.at, player, (step.op, count), behind_ns);
    }

    /// Sends a ping of Nakama's protocol.
    pub(super) fn send_ping(&mut self, turn: &mut Turn<'_>, index: usize, cid: u32) {
        let to = self.links.to(index, turn.out);
        turn.recorder.sent_bytes(self.writer.ping(to, cid));
        turn.recorder.began_ping();
    }

    /// Sends a frame that belongs to no step.
    pub(super) fn send_frame(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        (opcode, payload): (Opcode, &[u8]),
    ) {
        let to = self.links.to(index, turn.out);
        turn.recorder.sent_bytes(self.writer.frame(to, opcode, payload));
    }

    /// Closes the player's connection as a client should.
    pub(super) fn say_goodbye(
        &mut self,
        index: usize,
        player: &mut Player,
        out: &mut Output<Command>,
    ) {
        if self.links.is_socket(index) {
            let payload = websocket::close_payload(1_000, "");
            self.writer.frame(self.links.to(index, out), Opcode::Close, &payload);
        }
        self.links.close(index, out);
        self.forget(index, player, out);
    }

    /// Gives up the player's connection, if there is one, and what was to come over it.
    pub(super) fn forget(&mut self, index: usize, player: &mut Player, out: &mut Output<Command>) {
        if self.links.forget(index, out) {
            player.ping = None;
            player.inbox.clear();
            player.pilot = None;
        }
    }
}

/// How late the player's operation is by the generator's own fault.
fn behind_ns(turn: &Turn<'_>, player: &Player) -> u64 {
    let now_ns = turn.at.now_ns;
    let could_ns = player.intended_ns.max(player.ready_ns);
    now_ns.saturating_sub(could_ns) + turn.clock.turn_ns(now_ns)
}
