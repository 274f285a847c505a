//! Players doing their sessions: what each does next, and what the end of an operation means for it.
//!
//! In: a player whose time has come, an answer, a failure, a connection. Out: steps for the
//! [`Sender`], timers, and counts in the record. Does not read bytes, and does not know when stages
//! end.

use std::ops::Range;
use std::sync::Arc;

use event::{CloseReason, ConnId, ConnectFailure, Datagrams, Output};
use wire::websocket::Opcode;

use super::beats::Beats;
use super::deliveries::{self, Senders};
use super::failure::{self, After, Lost, RESTART_NS};
use super::http::{Captured, Wrong};
use super::links::Links;
use super::player::{Doing, Expecting, Player};
use super::players::Players;
use super::recorder::{Ending, Recorder};
use super::rows::Rows;
use super::sender::{Acted, Sender};
use super::stages::Census;
use super::turn::{Moment, Turn};
use super::zone::{self, Told, Way, Zone};
use super::{CONNECTS_MAX, Command, Event, Settings, missed};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{NO_OP, STOPPED, Stage, tls};
use crate::load::scenario::mark::Mark;
use crate::load::scenario::program::{Program, SessionPlan, Step, StepKind, audience_index};
use crate::load::scenario::{Audience, Beat};
use crate::measure::arrivals::Stream;

/// Steps that a player does at once before the others have their turn.
const STEPS_AT_ONCE_MAX: usize = 16;
/// How long a player waits before it tries again what was refused: between these.
const RETRY_NS_MIN: u64 = 50_000_000;
const RETRY_NS_MAX: u64 = 250_000_000;
/// How often in a row a player tries again; then the refusal is a failure.
const RETRIES_MAX: u8 = 100;
/// A player that begins again while others come looks at the door this often.
const DOOR_NS: u64 = 50_000_000;

/// Whether the next step can be done now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Wait,
}

/// A player that comes.
pub(super) struct Newcomer {
    /// In the run.
    pub(super) number: u32,
    pub(super) session: u16,
    /// Of each data file.
    pub(super) rows: Box<[u32]>,
    /// When it intended to come.
    pub(super) due_ns: u64,
}

/// All players and what they do.
pub(super) struct Sessions {
    program: Arc<Program>,
    settings: Arc<Settings>,
    players: Players,
    sender: Sender,
    beats: Beats,
    rows: Rows,
    zone: Zone,
}

