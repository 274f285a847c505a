//! When what begins: arrivals, stages, beats, time-outs, pings, and handing records over.

use event::{Now, Output};

use super::{
    CONNECT_TIMED_OUT, Command, Event, GIVE_UP_NS, Generator, HANDSHAKE_TIMED_OUT, PLAYERS_MAX,
    RAMP_PATIENCE_NS, Settings,
};
use crate::load::generator::player::{Doing, Link, Player};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{NO_OP, Stage};
use crate::load::scenario::program::{Program, SessionPlan};
use crate::load::scenario::{Pace, Process};
use crate::measure::arrivals::Stream;

/// Records are handed over this often.
const TICK_NS: u64 = 1_000_000_000;
/// All players are looked at this often, for time-outs and pings, a hundredth of them at a time.
const SWEEP_NS: u64 = 1_000_000_000;
const SWEEP_SLICES: u64 = 100;
/// A player that begins again while others come looks at the door this often.
const DOOR_NS: u64 = 50_000_000;
/// How long nothing may come before no more deliveries are waited for, after the last answer.
const SETTLE_NS: u64 = 500_000_000;

const TIME_OUT: Kind = Kind::of(Cause::TimeOut, "time-out");

/// The deadlines of the generator itself, and who comes when.
#[derive(Debug)]
pub(super) struct Schedule {
    tick_ns: u64,
    sweep_ns: u64,
    sweep_slice: u64,
    /// Players that have come.
    arrived: u32,
    /// Phases: which one, when it began, when the next player comes.
    phase: usize,
    phase_start_ns: u64,
    next_arrival_ns: u64,
    /// Places of players that have left.
    free: Vec<u32>,
    settle_ns: u64,
    /// Players that share the rate of a pace of all; with phases every player has the whole rate.
    sharers: f64,
    /// Those in their loop at the end have been told.
    has_ended_loops: bool,
    /// When a player last became ready.
    last_ready_ns: u64,
    /// Arrivals and whose session is whose, in the order of arrival.
    random: Stream,
}

impl Schedule {
    pub(super) fn new(settings: &Settings, program: &Program) -> Self {
        let has_phases = !settings.phases.is_empty();
        Self {
            random: Stream::new(settings.seed, !u64::from(settings.first_number)),
            sharers: if has_phases { 1.0 } else { sharers(program, settings.players_all) },
            tick_ns: u64::MAX,
            sweep_ns: u64::MAX,
            sweep_slice: 0,
            arrived: 0,
            phase: 0,
            phase_start_ns: 0,
            next_arrival_ns: 0,
            free: Vec::new(),
            settle_ns: u64::MAX,
            has_ended_loops: false,
            last_ready_ns: 0,
        }
    }
}

/// How many of so many players do a session whose loop has a pace of all.
fn sharers(program: &Program, players: u32) -> f64 {
    let is_paced = |plan: &&SessionPlan| plan.pace == Pace::All && plan.loop_end > plan.loop_start;
    let (mut left, mut counted) = (players, 0);
    for plan in &program.sessions {
        let count = plan.count.unwrap_or(0).min(left);
        left -= count;
        counted += if is_paced(&plan) { count } else { 0 };
    }
    let others = || program.sessions.iter().filter(|plan| plan.count.is_none());
    let weight: f64 = others().map(|plan| plan.weight).sum();
    let paced: f64 = others().filter(is_paced).map(|plan| plan.weight).sum();
    let share = if weight > 0.0 { paced / weight } else { 0.0 };
    f64::from(counted) + f64::from(left) * share
}

/// How an operation ended that was not answered as it should be.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// Wrongly, or with its connection, or by its time-out.
    Failed,
    /// Not before the run did.
    Unended,
}

fn at(mono_ns: u64) -> Now {
    Now { mono_ns, unix_ms: 0 }
}

