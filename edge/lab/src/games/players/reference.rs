//! A player of the reference server: commands of 40 to 200 bytes at its rate, and snapshots that say which
//! command the simulation has taken.
//!
//! A command's time runs from the moment at which it was intended until the first snapshot comes that shows
//! it: the way there, the wait for the tick, the simulation, and the way back.

use std::collections::VecDeque;

use super::client::{ASK_AGAIN_NS, Client, Out, next_ns};
use super::seen::PlayerSeen;
use crate::games::reference::protocol::{
    COMMAND_BYTES, FromServer, Part, command, from_server, hello, leave,
};
use crate::measure::arrivals::Stream;

/// Bytes of a command, from and to.
const BYTES: [u32; 2] = [40, 200];
const _: () =
    assert!(BYTES[0] as usize >= COMMAND_BYTES[0] && BYTES[1] as usize <= COMMAND_BYTES[1]);
/// Commands that wait for their snapshot; older ones are not waited for.
const WAITING_MAX: usize = 1_024;

/// One player.
#[derive(Debug)]
pub(super) struct Player {
    period_ns: u64,
    token: Option<u64>,
    is_in: bool,
    number: u32,
    /// Numbers of commands and the moments at which they were intended.
    waiting: VecDeque<(u32, u64)>,
    /// Commands that were given up, until somebody counts them.
    given_up: u64,
    /// Commands that were sent, likewise.
    sent: u64,
    /// Tick and parts of the snapshot that is coming.
    coming: (u64, u8),
}

impl Player {
    pub(super) fn new(period_ns: u64) -> Self {
        Self {
            period_ns,
            token: None,
            is_in: false,
            number: 0,
            waiting: VecDeque::new(),
            given_up: 0,
            sent: 0,
            coming: (0, 0),
        }
    }

    fn snapshot(&mut self, part: Part, at_ns: u64, seen: &mut PlayerSeen) {
        let (tick, so_far) = self.coming;
        let so_far = if tick == part.tick { so_far + 1 } else { 1 };
        self.coming = (part.tick, so_far);
        if so_far < part.parts {
            return;
        }
        self.is_in = true;
        seen.schedule.arrive(part.tick, at_ns);
        while let Some((number, sent_ns)) = self.waiting.front().copied() {
            if number > part.taken {
                break;
            }
            self.waiting.pop_front();
            if seen.is_counting {
                seen.transactions.record(at_ns.saturating_sub(sent_ns), 1);
            }
        }
        let (sent, given_up) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.given_up));
        if seen.is_counting {
            seen.commands += sent;
            seen.unanswered += given_up;
        }
    }
}

impl Client for Player {
    fn beat(&mut self, due_ns: u64, stream: &mut Stream, out: &mut Out) -> u64 {
        let Some(token) = self.token else {
            out.send(hello());
            return ASK_AGAIN_NS;
        };
        self.number += 1;
        let bytes = BYTES[0] + stream.below(BYTES[1] - BYTES[0] + 1);
        out.send(command(token, self.number, bytes as usize));
        self.sent += 1;
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.given_up += 1;
        }
        self.waiting.push_back((self.number, due_ns));
        next_ns(self.period_ns, stream)
    }

    fn take(&mut self, bytes: &[u8], at_ns: u64, seen: &mut PlayerSeen, _out: &mut Out) {
        match from_server(bytes) {
            Some(FromServer::Welcome { token, tick_ns }) => {
                self.token = Some(token);
                seen.schedule.set_tick(tick_ns);
            }
            Some(FromServer::Full) => seen.refused = Some("the server is full"),
            Some(FromServer::Snapshot(part)) => self.snapshot(part, at_ns, seen),
            Some(FromServer::Told(_)) | None => {}
        }
    }

    fn is_in(&self) -> bool {
        self.is_in
    }

    fn leave(&mut self, out: &mut Out) {
        if let Some(token) = self.token {
            out.send(leave(token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Client as _, Out, Player};
    use crate::games::players::seen::{PlayerSeen, ServerSeen};
    use crate::games::reference::protocol::{
        ASK_BYTES, FromPlayer, PART_HEAD_BYTES, Part, from_player, welcome, write_part,
    };
    use crate::measure::arrivals::Stream;

    fn snapshot(tick: u64, taken: u32, part: u8) -> Vec<u8> {
        let mut bytes = vec![0; PART_HEAD_BYTES + 40];
        write_part(&mut bytes, Part { tick, taken, part, parts: 2 });
        bytes
    }

    #[test]
    fn a_command_lasts_until_a_whole_snapshot_shows_it() {
        let (mut player, mut seen) = (Player::new(1_000), PlayerSeen::default());
        let (mut stream, mut out) = (Stream::new(1, 1), Out::default());
        player.beat(0, &mut stream, &mut out);
        assert_eq!(from_player(&out.0[0]), Some(FromPlayer::Hello));
        player.take(&welcome(5, 1_000_000), 10, &mut seen, &mut out);
        player.take(&snapshot(1, 0, 0), 20, &mut seen, &mut out);
        assert!(!player.is_in());
        player.take(&snapshot(1, 0, 1), 20, &mut seen, &mut out);
        assert!(player.is_in());
        seen.begin();
        out.0.clear();
        for due_ns in [1_000, 2_000, 3_000] {
            let next_ns = player.beat(due_ns, &mut stream, &mut out);
            assert!((500..1_500).contains(&next_ns));
        }
        assert!(out.0.iter().all(|it| (40..=200).contains(&it.len()) && it.len() != ASK_BYTES));
        for part in [0, 1] {
            player.take(&snapshot(2, 2, part), 5_000, &mut seen, &mut out);
        }
        let mut server = ServerSeen::default();
        seen.end(&mut server);
        let times = server.transactions.histogram().unwrap().clone();
        assert_eq!((times.len(), times.min() / 100, times.max() / 100), (2, 30, 40));
        assert_eq!((server.snapshots, server.commands, server.tick_ns), (1, 3, 1_000_000));
        out.0.clear();
        player.leave(&mut out);
        assert_eq!(from_player(&out.0[0]), Some(FromPlayer::Leave { token: 5 }));
    }
}