impl Sessions {
    pub(super) fn new(program: Arc<Program>, settings: Arc<Settings>) -> Self {
        Self {
            players: Players::default(),
            sender: Sender::new(program.clone(), settings.clone()),
            beats: Beats::new(settings.clone(), &program),
            rows: Rows::new(settings.clone(), program.clone()),
            zone: Zone::default(),
            program,
            settings,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.beats.begin(now_ns);
    }

    pub(super) fn player(&self, index: usize) -> &Player {
        &self.players[index]
    }

    pub(super) fn players(&self) -> &Players {
        &self.players
    }

    pub(super) fn links(&self) -> &Links {
        self.sender.links()
    }

    pub(super) fn links_mut(&mut self) -> &mut Links {
        self.sender.links_mut()
    }

    /// How many players and connections there are of each kind.
    pub(super) fn census(&self) -> Census {
        Census {
            connections: self.sender.links().connections(),
            sockets: self.sender.links().sockets(),
            ..self.players.census()
        }
    }

    /// Whether as many players prepare themselves as may at once when there is no ramp.
    pub(super) fn is_door_full(&self) -> bool {
        self.sender.links().connecting() >= CONNECTS_MAX
            || (self.settings.ramp_ns == 0 && self.players.preparing() >= CONNECTS_MAX)
    }

    /// Rows of data files for the player that comes next; none, with an error, if a file has none
    /// left for it.
    pub(super) fn rows_for(
        &mut self,
        (order, number): (u32, u32),
        recorder: &mut Recorder,
    ) -> Option<Box<[u32]>> {
        let rows = self.rows.first(order, number);
        let no_row = |file| {
            let text = format!("no row left in `{file}`: a player did not come");
            recorder.error(NO_OP, &Kind::new(Cause::NoRow, text), String::new);
        };
        rows.map_err(no_row).ok()
    }

    /// A player comes and begins its session.
    pub(super) fn arrive(&mut self, turn: &mut Turn<'_>, newcomer: Newcomer) {
        let Newcomer { number, session, rows, due_ns } = newcomer;
        let index = self.players.arrives(Player {
            number,
            session,
            rows,
            doing: Doing::Waiting,
            is_preparing: true,
            intended_ns: due_ns,
            // A loop without a prelude begins at its beat, not at the arrival.
            is_intended: self.program.sessions[usize::from(session)].loop_start > 0,
            random: Stream::new(self.settings.seed, u64::from(number)),
            captured: vec![Box::from(""); self.program.captured_count].into_boxed_slice(),
            ..Player::default()
        });
        self.sender.links_mut().arrives(index);
        turn.recorder.present(self.players.present());
        self.advance(turn, index);
    }

    /// Players whose time has come go on, until all have or one of them ends the run.
    pub(super) fn wake(&mut self, turn: &mut Turn<'_>) {
        let now_ns = turn.at.now_ns;
        while !turn.news.is_stopping
            && let Some(index) = self.players.pop_due(now_ns)
        {
            if self.players[index].doing != Doing::Waiting {
                continue;
            }
            if self.players.enters_door(index, self.is_door_full()) {
                self.advance(turn, index);
            } else {
                self.players.wait_until(now_ns, index, now_ns + DOOR_NS);
            }
        }
    }

    /// Goes on with the player's session until it has to wait for something.
    pub(super) fn advance(&mut self, turn: &mut Turn<'_>, index: usize) {
        let program = self.program.clone();
        for _ in 0..STEPS_AT_ONCE_MAX {
            if self.next(turn, index, &program) == Next::Wait {
                return;
            }
        }
        self.players.wait_until(turn.at.now_ns, index, turn.at.now_ns);
    }

    fn next(&mut self, turn: &mut Turn<'_>, index: usize, program: &Program) -> Next {
        let at = turn.at;
        let player = &mut self.players[index];
        let plan = player.plan(program);
        let has_loop = plan.loop_end > plan.loop_start;
        if std::mem::take(&mut player.is_thinking) {
            player.step += 1;
        }
        if at.is_over() && !self.settings.has_phases() {
            // Nothing new begins. Stays until the run's end closes all connections.
            return Next::Wait;
        }
        if has_loop && player.step == plan.loop_end && player.goes_round_again(at, plan) {
            player.step = plan.loop_start;
        }
        let mut in_loop = has_loop && player.is_in_loop(plan);
        if in_loop && at.is_over() {
            // Its phase is over: what comes after the loop, and then it leaves.
            player.step = plan.loop_end;
            player.is_intended = false;
            in_loop = false;
        }
        if in_loop && player.step == plan.loop_start && !player.is_intended {
            self.players.becomes_ready(at.now_ns, index);
            if self.begin_round(at.now_ns, index, plan) {
                return Next::GoOn;
            }
        }
        let Some(step) = self.players[index].step_of(program) else {
            return self.end_of_session(turn, index, has_loop);
        };
        let due_ns = self.intend(at, index, (plan, in_loop));
        if due_ns > at.now_ns {
            self.players.wait_until(at.now_ns, index, due_ns);
            return Next::Wait;
        }
        self.act(turn, index, step)
    }

    /// Counts a round; `true` if `first` has to be done again before.
    fn begin_round(&mut self, now_ns: u64, index: usize, plan: &SessionPlan) -> bool {
        let player = &mut self.players[index];
        if player.loop_ns == 0 {
            player.loop_ns = now_ns;
            player.renewed_ns = now_ns;
        }
        let is_stale = plan.loop_start > 0
            && plan.renew_every_ns.is_some_and(|every| now_ns - player.renewed_ns >= every);
        if is_stale {
            player.renewed_ns = now_ns;
            player.step = 0;
            return true;
        }
        player.rounds += 1;
        player.round = player.round.wrapping_add(1);
        // The row that it came with is that of its first round too.
        if player.round > 1 && !player.rows.is_empty() {
            self.rows.renew(player);
        }
        false
    }

    fn end_of_session(&mut self, turn: &mut Turn<'_>, index: usize, has_loop: bool) -> Next {
        if has_loop || self.settings.has_phases() {
            self.leave(turn, index);
        } else {
            // Nothing more to do but to stay.
            self.players.becomes_ready(turn.at.now_ns, index);
        }
        Next::Wait
    }

    /// The player leaves for good.
    fn leave(&mut self, turn: &mut Turn<'_>, index: usize) {
        self.sender.forget(index, &mut self.players[index], turn.out);
        self.players.leaves(index, self.settings.has_phases());
    }

    /// Takes the intended time of the step, once.
    fn intend(&mut self, at: Moment, index: usize, (plan, in_loop): (&SessionPlan, bool)) -> u64 {
        let player = &mut self.players[index];
        if player.is_intended {
            return player.intended_ns;
        }
        // Thinking is no operation that anybody could be late with.
        let has_op = plan.steps.get(usize::from(player.step)).is_some_and(|it| it.op.is_some());
        let is_beat = in_loop
            && match plan.beat {
                Beat::Step => has_op,
                Beat::Round => player.step == plan.loop_start,
            };
        let paced = if is_beat { self.beats.interval_ns(at, plan) } else { None };
        let due_ns = match paced {
            Some(interval_ns) => self.beats.take(at, player, (plan.process, interval_ns)),
            None if player.ready_ns != 0 => player.ready_ns,
            None => at.now_ns,
        };
        player.intended_ns = due_ns;
        player.is_intended = true;
        due_ns
    }

    fn act(&mut self, turn: &mut Turn<'_>, index: usize, step: &Step) -> Next {
        let now_ns = turn.at.now_ns;
        if let StepKind::Think(think) = step.kind {
            let due_ns = self.players[index].think(think);
            self.players.wait_until(now_ns, index, due_ns);
            return Next::Wait;
        }
        match self.sender.act(turn, (index, &mut self.players[index]), step) {
            Acted::Done => {
                self.players[index].go_on(now_ns);
                Next::GoOn
            }
            Acted::Sent { answers, expecting } => {
                self.players.begin(index, answers);
                self.players[index].expecting = expecting;
                Next::Wait
            }
            Acted::Connecting => Next::Wait,
            Acted::NoSocket => {
                let kind = Kind::of(Cause::Other, "no socket is open");
                self.fail(turn, index, &kind, String::new);
                Next::Wait
            }
        }
    }

    /// The operation under way has been answered well.
    pub(super) fn done(&mut self, turn: &mut Turn<'_>, index: usize) {
        if self.answered(turn, index, 1) {
            self.advance(turn, index);
        }
    }

    /// So many good answers have come; returns whether the operation is done.
    pub(super) fn answered(&mut self, turn: &mut Turn<'_>, index: usize, count: u16) -> bool {
        let player = &mut self.players[index];
        let step = player.step_of(&self.program);
        turn.recorder.answered(turn.at, player, (step.and_then(|step| step.op), count));
        player.left = player.left.saturating_sub(count);
        if player.left > 0 {
            return false;
        }
        if step.is_some_and(|step| step.retry.is_some()) {
            player.retries = 0;
        }
        self.players.settle(index);
        self.players[index].go_on(turn.at.now_ns);
        true
    }

    /// Keeps what an answer gave.
    pub(super) fn keep(&mut self, index: usize, captured: Captured) {
        for (place, value) in captured {
            if let Some(slot) = self.players[index].captured.get_mut(usize::from(place)) {
                *slot = value;
            }
        }
    }

    /// An answer is an error: tries again if the step says so of it, else it has failed.
    pub(super) fn refused(&mut self, turn: &mut Turn<'_>, index: usize, wrong: Wrong) {
        let player = &self.players[index];
        let in_loop = player.is_in_loop(player.plan(&self.program));
        // Nothing new is begun in the loop when the counted time is over.
        let may_again = player.doing == Doing::Busy
            && player.retries < RETRIES_MAX
            && !(in_loop && turn.at.is_over());
        let step = player.step_of(&self.program);
        match step.and_then(|step| Some((step.op, step.retry.as_ref()?.from))) {
            Some((op, from)) if wrong.is_retry && may_again => {
                turn.recorder.retried(op, player.left.max(1));
                self.try_again(turn.at.now_ns, index, from);
            }
            _ => self.fail(turn, index, &wrong.kind, || wrong.example),
        }
    }

    /// Goes back to step `from` after a short random wait, so that players that raced for one
    /// thing do not race again at once.
    fn try_again(&mut self, now_ns: u64, index: usize, from: u16) {
        self.players.settle(index);
        let player = &mut self.players[index];
        let due_ns = now_ns + player.random.between_ns(RETRY_NS_MIN, RETRY_NS_MAX);
        player.retries += 1;
        // The same step again is still the same intention.
        player.is_intended = player.step == from;
        player.step = from;
        player.ready_ns = due_ns;
        self.players.wait_until(now_ns, index, due_ns);
    }

    /// The operation under way, or the one that was about to begin, has failed: counts it and does
    /// what the step says.
    pub(super) fn fail(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        kind: &Kind,
        example: impl FnOnce() -> String,
    ) {
        let at = turn.at;
        let player = &mut self.players[index];
        let plan = player.plan(&self.program);
        let step = player.step_of(&self.program);
        let op = step.and_then(|step| step.op);
        let was_sent = player.doing == Doing::Busy;
        let failed = match was_sent {
            true => u64::from(player.left.max(1)),
            // What was due in the loop when the counted time ended has been counted as missed.
            false if player.is_in_loop(plan) && at.is_over() => 0,
            false => step.map_or(1, |step| u64::from(step.ops_at_once())),
        };
        turn.recorder.ended(at, player, (op, failed), Ending::Failed);
        let op = op.unwrap_or(NO_OP);
        turn.recorder.error(op, kind, example);
        if !player.is_ready && at.stage == Stage::Ramp {
            player.failure = turn.recorder.reason(op, &kind.text);
        }
        let after = failure::after(plan, player, was_sent, self.sender.links().link(index));
        self.players.settle(index);
        match after {
            After::Stop => self.stop(turn, (op, kind)),
            After::Leave => self.leave(turn, index),
            After::GoOn { wait_ns } => {
                let player = &mut self.players[index];
                player.step += 1;
                player.ready_ns = at.now_ns + wait_ns;
                self.players.wait_until(at.now_ns, index, at.now_ns + wait_ns);
            }
            After::Restart => self.restart(turn, index),
        }
    }

    /// The run is to end because of this failure.
    fn stop(&mut self, turn: &mut Turn<'_>, (op, kind): (u16, &Kind)) {
        if !turn.at.is_over() && !turn.news.is_stopping {
            let example = format!("{}: {}", turn.recorder.name(op), kind.text);
            turn.recorder.error(NO_OP, &STOPPED, || example);
        }
        turn.recorder.tell(Event::Stopped);
        turn.news.is_stopping = true;
    }

    /// Begins the session again, a while later.
    fn restart(&mut self, turn: &mut Turn<'_>, index: usize) {
        let now_ns = turn.at.now_ns;
        self.players.settle(index);
        self.drop_link(turn, index);
        self.players[index].begin_again(now_ns + RESTART_NS);
        self.players.leave_door(index);
        self.players.wait_until(now_ns, index, now_ns + RESTART_NS);
    }

    /// TCP stands, for the attempt with this token.
    pub(super) fn connected(&mut self, turn: &mut Turn<'_>, conn: ConnId, token: u64) {
        let Some(index) = self.sender.links().waits_for(token) else {
            turn.out.abort(conn);
            return;
        };
        self.sender.links_mut().connected(index, conn);
        let player = &mut self.players[index];
        turn.recorder.connected(turn.at.now_ns.saturating_sub(player.sent_ns));
        match self.sender.links_mut().secure(index, player.number, turn.out) {
            // How long the handshake may take, and takes, counts from here.
            Ok(true) => player.sent_ns = turn.at.now_ns,
            Ok(false) => self.usable(turn, index),
            Err(error) => {
                let (kind, example) = tls::of(&error, &[]);
                self.drop_link(turn, index);
                self.fail(turn, index, &kind, || example);
            }
        }
    }

    /// TLS stands.
    pub(super) fn secured(&mut self, turn: &mut Turn<'_>, index: usize) {
        let took_ns = turn.at.now_ns.saturating_sub(self.players[index].sent_ns);
        let Some(secured) = self.sender.links().secured(index) else { return };
        turn.recorder.secured(took_ns, &secured);
        self.usable(turn, index);
    }

    /// The player's connection can be used.
    fn usable(&mut self, turn: &mut Turn<'_>, index: usize) {
        self.sender.links_mut().speaks_http(index);
        let player = &mut self.players[index];
        // The time that connecting took was not the generator's.
        player.ready_ns = turn.at.now_ns;
        player.doing = Doing::Waiting;
        self.advance(turn, index);
    }

    /// The attempt with this token has failed.
    pub(super) fn connect_failed(
        &mut self,
        turn: &mut Turn<'_>,
        token: u64,
        failure: ConnectFailure,
    ) {
        if let Some(index) = self.sender.links().waits_for(token) {
            self.sender.links_mut().connect_failed(index);
            self.fail(turn, index, &failure::to_connect(failure), String::new);
        }
    }

    /// The player's connection has become a socket.
    pub(super) fn has_socket(&mut self, now_ns: u64, index: usize) {
        self.sender.links_mut().speaks_websocket(index);
        let player = &mut self.players[index];
        // Each player has its own moment for pings, so that they do not come all at once.
        player.next_ping_ns =
            player.plan(&self.program).ping_every_ns.map_or(u64::MAX, |every_ns| now_ns + every_ns);
    }

    /// A connection was closed.
    pub(super) fn closed(&mut self, turn: &mut Turn<'_>, conn: ConnId, reason: CloseReason) {
        if let Some(index) = self.sender.links().owner(conn) {
            self.lost(turn, index, (failure::closed(reason), String::new()));
        }
    }

    /// The connection of a player is gone without its wish.
    pub(super) fn lost(&mut self, turn: &mut Turn<'_>, index: usize, why: (Kind, String)) {
        let lost = failure::lost(why, self.sender.links().link(index), self.players[index].doing);
        self.drop_link(turn, index);
        match lost {
            Lost::Operation(kind, example) => self.fail(turn, index, &kind, || example),
            Lost::Nobody(kind, example) => turn.recorder.error(NO_OP, &kind, || example),
        }
    }

    /// Gives up the player's connection, if there is one, because something went wrong: what was
    /// on its way over a socket is cut off.
    pub(super) fn drop_link(&mut self, turn: &mut Turn<'_>, index: usize) {
        if self.sender.links().is_socket(index) {
            turn.recorder.deliveries().cut_off += self.senders().under_way_to(index, |_| true);
        }
        self.sender.forget(index, &mut self.players[index], turn.out);
    }

    /// Answers a ping of the server's.
    pub(super) fn send_pong(&mut self, turn: &mut Turn<'_>, index: usize, payload: &[u8]) {
        self.sender.send_frame(turn, index, (Opcode::Pong, payload));
    }

    /// Looks at some players: at time-outs, and sends pings that are due.
    pub(super) fn look_at(&mut self, turn: &mut Turn<'_>, indexes: Range<usize>) {
        let at = turn.at;
        for index in indexes {
            let player = &self.players[index];
            let waits = matches!(player.doing, Doing::Busy | Doing::Connecting);
            if waits && at.now_ns.saturating_sub(player.sent_ns) > self.settings.timeout_ns {
                let seconds = self.settings.timeout_ns / 1_000_000_000;
                let kind = failure::timed_out(player.doing, self.sender.links().link(index));
                let example = match zone::waits_for(player) {
                    Some(to) => format!("no datagram from {to} within {seconds} s"),
                    None => format!("no answer within {seconds} s"),
                };
                self.drop_link(turn, index);
                self.fail(turn, index, &kind, || example);
            } else if !at.is_over() && self.sender.links().is_socket(index) {
                self.probe(turn, index);
                self.ping(turn, index);
            }
        }
    }

    /// Sends a ping if one is due.
    fn ping(&mut self, turn: &mut Turn<'_>, index: usize) {
        let now_ns = turn.at.now_ns;
        let player = &mut self.players[index];
        if player.next_ping_ns > now_ns {
            return;
        }
        if player.ping.is_some() {
            self.drop_link(turn, index);
            let kind = Kind::of(Cause::TimeOut, "ping unanswered");
            return self.fail(turn, index, &kind, String::new);
        }
        let every_ns = player.plan(&self.program).ping_every_ns.unwrap_or(u64::MAX);
        player.next_ping_ns = player.next_ping_ns.saturating_add(every_ns).max(now_ns);
        player.cid = player.cid.wrapping_add(1);
        player.ping = Some((player.cid, now_ns));
        self.sender.send_ping(turn, index, player.cid);
    }

    /// The ping under way has been answered.
    pub(super) fn pong(&mut self, turn: &mut Turn<'_>, index: usize) {
        if let Some((_, sent_ns)) = self.players[index].ping.take() {
            turn.recorder.answered_ping(turn.at.now_ns.saturating_sub(sent_ns));
        }
    }

    /// A match message has come, with this mark if it has one that is the scenario's.
    pub(super) fn delivered(
        &mut self,
        turn: &mut Turn<'_>,
        index: usize,
        mark: Option<(Mark, Audience)>,
    ) {
        let player = &mut self.players[index];
        let is_ours =
            |(mark, to): &(Mark, Audience)| deliveries::is_ours(&self.settings, player, mark, *to);
        let Some((mark, to)) = mark.filter(is_ours) else {
            turn.recorder.deliveries().foreign += 1;
            return;
        };
        turn.news.has_delivery = true;
        if !deliveries::take(player, &mark, to, turn.recorder.deliveries()) {
            return;
        }
        let is_mine = mark.sender == self.settings.sender_of(player.number);
        let is_answer = to == Audience::Sender || (is_mine && self.program.publishes());
        if is_answer && player.awaits(Expecting::Delivery(mark.number)) {
            return self.done(turn, index);
        }
        let service_ns = mark.age_ns(turn.clock.stamp_ns(turn.at.now_ns));
        let times_ns = (service_ns, service_ns + mark.late_ns);
        turn.recorder.timed(self.program.match_ops[audience_index(to)], 1, times_ns);
    }

    /// A message of the zone, or an answer on the way into it, has come.
    pub(super) fn zone_message(&mut self, turn: &mut Turn<'_>, index: usize, bytes: &[u8]) {
        let player = &mut self.players[index];
        let awaits_ship = player.awaits(Expecting::Welcome);
        let awaits = awaits_ship || player.awaits(Expecting::Way);
        let server = self.settings.node(player.number).addr;
        let what = (index, player, self.program.fly_op);
        match self.zone.take(turn, what, (server, bytes)) {
            Told::Welcome if awaits_ship => self.done(turn, index),
            Told::Granted => self.probe(turn, index),
            Told::Refused(wrong) if awaits => self.refused(turn, index, wrong),
            Told::Refused(Wrong { kind, example, .. }) => {
                turn.recorder.error(NO_OP, &kind, || example);
            }
            Told::Bad(kind) => turn.recorder.error(NO_OP, &kind, String::new),
            Told::Welcome | Told::Noted => {}
        }
    }

    /// Datagrams have come.
    pub(super) fn datagrams(&mut self, turn: &mut Turn<'_>, datagrams: Datagrams<'_>) {
        for datagram in datagrams {
            turn.recorder.received_bytes(datagram.len());
            let Some(index) = self.zone.owner(datagram) else { continue };
            let player = &mut self.players[index];
            let told = self.zone.take_datagram(turn, (player, self.program.fly_op), datagram);
            if let Told::Bad(kind) = told {
                turn.recorder.error(NO_OP, &kind, String::new);
            }
            let player = &self.players[index];
            let way = player.pilot.as_ref().and_then(|pilot| pilot.way.as_ref());
            if way.is_some_and(Way::is_open) && player.awaits(Expecting::Way) {
                self.done(turn, index);
            }
        }
    }

    /// Sends what a pilot's datagrams need without a control, if it is time to.
    fn probe(&mut self, turn: &mut Turn<'_>, index: usize) {
        let pilot = self.players[index].pilot.as_mut();
        if let Some(way) = pilot.and_then(|pilot| pilot.way.as_mut()) {
            way.probe(turn);
        }
    }

    /// Who sends match messages to whom.
    fn senders(&self) -> Senders<'_> {
        Senders { settings: &self.settings, program: &self.program, players: &self.players }
    }