impl Generator {
    pub(super) fn begin(&mut self, now_ns: u64, out: &mut Output<Command>) {
        self.read_machine_clock(now_ns);
        self.start_ns = now_ns;
        self.record.from_ns = now_ns;
        self.schedule.tick_ns = now_ns + TICK_NS;
        self.schedule.sweep_ns = now_ns + SWEEP_NS / SWEEP_SLICES;
        self.schedule.next_arrival_ns = now_ns;
        self.schedule.phase_start_ns = now_ns;
        self.tell(Event::Stage(Stage::Ramp));
        if self.settings.phases.is_empty() {
            self.stage_until_ns = now_ns.saturating_add(self.settings.ramp_ns + GIVE_UP_NS);
        } else {
            self.enter(now_ns, Stage::WarmUp);
        }
        self.arrivals(now_ns, out);
        self.set_wake(out);
    }

    pub(super) fn wake(&mut self, now_ns: u64, out: &mut Output<Command>) {
        while let Some(player) = self.timers.pop_due(at(now_ns)) {
            let index = player as usize;
            self.players[index].timer = None;
            if self.players[index].doing != Doing::Waiting {
                continue;
            }
            if self.enters_door(index) {
                self.advance(now_ns, index, out);
            } else {
                self.wait_until(index, now_ns + DOOR_NS);
            }
        }
        if self.schedule.sweep_ns <= now_ns {
            self.sweep(now_ns, out);
            // Late sweeps are not made up for.
            self.schedule.sweep_ns = now_ns + SWEEP_NS / SWEEP_SLICES;
        }
        // The stage first: its end is a tick too.
        self.check_stage(now_ns, out);
        if self.schedule.tick_ns <= now_ns && self.stage < Stage::Done {
            self.hand_over(now_ns, false);
            while self.schedule.tick_ns <= now_ns {
                self.schedule.tick_ns += TICK_NS;
            }
        }
    }

    /// All generators of the run are ready.
    pub(super) fn go(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stage == Stage::Ramp {
            self.enter(now_ns, Stage::WarmUp);
        }
        self.set_wake(out);
    }

    /// Whether the next stage begins.
    pub(super) fn check_stage(&mut self, now_ns: u64, out: &mut Output<Command>) {
        let have_all_left = self.settings.phases.is_empty()
            && self.present == 0
            && self.schedule.arrived == self.settings.players;
        if have_all_left && self.stage < Stage::Drain {
            self.enter(now_ns, Stage::Drain);
        }
        let is_due = self.stage_until_ns <= now_ns;
        match self.stage {
            Stage::Ramp if is_due => self.end_ramp(now_ns),
            Stage::WarmUp if is_due => self.enter(now_ns, Stage::Counted),
            Stage::Counted if is_due => self.enter(now_ns, Stage::Drain),
            Stage::Drain => {
                if !self.settings.phases.is_empty() && !self.schedule.has_ended_loops {
                    self.schedule.has_ended_loops = true;
                    self.end_loops(now_ns, out);
                }
                let has_left = self.settings.phases.is_empty() || self.present == 0;
                let is_quiet = self.busy == 0 && has_left;
                if !is_quiet {
                    self.schedule.settle_ns = now_ns + self.settle_ns();
                }
                if is_due || (is_quiet && self.schedule.settle_ns <= now_ns) {
                    self.end(now_ns, out);
                }
            }
            _ => {}
        }
    }

    /// Players that wait for a beat or think have nothing more to wait for.
    fn end_loops(&mut self, now_ns: u64, out: &mut Output<Command>) {
        for index in 0..self.players.len() {
            if self.players[index].doing == Doing::Waiting {
                self.advance(now_ns, index, out);
            }
        }
    }

