//! The simulation: who plays, which commands were taken, when ticks are due, and what each player is sent.
//!
//! In: datagrams and the time. Out: datagrams. It reads no clock; the processor time that a tick burns is
//! burned here, between the commands and the snapshots, as a game would.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

use event::{Datagrams, Handler, Input, Now, Output, SocketId};

use super::protocol::{
    FromPlayer, PART_BYTES_MAX, PART_HEAD_BYTES, Part, SNAPSHOT_BYTES_MAX, Told, from_player, full,
    told, welcome, write_part,
};
use crate::flow::work::Work;

/// Players of one server, at most.
pub const PLAYERS_MAX: u32 = 1_024;
/// A player who is silent for so long has gone.
const SILENCE_NS: u64 = 5_000_000_000;
/// A tick that begins later than this part of a tick is late.
const LATE_PART: u64 = 10;

/// What a server simulates.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Ticks a second.
    pub tick_hz: u32,
    /// Processor time that each tick takes.
    pub work: Duration,
    /// Bytes of a snapshot for one player.
    pub snapshot_bytes: usize,
    /// Players at one time.
    pub players_max: u32,
}

impl Default for Options {
    /// The profile of Counter-Strike servers: about 2,000 bytes down for each player.
    fn default() -> Self {
        Self {
            tick_hz: 60,
            work: Duration::from_micros(200),
            snapshot_bytes: 2_000,
            players_max: 16,
        }
    }
}

impl Options {
    /// Nanoseconds from one tick to the next.
    pub(super) fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.tick_hz.max(1))
    }

    /// What is wrong with it, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        if !(1..=1_000).contains(&self.tick_hz) {
            return Some(format!("{} ticks a second: 1 to 1000", self.tick_hz));
        }
        if self.work > Duration::from_nanos(self.tick_ns()) {
            let tick = Duration::from_nanos(self.tick_ns());
            return Some(format!(
                "a tick that works {:?} of its {tick:?}: no more than all",
                self.work
            ));
        }
        if !(PART_HEAD_BYTES..=SNAPSHOT_BYTES_MAX).contains(&self.snapshot_bytes) {
            return Some(format!(
                "snapshots of {} bytes: {PART_HEAD_BYTES} to {SNAPSHOT_BYTES_MAX}",
                self.snapshot_bytes
            ));
        }
        if !(1..=PLAYERS_MAX).contains(&self.players_max) {
            return Some(format!("{} players: 1 to {PLAYERS_MAX}", self.players_max));
        }
        None
    }
}

/// What the wiring says to the thread.
#[derive(Debug)]
pub(super) enum Word {
    /// Let time begin.
    Begin,
}

struct Seat {
    heard_ns: u64,
    /// The last command that came, and the last that a tick has taken.
    came: u32,
    taken: u32,
}

/// One game.
pub(super) struct Simulation {
    options: Options,
    work: Work,
    /// Makes tokens of addresses, so that hellos of forgers take no memory.
    keys: RandomState,
    players: BTreeMap<SocketAddr, Seat>,
    began_ns: Option<u64>,
    counted: Told,
    part: Vec<u8>,
}

impl Simulation {
    pub(super) fn new(options: Options) -> Self {
        let (tick_ns, players_max) = (options.tick_ns(), options.players_max);
        Self {
            options,
            work: Work::of(options.work),
            keys: RandomState::new(),
            players: BTreeMap::new(),
            began_ns: None,
            counted: Told { tick_ns, players_max, ..Told::default() },
            part: vec![0; PART_BYTES_MAX],
        }
    }

    fn take(&mut self, now: Now, all: Datagrams<'_>, out: &mut Output<Word>) {
        let (socket, from) = (all.socket, all.from);
        for bytes in all {
            let token = || self.keys.hash_one(from);
            match from_player(bytes) {
                Some(FromPlayer::Hello) => {
                    let is_full = self.players.len() >= self.options.players_max as usize
                        && !self.players.contains_key(&from);
                    let answer =
                        if is_full { full() } else { welcome(token(), self.counted.tick_ns) };
                    out.send_datagram(socket, from, &answer);
                }
                Some(FromPlayer::Status) => {
                    let players = u32::try_from(self.players.len()).unwrap_or(u32::MAX);
                    self.counted.players = players;
                    out.send_datagram(socket, from, &told(&self.counted));
                }
                Some(FromPlayer::Command { token: said, number }) if said == token() => {
                    self.command(now, from, number);
                }
                Some(FromPlayer::Leave { token: said }) if said == token() => {
                    self.players.remove(&from);
                }
                Some(FromPlayer::Command { .. } | FromPlayer::Leave { .. }) | None => {}
            }
        }
    }