    /// The counted time is over: counts beats that were due in it and did not happen.
    pub(super) fn count_missed(&self, turn: &mut Turn<'_>) {
        missed::count(turn.at, self.players.all(), (&self.program, &self.beats), turn.recorder);
    }

    /// Players that wait for a beat or think have nothing more to wait for.
    pub(super) fn end_loops(&mut self, turn: &mut Turn<'_>) {
        for index in 0..self.players.len() {
            if self.players[index].doing == Doing::Waiting {
                self.advance(turn, index);
            }
        }
    }

    /// The run is over: counts what is unanswered, and what never came.
    pub(super) fn count_unended(&self, turn: &mut Turn<'_>) {
        for player in self.players.all().iter().filter(|it| it.doing == Doing::Busy) {
            let ops = (player.op(&self.program), u64::from(player.left.max(1)));
            turn.recorder.ended(turn.at, player, ops, Ending::Unended);
        }
        for player in self.players.all() {
            for control in zone::under_way(player) {
                let times_ns = control.times_ns(turn.at.now_ns);
                turn.recorder.unanswered(self.program.fly_op, times_ns);
            }
        }
        let is_connected = |index| self.sender.links().conn(index).is_some();
        turn.recorder.deliveries().lost += self.senders().never_came(is_connected);
    }

    /// Closes all connections.
    pub(super) fn close(&mut self, out: &mut Output<Command>) {
        for index in 0..self.players.len() {
            self.sender.say_goodbye(index, &mut self.players[index], out);
        }
    }
}
