//! The generator: a handler that is many virtual players.
//!
//! In: what the engine tells of connections and time. Out: requests and frames, and once a second
//! a [`Record`] to the main thread. It never blocks: when the main thread does not keep up, the
//! record goes on growing and is handed over later.
//!
//! This file runs the run: it hands each input to the part that it is for, and lets stages begin
//! and end. Each part keeps its own state, and data runs one way:
//!
//! - `stages` says where the run is, `arrivals` who comes when (with `rows` of data files);
//! - `reader` makes answers of bytes (`http`, `socket` and `tls` say what bytes mean);
//! - `sessions` decides what each player does next (`beats` when, `failure` what a failure means for
//!   it, `deliveries` and `inbox` which match messages have come, `zone` what pilots are told), in the
//!   table of `players`;
//! - `writer` puts that into bytes, which leave over `links`;
//! - `recorder` counts and times what all of them tell (`missed` what was due and did not happen).

mod arrivals;
mod beats;
mod clock;
mod deliveries;
mod failure;
mod gone;
mod http;
mod inbox;
mod links;
mod missed;
mod player;
mod players;
mod reader;
mod recorder;
mod rows;
mod sender;
mod sessions;
mod settings;
mod socket;
mod source;
mod stages;
#[cfg(test)]
mod tests;
mod tls;
mod turn;
mod writer;
mod zone;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use event::{ConnId, Handler, Input, Now, Output};

use arrivals::{Arrival, Arrivals};
use clock::Clock;
use gone::Gone;
use reader::Reader;
use recorder::Recorder;
pub(crate) use rows::Share;
use sessions::{Newcomer, Sessions};
pub(crate) use settings::{Node, Settings};
pub(crate) use source::Source;
use stages::{RampEnd, Stages};
pub(crate) use tls::TlsClient;
use turn::{News, Turn};
pub(crate) use zone::SOCKETS;

use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{NO_OP, Record, SERVER_GONE, Stage};
use crate::load::scenario::program::Program;

/// Connections that are being made at once, and players that prepare themselves at once when they
/// come without a ramp.
pub(crate) const CONNECTS_MAX: u32 = 256;
/// Virtual players of one thread, at most.
pub(crate) const PLAYERS_MAX: u32 = 1 << 20;

/// What the main thread may tell a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin.
    Begin,
    /// All generators of the run are ready: the warm-up begins.
    Go,
    /// End the counted time now.
    Finish,
}

/// What a generator tells the main thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// All players have come, or will not; waits for [`Command::Go`] if it is to.
    Ready,
    /// A stage begins now.
    Stage(Stage),
    /// A failure ends the run, as its step says; other generators of the run are to end too.
    Stopped,
    /// What was recorded in one stretch.
    Record(Box<Record>),
    /// Nothing more comes.
    Done,
}

/// Many virtual players on one thread.
pub(crate) struct Generator {
    settings: Arc<Settings>,
    stages: Stages,
    arrivals: Arrivals,
    players: Playing,
    gone: Gone,
    recorder: Recorder,
    clock: Clock,
}

/// The parts that inputs of connections go through.
struct Playing {
    reader: Reader,
    sessions: Sessions,
}

impl Playing {
    fn bytes(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        self.reader.bytes(turn, &mut self.sessions, conn, bytes);
    }

    fn eof(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        self.reader.eof(turn, &mut self.sessions, conn);
    }
}

impl Handler for Generator {
    type Mail = Command;

    fn handle(&mut self, now: Now, input: Input<'_, Command>, out: &mut Output<Command>) {
        let now_ns = now.mono_ns;
        if self.stages.stage() == Stage::Done {
            return;
        }
        match input {
            Input::Bytes { conn, bytes } => {
                self.play(now_ns, out, |it, turn| it.bytes(turn, conn, bytes));
            }
            Input::TurnEnd => self.turn_end(now_ns, out),
            Input::Wake => self.wake(now_ns, out),
            Input::Connected { conn, token } => {
                self.gone.stand(1);
                self.play(now_ns, out, |it, turn| it.sessions.connected(turn, conn, token));
            }
            Input::ConnectFailed { token, failure } => {
                self.gone.connect_failed(now_ns, failure);
                self.play(now_ns, out, |it, turn| it.sessions.connect_failed(turn, token, failure));
            }
            Input::Closed { conn, reason } => {
                self.play(now_ns, out, |it, turn| it.sessions.closed(turn, conn, reason));
            }
            Input::Eof { conn } => {
                self.play(now_ns, out, |it, turn| it.eof(turn, conn));
            }
            Input::Datagrams(datagrams) => {
                self.play(now_ns, out, |it, turn| it.sessions.datagrams(turn, datagrams));
            }
            Input::Mail(Command::Begin) => self.begin(now_ns, out),
            Input::Mail(Command::Go) => self.go(now_ns, out),
            Input::Mail(Command::Finish) | Input::Stop => self.finish_early(now_ns, out),
            // A generator accepts nothing, posts nothing and does not ask when bytes have left.
            Input::Opened { .. } | Input::Sent { .. } | Input::Refused { .. } => {}
        }
    }
}

