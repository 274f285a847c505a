//! The record that is being filled: what is counted and timed of every operation, error and
//! connection, and handing it over once a second.
//!
//! In: what happened, from every part. Out: [`Event`]s to the main thread. Decides nothing.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use super::player::{Doing, Player};
use super::stages::Census;
use super::tls::Secured;
use super::turn::Moment;
use super::{Event, Settings};
use crate::load::record::kind::Kind;
use crate::load::record::zone::ZoneRecord;
use crate::load::record::{DeliveryRecord, ERROR_KINDS_MAX, NO_OP, OpRecord, Record, Stage, short};
use crate::load::scenario::program::Program;

/// Why players are not ready beyond [`ERROR_KINDS_MAX`] reasons.
const OTHER_REASONS: &str = "other reasons";

/// How an operation ended that was not answered as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Wrongly, or with its connection, or by its time-out.
    Failed,
    /// Not before the run did.
    Unended,
}

/// The record that is being filled.
pub(super) struct Recorder {
    settings: Arc<Settings>,
    program: Arc<Program>,
    record: Record,
    events: SyncSender<Event>,
    /// Why players that are not ready failed: what `Player::failure` points to.
    reasons: Vec<String>,
    /// The version of TLS has been recorded.
    knows_protocol: bool,
}

impl Recorder {
    pub(super) fn new(
        settings: Arc<Settings>,
        program: Arc<Program>,
        events: SyncSender<Event>,
    ) -> Self {
        Self {
            record: Record::new(Stage::Ramp, program.ops.len(), 0),
            settings,
            program,
            events,
            reasons: Vec::new(),
            knows_protocol: false,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.record.from_ns = now_ns;
    }

    /// Tells the main thread something that must not be lost; it drains the queue in time.
    pub(super) fn tell(&self, event: Event) {
        // An error means that nobody listens any more: then there is nothing to tell.
        drop(self.events.send(event));
    }

    /// Hands the record over, and goes on with a stage; keeps it when the main thread is behind.
    pub(super) fn hand_over(&mut self, now_ns: u64, stage: Stage, census: &Census) {
        let full = self.take(now_ns, stage, census);
        if let Err(TrySendError::Full(Event::Record(full))) =
            self.events.try_send(Event::Record(full))
        {
            self.record = *full;
        }
    }

    /// Likewise, but waits for the main thread if it has to: a stretch belongs to one stage.
    pub(super) fn hand_over_now(&mut self, now_ns: u64, stage: Stage, census: &Census) {
        let full = self.take(now_ns, stage, census);
        self.tell(Event::Record(full));
    }

    fn take(&mut self, now_ns: u64, stage: Stage, census: &Census) -> Box<Record> {
        self.record.until_ns = now_ns;
        self.present(census.present);
        self.record.ready = census.ready;
        self.record.connections = census.connections;
        self.record.sockets = census.sockets;
        let fresh = Record::new(stage, self.program.ops.len(), now_ns);
        Box::new(std::mem::replace(&mut self.record, fresh))
    }

    /// A turn of the loop has lasted so long.
    pub(super) fn turn(&mut self, turn_ns: u64) {
        self.record.own.turn(turn_ns);
    }

    /// So many players are there.
    pub(super) fn present(&mut self, players: u32) {
        self.record.players = self.record.players.max(players);
    }

    /// A player may not come.
    pub(super) fn turned_away(&mut self) {
        self.record.turned_away += 1;
    }

    /// Counts an error and keeps the first of its kind as the example.
    pub(super) fn error(&mut self, op: u16, kind: &Kind, example: impl FnOnce() -> String) {
        self.record.error(op, kind, example);
    }

    /// Counts several errors that belong to no operation.
    pub(super) fn errors(&mut self, kind: &Kind, count: u32) {
        self.record.count_errors(NO_OP, kind, u64::from(count), String::new);
    }

    /// So many bytes, before they are sealed, were sent.
    pub(super) fn sent_bytes(&mut self, bytes: usize) {
        self.record.bytes_out += bytes as u64;
    }

    /// So many bytes have come.
    pub(super) fn received_bytes(&mut self, bytes: usize) {
        self.record.bytes_in += bytes as u64;
    }

    /// A data frame has come.
    pub(super) fn received_frame(&mut self) {
        self.record.frames_in += 1;
    }

    pub(super) fn deliveries(&mut self) -> &mut DeliveryRecord {
        &mut self.record.deliveries
    }

    pub(super) fn zone(&mut self) -> &mut ZoneRecord {
        &mut self.record.zone
    }

    /// An operation has not ended: it takes at least so long, service and response.
    pub(super) fn unanswered(&mut self, op: Option<u16>, (service_ns, response_ns): (u64, u64)) {
        self.not_well((op, 1), Ending::Unended, (Some(service_ns), Some(response_ns)));
    }

    /// TCP stood after so long.
    pub(super) fn connected(&mut self, took_ns: u64) {
        self.record.connecting.connect.record(took_ns, 1);
    }

    /// TLS stood after so long.
    pub(super) fn secured(&mut self, took_ns: u64, secured: &Secured<'_>) {
        let connecting = &mut self.record.connecting;
        connecting.handshake.record(took_ns, 1);
        if secured.is_resumed() {
            connecting.resumed += 1;
        } else {
            connecting.full += 1;
        }
        if !std::mem::replace(&mut self.knows_protocol, true) {
            connecting.protocol = secured.protocol();
        }
    }

    /// What the first answer calls its server.
    pub(super) fn server(&mut self, name: String) {
        self.record.server = name;
    }

    /// So many operations were begun; `behind_ns` is how late by the generator's own fault, none in
    /// the closed loop, where nothing is due at any time.
    pub(super) fn began(
        &mut self,
        at: Moment,
        player: &Player,
        (op, count): (Option<u16>, u16),
        behind_ns: Option<u64>,
    ) {
        let late_ns = at.now_ns.saturating_sub(player.intended_ns);
        if let Some(op) = self.op(op) {
            op.started += u64::from(count);
            if behind_ns.is_some() {
                op.lateness.record(late_ns, u64::from(count));
            }
        }
        if let Some(behind_ns) = behind_ns {
            self.record.own.behind.record(behind_ns, 1);
        }
    }

    /// An operation was begun that is timed elsewhere.
    pub(super) fn began_ping(&mut self) {
        if let Some(op) = self.op(self.program.ping_op) {
            op.started += 1;
        }
    }

    /// An operation that nobody answers is done when it is sent.
    pub(super) fn done(&mut self, op: Option<u16>) {
        if let Some(op) = self.op(op) {
            op.done += 1;
        }
    }

    /// So many good answers have come to the operation under way.
    pub(super) fn answered(
        &mut self,
        at: Moment,
        player: &Player,
        (op, count): (Option<u16>, u16),
    ) {
        let service_ns = at.now_ns.saturating_sub(player.sent_ns);
        let response_ns = at.now_ns.saturating_sub(player.intended_ns);
        self.timed(op, u64::from(count), (service_ns, response_ns));
    }

    /// A ping was answered.
    pub(super) fn answered_ping(&mut self, service_ns: u64) {
        if let Some(op) = self.op(self.program.ping_op) {
            op.done += 1;
            op.service.record(service_ns, 1);
        }
    }

    /// A good end of so many operations, with its service and response times.
    pub(super) fn timed(
        &mut self,
        op: Option<u16>,
        count: u64,
        (service_ns, response_ns): (u64, u64),
    ) {
        let is_open = !self.settings.saturate;
        let Some(op) = self.op(op) else { return };
        op.done += count;
        op.service.record(service_ns, count);
        if is_open {
            op.response.record(response_ns, count);
        }
    }

    /// So many operations were refused in a way that the scenario expects.
    pub(super) fn retried(&mut self, op: Option<u16>, count: u16) {
        if let Some(op) = self.op(op) {
            op.retried += u64::from(count);
        }
    }

    /// Counts how so many operations of the player ended that were not answered as they should be,
    /// and records how long they have taken, so that a server cannot look fast by failing. Of one
    /// that was never sent there is only the time since it was due; of one that is not due yet, none.
    pub(super) fn ended(
        &mut self,
        at: Moment,
        player: &Player,
        (op, count): (Option<u16>, u64),
        end: Ending,
    ) {
        let is_sent = player.doing == Doing::Busy;
        let service_ns = is_sent.then(|| at.now_ns.saturating_sub(player.sent_ns));
        let is_due = is_sent || (player.is_intended && player.intended_ns <= at.now_ns);
        let response_ns = is_due.then(|| at.now_ns.saturating_sub(player.intended_ns));
        self.not_well((op, count), end, (service_ns, response_ns));
    }

    /// So many operations have ended so, after service and response times as far as there are any.
    fn not_well(
        &mut self,
        (op, count): (Option<u16>, u64),
        end: Ending,
        (service_ns, response_ns): (Option<u64>, Option<u64>),
    ) {
        let is_open = !self.settings.saturate;
        let Some(op) = self.op(op).filter(|_| count > 0) else { return };
        let (counter, part) = match end {
            Ending::Failed => (&mut op.failed, &mut op.failures),
            Ending::Unended => (&mut op.unanswered, &mut op.unended),
        };
        *counter += count;
        if let Some(service_ns) = service_ns {
            op.service.record(service_ns, count);
            part.service.record(service_ns, count);
        }
        if let Some(response_ns) = response_ns.filter(|_| is_open) {
            op.response.record(response_ns, count);
            part.response.record(response_ns, count);
        }
    }

    /// So many operations were due in the counted time and not begun.
    pub(super) fn missed(&mut self, op: Option<u16>, count: u64) {
        if let Some(op) = self.op(op) {
            op.missed += count;
        }
    }

    /// So many of those were late by so much when it ended.
    pub(super) fn missed_by(&mut self, op: Option<u16>, count: u64, late_ns: u64) {
        if let Some(op) = self.op(op) {
            op.response.record(late_ns, count);
            op.unended.response.record(late_ns, count);
            op.lateness.record(late_ns, count);
        }
    }

    /// Keeps a reason for which a player is not ready, for the word at the end of the ramp; returns
    /// its place in the list, from 1 on.
    pub(super) fn reason(&mut self, op: u16, kind: &str) -> u16 {
        let mut reason = format!("{}: {}", self.name(op), short(kind));
        if self.reasons.len() + 1 >= ERROR_KINDS_MAX {
            let is_known = self.reasons.contains(&reason);
            reason = if is_known { reason } else { OTHER_REASONS.to_owned() };
        }
        let known = self.reasons.iter().position(|it| *it == reason);
        let place = known.unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        });
        u16::try_from(place + 1).unwrap_or(0)
    }

    /// Records why those who are not ready are not.
    pub(super) fn lacking(&mut self, players: &[Player], not_come: u32) {
        if not_come > 0 {
            let reason = "had not come: those before were not ready".to_owned();
            self.record.lacking.insert(reason, u64::from(not_come));
        }
        for player in players.iter().filter(|it| !it.is_ready && it.doing != Doing::Absent) {
            let failure = usize::from(player.failure).checked_sub(1);
            let reason = failure.and_then(|place| self.reasons.get(place));
            let reason = reason.map_or("still under way", |reason| reason);
            *self.record.lacking.entry(reason.to_owned()).or_default() += 1;
        }
    }

    /// The name of an operation.
    pub(super) fn name(&self, op: u16) -> &str {
        self.program.ops.get(usize::from(op)).map_or("-", |op| &op.name)
    }

    fn op(&mut self, op: Option<u16>) -> Option<&mut OpRecord> {
        self.record.op(op?)
    }
}