    /// All players are ready, or those that are not have had their time.
    fn end_ramp(&mut self, now_ns: u64) {
        let missing = self.settings.players - self.ready - self.gone;
        let ramp_end_ns = self.start_ns + self.settings.ramp_ns;
        let last_ns = ramp_end_ns.max(self.schedule.last_ready_ns) + RAMP_PATIENCE_NS;
        if missing > 0 && self.ready > 0 && now_ns < last_ns {
            self.stage_until_ns = last_ns;
            return;
        }
        if missing > 0 {
            self.tell_lacking();
        }
        if missing > 0 && self.ready > 0 {
            let kind = Kind::of(Cause::NotReady, "players were not ready in time");
            self.record.count_errors(NO_OP, &kind, u64::from(missing), String::new);
        }
        if self.ready == 0 {
            let kind = Kind::of(Cause::NotReady, "no player became ready: the run ends");
            self.record.error(NO_OP, &kind, String::new);
            return self.enter(now_ns, Stage::Drain);
        }
        if self.settings.waits_for_go {
            self.tell(Event::Ready);
            self.stage_until_ns = u64::MAX;
        } else {
            self.enter(now_ns, Stage::WarmUp);
        }
    }

    /// Records why those who are not ready are not.
    fn tell_lacking(&mut self) {
        let not_come = u64::from(self.settings.players - self.schedule.arrived);
        if not_come > 0 {
            let reason = "had not come: those before were not ready".to_owned();
            self.record.lacking.insert(reason, not_come);
        }
        for player in &self.players {
            if player.is_ready || player.doing == Doing::Absent {
                continue;
            }
            let failure = usize::from(player.failure).checked_sub(1);
            let reason = failure.and_then(|place| self.failures.get(place));
            let reason = reason.map_or("still under way", |reason| reason);
            *self.record.lacking.entry(reason.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn enter(&mut self, now_ns: u64, stage: Stage) {
        if stage == Stage::Drain && self.stage == Stage::Counted {
            self.count_missed(now_ns);
        }
        if stage >= Stage::WarmUp && self.stage == Stage::Ramp {
            // Also when this generator ends early: the others must not wait for it.
            self.tell(Event::Ready);
        }
        self.stage = stage;
        // A stretch belongs to one stage, so this one waits for the main thread if it has to.
        self.hand_over(now_ns, true);
        self.schedule.tick_ns = now_ns + TICK_NS;
        self.tell(Event::Stage(stage));
        self.stage_until_ns = now_ns.saturating_add(match stage {
            Stage::Ramp | Stage::Done => u64::MAX,
            Stage::WarmUp => self.settings.warm_up_ns,
            Stage::Counted => self.settings.counted_ns,
            Stage::Drain => self.settings.timeout_ns,
        });
        if stage == Stage::Drain {
            self.schedule.settle_ns = now_ns + self.settle_ns();
        }
        if stage == Stage::WarmUp && self.settings.warm_up_ns == 0 {
            self.enter(now_ns, Stage::Counted);
        }
    }

    pub(super) fn finish_early(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stage < Stage::Drain {
            self.enter(now_ns, Stage::Drain);
        }
        self.set_wake(out);
    }

    /// How long to wait for what nobody waits for: match messages.
    fn settle_ns(&self) -> u64 {
        if self.program.match_ops.iter().any(Option::is_some) { SETTLE_NS } else { 0 }
    }

    /// Deliveries still come in: waits for more of them.
    pub(super) fn settle_later(&mut self, now_ns: u64) {
        if self.stage == Stage::Drain {
            self.schedule.settle_ns = now_ns + self.settle_ns();
        }
    }

    /// Lets players come whose time it is.
    pub(super) fn arrivals(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stage >= Stage::Drain || self.start_ns == 0 {
            return;
        }
        if !self.settings.phases.is_empty() {
            return self.phase_arrivals(now_ns, out);
        }
        while self.schedule.arrived < self.settings.players {
            let due_ns = self.arrival_ns(self.schedule.arrived);
            if due_ns > now_ns || self.is_door_full() {
                break;
            }
            // Without a ramp nobody intends to come at any time: a player comes when there is
            // room.
            let intended_ns = if self.settings.ramp_ns == 0 { now_ns } else { due_ns };
            self.arrive(now_ns, intended_ns, out);
        }
    }

    /// Whether as many players prepare themselves as may at once when there is no ramp.
    fn is_door_full(&self) -> bool {
        self.connecting >= super::CONNECTS_MAX
            || (self.settings.ramp_ns == 0 && self.preparing >= super::CONNECTS_MAX)
    }

    /// Takes a place in the door for a player that begins its preparation again; `false` when
    /// there is none. Those who have not tried yet come first, because they need no timer.
    fn enters_door(&mut self, index: usize) -> bool {
        let player = &self.players[index];
        if player.is_ready || player.is_preparing || player.step != 0 {
            return true;
        }
        let is_free = !self.is_door_full();
        if is_free {
            self.players[index].is_preparing = true;
            self.preparing += 1;
        }
        is_free
    }

    /// The player does not prepare itself any more, for good or for now.
    pub(super) fn leave_door(&mut self, index: usize) {
        if std::mem::take(&mut self.players[index].is_preparing) {
            self.preparing -= 1;
        }
    }

    /// When the player with this place in the order comes.
    fn arrival_ns(&self, order: u32) -> u64 {
        let players = u64::from(self.settings.players.max(1));
        let share = u128::from(self.settings.ramp_ns) * u128::from(order) / u128::from(players);
        self.start_ns.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }

    fn phase_arrivals(&mut self, now_ns: u64, out: &mut Output<Command>) {
        while let Some(phase) = self.settings.phases.get(self.schedule.phase) {
            let end_ns = self.schedule.phase_start_ns.saturating_add(phase.duration.ns());
            let due_ns = self.schedule.next_arrival_ns;
            if due_ns >= end_ns || phase.arrivals <= 0.0 {
                self.schedule.next_arrival_ns = end_ns;
                if end_ns > now_ns {
                    return;
                }
                self.schedule.phase += 1;
                self.schedule.phase_start_ns = end_ns;
                continue;
            }
            if due_ns > now_ns {
                return;
            }
            let (process, mean_ns) = (phase.process, 1e9 / phase.arrivals);
            let players_max = phase.players_max.unwrap_or(PLAYERS_MAX);
            self.schedule.next_arrival_ns = due_ns + self.schedule.random.gap_ns(process, mean_ns);
            if self.present >= players_max.min(PLAYERS_MAX) {
                self.record.turned_away += 1;
            } else {
                self.arrive(now_ns, due_ns, out);
            }
        }
        self.schedule.next_arrival_ns = u64::MAX;
    }

    fn arrive(&mut self, now_ns: u64, due_ns: u64, out: &mut Output<Command>) {
        let order = self.schedule.arrived;
        let number = self.settings.first_number.wrapping_add(order);
        let rows = match self.rows_of(order, number) {
            Ok(rows) => rows,
            Err(place) => return self.has_no_row(place),
        };
        self.schedule.arrived += 1;
        let session = self.choose_session(order);
        let player = Player {
            number,
            session,
            rows,
            is_preparing: true,
            random: Stream::new(self.settings.seed, u64::from(number)),
            captured: vec![Box::from(""); self.program.captured_count].into_boxed_slice(),
            ..Player::default()
        };
        let index = match self.schedule.free.pop() {
            Some(place) => {
                let attempt = self.players[place as usize].attempt;
                self.players[place as usize] = Player { attempt, ..player };
                self.tls.arrives(place as usize);
                place as usize
            }
            None => {
                self.players.push(player);
                self.links.push(Link::None);
                self.players.len() - 1
            }
        };
        self.present += 1;
        self.preparing += 1;
        self.record.players = self.record.players.max(self.present);
        let player = &mut self.players[index];
        player.doing = Doing::Waiting;
        player.intended_ns = due_ns;
        // A loop without a prelude begins at its beat, not at the arrival.
        player.is_intended = self.program.sessions[usize::from(session)].loop_start > 0;
        self.advance(now_ns, index, out);
    }

    /// A player was due for whom a data file has no row: it does not come.
    fn has_no_row(&mut self, place: usize) {
        let name = self.program.data.get(place).map_or("-", |it| &it.name);
        let kind =
            Kind::new(Cause::NoRow, format!("no row left in `{name}`: a player did not come"));
        self.record.error(NO_OP, &kind, String::new);
    }

    fn choose_session(&mut self, order: u32) -> u16 {
        let program = self.program.clone();
        let mut counted = 0_u32;
        for (index, session) in (0..).zip(&program.sessions) {
            counted = counted.saturating_add(session.count.unwrap_or(0));
            if self.settings.first_number.wrapping_add(order) < counted {
                return index;
            }
        }
        let weight = |session: &SessionPlan| match session.count {
            Some(_) => 0.0,
            None => session.weight,
        };
        let total: f64 = program.sessions.iter().map(weight).sum();
        let mut place = self.schedule.random.unit() * total;
        for (index, session) in (0..).zip(&program.sessions) {
            place -= weight(session);
            if place < 0.0 {
                return index;
            }
        }
        0
    }

    /// The player leaves for good.
    pub(super) fn leave(&mut self, index: usize, out: &mut Output<Command>) {
        self.settle(index);
        self.forget_link(index, out);
        self.leave_door(index);
        let player = &mut self.players[index];
        self.gone += u32::from(!std::mem::replace(&mut player.is_ready, true));
        player.doing = Doing::Absent;
        if let Some(timer) = player.timer.take() {
            self.timers.disarm(timer);
        }
        self.present -= 1;
        self.end_ramp_if_all_are_there();
        if !self.settings.phases.is_empty() {
            self.schedule.free.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// The player has reached its loop, or its place to hold, for the first time.
    pub(super) fn mark_ready(&mut self, now_ns: u64, index: usize) {
        if std::mem::replace(&mut self.players[index].is_ready, true) {
            return;
        }
        self.leave_door(index);
        self.ready += 1;
        self.schedule.last_ready_ns = now_ns;
        self.end_ramp_if_all_are_there();
    }

    fn end_ramp_if_all_are_there(&mut self) {
        if self.stage == Stage::Ramp && self.ready + self.gone == self.settings.players {
            self.schedule.sweep_ns = 0; // Looks at the stage at the next wake.
            self.stage_until_ns = 0;
        }
    }

    /// Arms the player's timer. It never goes off in the same turn: a player that has always
    /// something to do would keep the thread for itself.
    pub(super) fn wait_until(&mut self, index: usize, due_ns: u64) {
        let who = u32::try_from(index).unwrap_or(u32::MAX);
        let due_ns = due_ns.max(self.now_ns + 1);
        let timer = self.timers.arm(at(due_ns), who);
        if let Some(old) = self.players[index].timer.replace(timer) {
            self.timers.disarm(old);
        }
    }

    /// Nanoseconds between two beats of one player; none without a pace.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub(super) fn interval_ns(&self, plan: &SessionPlan) -> Option<u64> {
        if self.settings.saturate {
            return None;
        }
        let rate = self.rate_at(self.now_ns).filter(|rate| *rate > 0.0)?;
        let interval = match plan.pace {
            Pace::None => return None,
            Pace::Player => 1e9 / rate,
            Pace::All => self.schedule.sharers * 1e9 / rate,
        };
        // The rate counts operations, and a write of several is one beat.
        let interval = interval * f64::from(plan.beat_requests);
        Some(interval.clamp(1.0, 1e15) as u64)
    }

    /// The rate at a moment of this stage, if there is one.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn rate_at(&self, at_ns: u64) -> Option<f64> {
        let (rate, Some(end)) = (self.settings.rate?, self.settings.rate_end) else {
            return self.settings.rate;
        };
        let share = match self.stage {
            Stage::Ramp | Stage::WarmUp => 0.0,
            Stage::Drain | Stage::Done => 1.0,
            Stage::Counted => {
                let left_ns = self.stage_until_ns.saturating_sub(at_ns);
                1.0 - left_ns as f64 / self.settings.counted_ns.max(1) as f64
            }
        };
        Some(rate + (end - rate) * share.clamp(0.0, 1.0))
    }

    /// How long it is from a beat to the next one when the rate rises or falls meanwhile; `gap_ns` is
    /// what it would be at the rate of now. The number of beats is the area below the rate.
    #[expect(clippy::cast_precision_loss, reason = "gaps are below 2^53 ns")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    fn risen_ns(&self, due_ns: u64, gap_ns: u64) -> u64 {
        const LOOK_NS: u64 = 1_000_000;
        let rates =
            [self.now_ns, due_ns, due_ns.saturating_add(LOOK_NS)].map(|at| self.rate_at(at));
        let [Some(now), Some(due), Some(soon)] = rates else { return gap_ns };
        let gap_ns = gap_ns as f64 * now / due.max(1e-9);
        // The share of the rate at `due_ns` by which it changes in a nanosecond.
        let slope = (soon - due) / due.max(1e-9) / LOOK_NS as f64;
        let grown = 1.0 + 2.0 * slope * gap_ns;
        let gap_ns = match slope.abs() * gap_ns {
            it if it < 1e-9 => gap_ns,
            // It falls to nothing before the next one is due.
            _ if grown <= 0.0 => gap_ns * 4.0,
            _ => (grown.sqrt() - 1.0) / slope,
        };
        gap_ns.clamp(1.0, 1e18) as u64
    }

    /// The next beat of a paced player, and moves on to the one after it.
    pub(super) fn take_beat(&mut self, now_ns: u64, index: usize, interval_ns: u64) -> u64 {
        let player = &self.players[index];
        let plan = &self.program.sessions[usize::from(player.session)];
        let process = plan.process;
        let (number, beat_ns) = (player.number, player.beat_ns);
        #[expect(clippy::cast_precision_loss, reason = "intervals are below 2^53 ns")]
        let gap_ns = |player: &mut Player| player.random.gap_ns(process, interval_ns as f64);
        let due_ns = match (beat_ns, process) {
            (0, Process::Poisson) => now_ns + gap_ns(&mut self.players[index]),
            (0, Process::Constant) => self.first_beat_ns(now_ns, number, interval_ns),
            (due_ns, _) => due_ns,
        };
        // Never the one before the first beat: it would stand for two distances.
        let gap_ns = gap_ns(&mut self.players[index]);
        let gap_ns = match self.settings.rate_end {
            Some(_) => self.risen_ns(due_ns, gap_ns),
            None => gap_ns,
        };
        let player = &mut self.players[index];
        player.beat_ns = due_ns + gap_ns;
        if player.free_ns <= due_ns {
            player.free_ns = due_ns;
        } else if player.ready_ns.saturating_sub(player.free_ns) <= interval_ns / 10 {
            // Who thinks past the beat, whatever the server does, intends to go on when that ends.
            // The server's usual times are not added up over many such rounds; a stall is.
            player.free_ns = player.free_ns.max(player.ready_ns);
        }
        player.free_ns
    }

    /// All players' beats lie on one grid, each at its own place, so that together they are even.
    fn first_beat_ns(&self, now_ns: u64, number: u32, interval_ns: u64) -> u64 {
        let all = u128::from(self.settings.players_all.max(1));
        let share = u128::from(interval_ns) * (u128::from(number) % all) / all;
        let offset_ns = u64::try_from(share).unwrap_or(0);
        let base_ns = self.start_ns + offset_ns;
        if base_ns >= now_ns {
            return base_ns;
        }
        let passed = (now_ns - base_ns) / interval_ns + 1;
        base_ns + passed.saturating_mul(interval_ns)
    }

    /// Looks at the next hundredth of the players.
    fn sweep(&mut self, now_ns: u64, out: &mut Output<Command>) {
        let count = self.players.len() as u64;
        let slice = self.schedule.sweep_slice;
        self.schedule.sweep_slice = (slice + 1) % SWEEP_SLICES;
        let bound = |slice: u64| usize::try_from(count * slice / SWEEP_SLICES).unwrap_or(0);
        for index in bound(slice)..bound(slice + 1) {
            let player = &self.players[index];
            let waits = matches!(player.doing, Doing::Busy | Doing::Connecting);
            if waits && now_ns.saturating_sub(player.sent_ns) > self.settings.timeout_ns {
                let is_sent = player.doing == Doing::Busy;
                let seconds = self.settings.timeout_ns / 1_000_000_000;
                let was_securing = matches!(self.links[index], Link::Securing);
                self.drop_link(index, out);
                let example = move || format!("no answer within {seconds} s");
                let kind = match (is_sent, was_securing) {
                    (true, _) => TIME_OUT,
                    (false, true) => HANDSHAKE_TIMED_OUT,
                    (false, false) => CONNECT_TIMED_OUT,
                };
                self.fail(now_ns, index, &kind, example, out);
            } else if self.stage < Stage::Drain && matches!(self.links[index], Link::Socket(_)) {
                self.ping(now_ns, index, out);
            }
        }
    }

    /// Records how long an operation has taken that was not answered as it should be, so that a
    /// server cannot look fast by failing. Of one that was never sent there is only the time since
    /// it was due; of one that is not due yet, none.
    pub(super) fn record_ending(&mut self, now_ns: u64, index: usize, count: u64, end: Ending) {
        let player = &self.players[index];
        let plan = &self.program.sessions[usize::from(player.session)];
        let op = plan.steps.get(usize::from(player.step)).and_then(|step| step.op);
        let Some(op) = op.and_then(|op| self.record.op(op)).filter(|_| count > 0) else { return };
        let is_sent = player.doing == Doing::Busy;
        let part = match end {
            Ending::Failed => &mut op.failures,
            Ending::Unended => &mut op.unended,
        };
        if is_sent {
            let service_ns = now_ns.saturating_sub(player.sent_ns);
            op.service.record(service_ns, count);
            part.service.record(service_ns, count);
        }
        let is_due = is_sent || (player.is_intended && player.intended_ns <= now_ns);
        if is_due && !self.settings.saturate {
            let response_ns = now_ns.saturating_sub(player.intended_ns);
            op.response.record(response_ns, count);
            part.response.record(response_ns, count);
        }
    }

    /// The run is over: what is unanswered is recorded as such, connections are closed.
    fn end(&mut self, now_ns: u64, out: &mut Output<Command>) {
        for index in 0..self.players.len() {
            let player = &self.players[index];
            if player.doing != Doing::Busy {
                continue;
            }
            let left = u64::from(player.left.max(1));
            self.record_ending(now_ns, index, left, Ending::Unended);
            let player = &self.players[index];
            let plan = &self.program.sessions[usize::from(player.session)];
            let op = plan.steps.get(usize::from(player.step)).and_then(|step| step.op);
            if let Some(op) = op.and_then(|op| self.record.op(op)) {
                op.unanswered += left;
            }
        }
        self.count_tail_losses();
        self.hand_over(now_ns, true);
        for index in 0..self.players.len() {
            self.say_goodbye(index, out);
        }
        self.stage = Stage::Done;
        self.tell(Event::Stage(Stage::Done));
        self.tell(Event::Done);
        out.stop();
    }

    pub(super) fn set_wake(&mut self, out: &mut Output<Command>) {
        if self.start_ns == 0 || self.stage == Stage::Done {
            return;
        }
        let mut next_ns = self.schedule.tick_ns.min(self.schedule.sweep_ns);
        next_ns = next_ns.min(self.stage_until_ns);
        if let Some(timer_ns) = self.timers.next_ns() {
            next_ns = next_ns.min(timer_ns);
        }
        if self.stage < Stage::Drain {
            if !self.settings.phases.is_empty() {
                next_ns = next_ns.min(self.schedule.next_arrival_ns);
            } else if self.schedule.arrived < self.settings.players && !self.is_door_full() {
                next_ns = next_ns.min(self.arrival_ns(self.schedule.arrived));
            }
        }
        out.wake_at(Some(next_ns));
    }
}