impl Generator {
    pub(crate) fn new(
        program: Arc<Program>,
        settings: Settings,
        events: SyncSender<Event>,
    ) -> Self {
        let settings = Arc::new(settings);
        let has_deliveries = program.match_ops.iter().any(Option::is_some) || program.flies();
        Self {
            stages: Stages::new(settings.clone(), has_deliveries),
            arrivals: Arrivals::new(settings.clone(), program.clone()),
            players: Playing {
                reader: Reader::new(program.clone()),
                sessions: Sessions::new(program.clone(), settings.clone()),
            },
            gone: Gone::default(),
            recorder: Recorder::new(settings.clone(), program, events),
            clock: Clock::default(),
            settings,
        }
    }

    /// Lets players do something, and heeds what the run is to know of it.
    fn play(
        &mut self,
        now_ns: u64,
        out: &mut Output<Command>,
        what: impl FnOnce(&mut Playing, &mut Turn<'_>),
    ) -> News {
        let mut turn = Turn {
            at: self.stages.at(now_ns),
            clock: &self.clock,
            recorder: &mut self.recorder,
            out,
            news: News::default(),
        };
        what(&mut self.players, &mut turn);
        let news = turn.news;
        if news.has_delivery {
            self.stages.settle_later(now_ns);
        }
        if news.is_stopping {
            self.finish_early(now_ns, out);
        }
        news
    }

    fn begin(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.settings.has_clock {
            self.clock = Clock::read(now_ns);
        }
        self.recorder.begin(now_ns);
        self.stages.begin(now_ns);
        self.arrivals.begin(now_ns);
        self.players.sessions.begin(now_ns);
        self.recorder.tell(Event::Stage(Stage::Ramp));
        if self.settings.has_phases() {
            self.enter(now_ns, Stage::WarmUp, out);
        }
        self.arrive(now_ns, out);
        self.set_wake(out);
    }

    fn wake(&mut self, now_ns: u64, out: &mut Output<Command>) {
        while self.play(now_ns, out, |it, turn| it.sessions.wake(turn)).is_stopping {}
        let indexes = self.stages.takes_sweep(now_ns, self.players.sessions.players().len());
        self.play(now_ns, out, |it, turn| it.sessions.look_at(turn, indexes));
        self.check_servers(now_ns, out);
        // The stage first: its end is a tick too.
        self.check_stage(now_ns, out);
        if self.stages.takes_tick(now_ns) && self.stages.stage() < Stage::Done {
            let census = self.players.sessions.census();
            self.recorder.hand_over(now_ns, self.stages.stage(), &census);
        }
    }

    /// All generators of the run are ready.
    fn go(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stages.stage() == Stage::Ramp {
            self.enter(now_ns, Stage::WarmUp, out);
        }
        self.set_wake(out);
    }

    fn finish_early(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stages.stage() < Stage::Drain {
            self.enter(now_ns, Stage::Drain, out);
        }
        self.set_wake(out);
    }

    fn turn_end(&mut self, now_ns: u64, out: &mut Output<Command>) {
        self.arrive(now_ns, out);
        self.gone.stand(self.players.sessions.links().connections());
        self.recorder.turn(self.clock.turn_ns(now_ns));
        if self.stages.stage() == Stage::Ramp {
            self.stages.look_at(&self.players.sessions.census());
        }
        self.set_wake(out);
    }

    /// Lets players come whose time it is.
    fn arrive(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if !self.stages.has_begun() || self.stages.stage() >= Stage::Drain {
            return;
        }
        let has_phases = self.settings.has_phases();
        loop {
            let sessions = &mut self.players.sessions;
            if !has_phases && sessions.is_door_full() {
                return;
            }
            let due_ns = match self.arrivals.next(now_ns, sessions.players().present()) {
                Some(Arrival::Player { due_ns }) => due_ns,
                Some(Arrival::TurnedAway) => {
                    self.recorder.turned_away();
                    continue;
                }
                None => return,
            };
            let (order, number) = self.arrivals.next_player();
            let Some(rows) = sessions.rows_for((order, number), &mut self.recorder) else {
                continue;
            };
            let session = self.arrivals.take_session();
            let newcomer = Newcomer { number, session, rows, due_ns };
            self.play(now_ns, out, |it, turn| it.sessions.arrive(turn, newcomer));
        }
    }

    /// Whether the next stage begins.
    fn check_stage(&mut self, now_ns: u64, out: &mut Output<Command>) {
        let present = self.players.sessions.players().present();
        let have_all_left = self.arrivals.is_over() && present == 0;
        if have_all_left && self.stages.stage() < Stage::Drain {
            self.enter(now_ns, Stage::Drain, out);
        }
        let is_due = self.stages.is_due(now_ns);
        match self.stages.stage() {
            Stage::Ramp if is_due => self.end_ramp(now_ns, out),
            Stage::WarmUp if is_due => self.enter(now_ns, Stage::Counted, out),
            Stage::Counted if is_due => self.enter(now_ns, Stage::Drain, out),
            Stage::Drain => {
                if self.stages.takes_loops_end() {
                    self.play(now_ns, out, |it, turn| it.sessions.end_loops(turn));
                }
                let census = self.players.sessions.census();
                if self.stages.has_settled(now_ns, &census) || is_due {
                    self.end(now_ns, out);
                }
            }
            _ => {}
        }
    }

    /// Ends the run when nobody is there any more to be measured.
    fn check_servers(&mut self, now_ns: u64, out: &mut Output<Command>) {
        if self.stages.stage() >= Stage::Drain {
            return;
        }
        let Some(why) = self.gone.why() else { return };
        let why = why.text.clone().into_owned();
        self.recorder.error(NO_OP, &SERVER_GONE, || why);
        self.recorder.tell(Event::Stopped);
        self.finish_early(now_ns, out);
    }

    /// All players are ready, or those that are not have had their time.
    fn end_ramp(&mut self, now_ns: u64, out: &mut Output<Command>) {
        let census = self.players.sessions.census();
        let RampEnd::Now { missing } = self.stages.ramp_end(now_ns, &census) else { return };
        if missing > 0 {
            let players = self.players.sessions.players();
            self.recorder.lacking(players.all(), self.arrivals.missing());
        }
        if census.ready == 0 {
            let kind = Kind::of(Cause::NotReady, "no player became ready: the run ends");
            self.recorder.error(NO_OP, &kind, String::new);
            return self.enter(now_ns, Stage::Drain, out);
        }
        if missing > 0 {
            let kind = Kind::of(Cause::NotReady, "players were not ready in time");
            self.recorder.errors(&kind, missing);
        }
        if self.settings.waits_for_go {
            self.recorder.tell(Event::Ready);
            self.stages.wait_for_go();
        } else {
            self.enter(now_ns, Stage::WarmUp, out);
        }
    }

    /// A stage begins. A stretch belongs to one stage, so this one is handed over.
    fn enter(&mut self, now_ns: u64, stage: Stage, out: &mut Output<Command>) {
        let before = self.stages.stage();
        if stage == Stage::Drain && before == Stage::Counted {
            self.play(now_ns, out, |it, turn| it.sessions.count_missed(turn));
        }
        if stage >= Stage::WarmUp && before == Stage::Ramp {
            // Also when this generator ends early: the others must not wait for it.
            self.recorder.tell(Event::Ready);
        }
        self.recorder.hand_over_now(now_ns, stage, &self.players.sessions.census());
        self.stages.enter(now_ns, stage);
        self.recorder.tell(Event::Stage(stage));
        if stage == Stage::WarmUp && self.settings.warm_up_ns == 0 {
            self.enter(now_ns, Stage::Counted, out);
        }
    }

    /// The run is over: connections are closed.
    fn end(&mut self, now_ns: u64, out: &mut Output<Command>) {
        self.play(now_ns, out, |it, turn| it.sessions.count_unended(turn));
        let census = self.players.sessions.census();
        self.recorder.hand_over_now(now_ns, self.stages.stage(), &census);
        self.players.sessions.close(out);
        self.stages.enter(now_ns, Stage::Done);
        self.recorder.tell(Event::Stage(Stage::Done));
        self.recorder.tell(Event::Done);
        out.stop();
    }

    fn set_wake(&mut self, out: &mut Output<Command>) {
        if !self.stages.has_begun() || self.stages.stage() == Stage::Done {
            return;
        }
        let sessions = &self.players.sessions;
        let mut next_ns = self.stages.next_ns().min(sessions.players().next_ns());
        if self.stages.stage() < Stage::Drain {
            next_ns = next_ns.min(self.arrivals.next_ns(!sessions.is_door_full()));
        }
        out.wake_at(Some(next_ns));
    }
}
