//! Somebody who plays nothing and asks for the status once a second: how long a server that has a packet
//! waiting takes to answer it. Most servers answer outside their ticks, so that it is the wait for a
//! processor that shows, not the game's.

use super::client::{Client, Out};
use super::seen::PlayerSeen;
use crate::games::query::{Query, Step, ask, take};
use crate::measure::arrivals::Stream;

/// Between queries: Quake III answers one a second to one address.
const PERIOD_NS: u64 = 1_050_000_000;

/// One who asks.
#[derive(Debug)]
pub(super) struct Probe {
    query: Query,
    /// When what is waited for was sent, if something is.
    sent_ns: Option<u64>,
    asked: u64,
    silent: u64,
    has_answered: bool,
}

impl Probe {
    pub(super) fn new(query: Query) -> Self {
        Self { query, sent_ns: None, asked: 0, silent: 0, has_answered: false }
    }
}

impl Client for Probe {
    fn beat(&mut self, due_ns: u64, stream: &mut Stream, out: &mut Out) -> u64 {
        self.silent += u64::from(self.sent_ns.is_some());
        self.sent_ns = Some(due_ns);
        self.asked += 1;
        out.send(ask(self.query));
        // Never sooner than the period, or the server says nothing.
        PERIOD_NS + stream.between_ns(0, PERIOD_NS / 10)
    }

    fn take(&mut self, bytes: &[u8], at_ns: u64, seen: &mut PlayerSeen, out: &mut Out) {
        let Some(sent_ns) = self.sent_ns else { return };
        match take(self.query, bytes) {
            Step::Send(more) => {
                // The answer that counts is the second one.
                self.sent_ns = Some(at_ns);
                out.send(more);
            }
            Step::Done(info) => {
                self.sent_ns = None;
                self.has_answered = true;
                seen.info = Some(info);
                let counted = (std::mem::take(&mut self.asked), std::mem::take(&mut self.silent));
                if seen.is_counting {
                    seen.status.record(at_ns.saturating_sub(sent_ns), 1);
                    seen.asked += counted.0;
                    seen.silent += counted.1;
                }
            }
            Step::Ignore => {}
        }
    }

    fn is_in(&self) -> bool {
        self.has_answered
    }

    fn leave(&mut self, _out: &mut Out) {}
}

#[cfg(test)]
mod tests {
    use super::{Client as _, Out, Probe, Query};
    use crate::games::players::seen::{PlayerSeen, ServerSeen};
    use crate::measure::arrivals::Stream;

    #[test]
    fn answers_are_timed_and_silence_is_counted() {
        let (mut probe, mut seen) = (Probe::new(Query::Quake3), PlayerSeen::default());
        let (mut stream, mut out) = (Stream::new(1, 1), Out::default());
        seen.begin();
        for due_ns in [0, 2_000_000_000] {
            assert!(probe.beat(due_ns, &mut stream, &mut out) >= 1_000_000_000);
        }
        let answer = b"\xff\xff\xff\xffinfoResponse\n\\clients\\8\\sv_maxclients\\16";
        assert!(!probe.is_in());
        for _ in 0..2 {
            probe.take(answer, 2_000_300_000, &mut seen, &mut out);
        }
        assert!(probe.is_in());
        let mut server = ServerSeen::default();
        seen.end(&mut server);
        assert_eq!((server.asked, server.silent), (2, 1));
        let times = server.status.histogram().unwrap().clone();
        assert_eq!((times.len(), times.max() / 1_000), (1, 300));
        assert_eq!(seen.info.unwrap().players, 8);
    }
}