    fn command(&mut self, now: Now, from: SocketAddr, number: u32) {
        let has_room = self.players.len() < self.options.players_max as usize;
        if let Some(seat) = self.players.get_mut(&from) {
            seat.heard_ns = now.mono_ns;
            // One that was overtaken changes nothing.
            seat.came = seat.came.max(number);
        } else if has_room {
            let seat = Seat { heard_ns: now.mono_ns, came: number, taken: 0 };
            self.players.insert(from, seat);
        }
    }

    /// Runs the tick that is due, and leaves out those that should have been before it.
    fn tick(&mut self, now: Now, out: &mut Output<Word>) {
        let Some(began_ns) = self.began_ns else { return };
        let tick_ns = self.counted.tick_ns;
        let passed_ns = now.mono_ns.saturating_sub(began_ns);
        let tick = passed_ns / tick_ns;
        if tick > self.counted.due {
            self.counted.missed += tick - self.counted.due - 1;
            self.counted.due = tick;
            let late_ns = passed_ns - tick * tick_ns;
            self.counted.late += u64::from(late_ns > tick_ns / LATE_PART);
            self.simulate(now);
            self.snapshots(tick, out);
        }
        out.wake_at(Some(began_ns + (self.counted.due + 1) * tick_ns));
    }

    fn simulate(&mut self, now: Now) {
        self.players.retain(|_, seat| now.mono_ns.saturating_sub(seat.heard_ns) < SILENCE_NS);
        for seat in self.players.values_mut() {
            seat.taken = seat.came;
        }
        self.work.burn();
    }

    fn snapshots(&mut self, tick: u64, out: &mut Output<Word>) {
        let bytes = self.options.snapshot_bytes;
        let parts = bytes.div_ceil(PART_BYTES_MAX).max(1);
        let part_bytes = bytes.div_ceil(parts).max(PART_HEAD_BYTES);
        let (Some(room), Ok(count)) = (self.part.get_mut(..part_bytes), u8::try_from(parts)) else {
            return;
        };
        for (player, seat) in &self.players {
            for part in 0..count {
                write_part(room, Part { tick, taken: seat.taken, part, parts: count });
                out.send_datagram(SocketId(0), *player, room);
            }
        }
    }
}

impl Handler for Simulation {
    type Mail = Word;

    fn handle(&mut self, now: Now, input: Input<'_, Word>, out: &mut Output<Word>) {
        match input {
            Input::Datagrams(all) => self.take(now, all, out),
            Input::Mail(Word::Begin) => {
                self.began_ns = Some(now.mono_ns);
                out.wake_at(Some(now.mono_ns + self.counted.tick_ns));
            }
            Input::Wake => self.tick(now, out),
            Input::Stop => out.stop(),
            // There are no connections, and nobody is sent mail.
            Input::Opened { .. }
            | Input::Connected { .. }
            | Input::ConnectFailed { .. }
            | Input::Bytes { .. }
            | Input::Eof { .. }
            | Input::Sent { .. }
            | Input::Closed { .. }
            | Input::Refused { .. }
            | Input::TurnEnd => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use event::{Datagrams, Handler as _, Input, Now, Output, SocketId};

    use super::super::protocol::{FromServer, command, from_server, hello, leave, status};
    use super::{Options, Simulation, Word};

    const TICK_NS: u64 = 10_000_000;

    struct Play(Simulation);

    impl Play {
        fn begin(players_max: u32) -> Self {
            let options =
                Options { tick_hz: 100, work: Duration::ZERO, players_max, ..Options::default() };
            assert_eq!(options.fault(), None);
            let mut play = Self(Simulation::new(options));
            assert_eq!(play.give(0, Input::Mail(Word::Begin)), []);
            play
        }

        fn give(&mut self, at_ns: u64, input: Input<'_, Word>) -> Vec<(SocketAddr, FromServer)> {
            let mut out = Output::default();
            self.0.handle(Now { mono_ns: at_ns, unix_ms: 0 }, input, &mut out);
            let sent = out.datagrams().into_iter();
            sent.map(|(_, to, bytes)| (to, from_server(&bytes).unwrap())).collect()
        }

        fn send(&mut self, at_ns: u64, from: u16, mut bytes: Vec<u8>) -> Vec<FromServer> {
            let from = ([127, 0, 0, 1], from).into();
            let all = Datagrams::one(SocketId(0), from, 0, &mut bytes);
            self.give(at_ns, Input::Datagrams(all)).into_iter().map(|it| it.1).collect()
        }

        fn token(&mut self, from: u16) -> u64 {
            match *self.send(0, from, hello()) {
                [FromServer::Welcome { token, tick_ns: TICK_NS }] => token,
                ref other => panic!("{other:?}"),
            }
        }

        fn told(&mut self) -> super::Told {
            match *self.send(0, 9, status()) {
                [FromServer::Told(told)] => told,
                ref other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_snapshot_tells_the_last_command_that_a_tick_took() {
        let mut play = Play::begin(4);
        let token = play.token(1);
        assert_eq!(play.give(TICK_NS, Input::Wake), [], "nobody plays yet");
        for number in [1, 3, 2] {
            assert_eq!(play.send(TICK_NS + 5, 1, command(token, number, 40)), []);
        }
        let sent = play.give(2 * TICK_NS, Input::Wake);
        // 2,000 bytes in two parts.
        let parts: Vec<_> = sent
            .into_iter()
            .map(|(_, it)| match it {
                FromServer::Snapshot(part) => (part.tick, part.taken, part.part, part.parts),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts, [(2, 3, 0, 2), (2, 3, 1, 2)]);
        play.send(2 * TICK_NS, 1, leave(token));
        assert_eq!(play.give(3 * TICK_NS, Input::Wake), []);
    }

    #[test]
    fn late_ticks_are_counted_and_those_that_are_over_left_out() {
        let mut play = Play::begin(4);
        for (at_ns, due, late, missed) in [
            (TICK_NS - 1, 0, 0, 0),
            (TICK_NS + TICK_NS / 10, 1, 0, 0),
            (2 * TICK_NS + TICK_NS / 10 + 1, 2, 1, 0),
            (5 * TICK_NS, 5, 1, 2),
            (5 * TICK_NS + 1, 5, 1, 2),
        ] {
            play.give(at_ns, Input::Wake);
            let told = play.told();
            assert_eq!((told.due, told.late, told.missed), (due, late, missed), "{at_ns}");
        }
    }

    #[test]
    fn who_has_no_token_or_no_seat_or_is_silent_does_not_play() {
        let mut play = Play::begin(1);
        let token = play.token(1);
        play.send(0, 1, command(token ^ 1, 1, 40));
        play.send(0, 2, command(token, 1, 40));
        assert_eq!(play.told().players, 0);
        play.send(0, 1, command(token, 1, 40));
        assert_eq!(play.told().players, 1);
        assert_eq!(play.send(0, 2, hello()), [FromServer::Full]);
        assert_eq!(play.give(TICK_NS, Input::Wake).len(), 2);
        assert_eq!(play.give(600 * TICK_NS, Input::Wake), []);
        assert_eq!(play.told().players, 0);
        // A second command is not answered with more than it was.
        assert_eq!(play.send(0, 1, vec![7; 100]), []);
    }

    #[test]
    fn what_cannot_be_simulated_is_said() {
        let usual = Options::default();
        for wrong in [
            Options { tick_hz: 0, ..usual },
            Options { work: Duration::from_secs(1), ..usual },
            Options { snapshot_bytes: 1, ..usual },
            Options { players_max: 0, ..usual },
        ] {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
    }
}
