//! A question that guest code waits for, on a worker or in a match: what is told to who asked it, and how it
//! is taken back when it is given up.
//!
//! In: what came of it, or that a node has gone. Out: the answer for the script, and mail for the room that
//! was asked. Not here: how it is asked, and who waits with it (`worker::waiting`, `room::asks`).
//!
//! Source: Nakama 3.40, `server/match_registry.go`: signals and joins wait 10 s.

use event::{Now, ThreadId};
use game::guest::{Answer, HostError, Reply};
use game::match_id::MatchId;
use game::node::{NodeId, Nodes};
use game::stream::no_session;

use crate::mail::{AWAY, Mail, RoomAnswer, RoomError, RoomMail, Topology, Waiter};

/// How long a script waits for a room, milliseconds.
pub(crate) const PATIENCE_MS: u64 = 10_000;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// A match that is being made.
    Creation(MatchId),
    /// A match that is signalled.
    Signal(MatchId),
    /// A stream, of which a room of this node is asked. `is_joined`: by way of the joiner's node, too.
    Stream { node: NodeId, is_joined: bool },
    /// A function of the host table, which another thread runs.
    Run,
    /// An answer of another server.
    Fetch,
}

impl Question {
    /// For messages: what is waited for.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Creation(_) => "a match that is created",
            Self::Signal(_) => "a match that is signalled",
            Self::Stream { .. } => "a stream",
            Self::Run => "the database or a long function of the server",
            Self::Fetch => "another server",
        }
    }

    /// Whether that node may have said this of it: what a room says that is asked this, and no other node than the
    /// one whose room is. What a joiner's node says comes from any; so does it that matches wait in a circle,
    /// which whoever of them finds it says.
    pub(crate) fn takes(
        self,
        (here, from): (NodeId, NodeId),
        outcome: &Result<RoomAnswer, RoomError>,
    ) -> bool {
        let (is_asked, is_its_kind) = match self {
            Self::Creation(_) => (from == here, matches!(outcome, Ok(RoomAnswer::Text(_)))),
            Self::Signal(to) => {
                let is_asked = to.node.is_none_or(|node| node == from);
                (is_asked, matches!(outcome, Ok(RoomAnswer::Text(_))))
            }
            Self::Stream { node, is_joined } => {
                (is_joined || node == from, matches!(outcome, Ok(RoomAnswer::Stream(_))))
            }
            Self::Run | Self::Fetch => return false,
        };
        match outcome {
            Ok(_) => is_asked && is_its_kind,
            Err(RoomError::Circle) => self.target().is_some(),
            Err(_) => is_asked || from == here,
        }
    }

    /// Whether it is a room that answers.
    pub(crate) fn is_of_room(self) -> bool {
        match self {
            Self::Creation(_) | Self::Signal(_) | Self::Stream { .. } => true,
            Self::Run | Self::Fetch => false,
        }
    }

    /// When it has waited long enough, if it is asked now; not after `latest`.
    pub(crate) fn due(self, now: Now, latest: Now) -> Now {
        let patience = now.after_ms(PATIENCE_MS);
        // What a room is asked may be lost with its match. A function that another thread runs is over some time,
        // and it may have written; a request has a time of its own.
        if self.is_of_room() && patience.mono_ns < latest.mono_ns { patience } else { latest }
    }

    /// The match that is waited for.
    pub(crate) fn target(self) -> Option<MatchId> {
        match self {
            Self::Creation(id) | Self::Signal(id) => Some(id),
            Self::Stream { .. } | Self::Run | Self::Fetch => None,
        }
    }

    /// What a script is told of what a room has said ([`Self::takes`]), or that it has said nothing.
    pub(crate) fn answer(self, outcome: Result<RoomAnswer, RoomError>) -> Answer {
        match (self, outcome) {
            (Self::Creation(_) | Self::Signal(_), Ok(RoomAnswer::Text(text))) => {
                Ok(Reply::Text(text))
            }
            (Self::Stream { .. }, Ok(RoomAnswer::Stream(answer))) => Ok(Reply::Stream(answer)),
            (question, Ok(answer)) => {
                unreachable!("a room has answered {question:?} by {answer:?}")
            }
            (Self::Stream { .. }, Err(RoomError::NotFound)) => Err(no_session()),
            (_, Err(RoomError::NotFound)) => Err(HostError::new("match not found")),
            (_, Err(RoomError::Failed(text))) => Err(HostError::new(text)),
            (Self::Signal(_), Err(RoomError::Full)) => Err(HostError::new(
                "match busy: as many signals wait for it as may (match.signal_queue_size)",
            )),
            (Self::Signal(_), Err(RoomError::Circle)) => {
                Err(HostError::new("match busy: it waits for this match"))
            }
            (Self::Creation(_), Err(RoomError::Circle)) => {
                Err(HostError::new("its match_init waits for this match"))
            }
            (_, Err(RoomError::Silent | RoomError::Full | RoomError::Circle)) => {
                Err(self.unanswered())
            }
        }
    }

    /// What a script is told of a question that is given up.
    fn unanswered(self) -> HostError {
        HostError::new(match self {
            Self::Signal(_) => "match busy: it did not answer within 10 s",
            Self::Creation(_) | Self::Stream { .. } => "the room did not answer within 10 s",
            Self::Run | Self::Fetch => "it did not end in time",
        })
    }

    /// Mail that takes it back from the room that was asked: a match that is made still nobody would know of, so
    /// that it ends; a signal that was not played yet is not to be.
    pub(crate) fn take_back(self, from: Waiter, topology: &Topology) -> Option<(ThreadId, Mail)> {
        let (to, mail) = match self {
            Self::Creation(to) => (to, RoomMail::Cancel { id: to.uuid }),
            Self::Signal(to) => (to, RoomMail::TakeBack { from, id: to.uuid }),
            Self::Stream { .. } | Self::Run | Self::Fetch => return None,
        };
        Some(topology.room_of_match(to).seal(topology, mail))
    }

    /// What is answered in a node's place that has gone, and with it the answer. Of a joiner's node nothing is known
    /// here, so that any one may have been it. A match that was to be made is one of this node.
    pub(crate) fn lost(self, nodes: &Nodes) -> Option<RoomError> {
        match self {
            Self::Signal(to) if !to.node.is_some_and(|node| nodes.is_living(node)) => {
                Some(RoomError::NotFound)
            }
            Self::Stream { node, is_joined } if is_joined || !nodes.is_living(node) => {
                Some(RoomError::Failed(AWAY.to_owned()))
            }
            Self::Creation(_) | Self::Signal(_) | Self::Stream { .. } | Self::Run | Self::Fetch => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use game::match_id::MatchId;
    use game::node::{Incarnation, NodeId, Nodes};
    use game::stream::StreamAnswer;
    use uuid::Uuid;

    use super::Question;
    use crate::mail::{RoomAnswer, RoomError};

    fn node(name: &str) -> NodeId {
        Nodes::new(&["a", "b", "c"], name, Incarnation(1)).unwrap().here()
    }

    /// Which nodes of three may say it, of whom the first asks: as letters of their names.
    fn may_say(question: Question, outcome: &Result<RoomAnswer, RoomError>) -> String {
        let names = ["a", "b", "c"].into_iter();
        names.filter(|name| question.takes((node("a"), node(name)), outcome)).collect()
    }

    #[test]
    fn who_was_asked_may_answer_and_what_was_asked() {
        let text = Ok(RoomAnswer::Text("t".into()));
        let stream = Ok(RoomAnswer::Stream(StreamAnswer::Count(1)));
        let (silent, circle) = (Err(RoomError::Silent), Err(RoomError::Circle));
        let id = |name| MatchId::authoritative(Uuid::from_u128(1), node(name));
        let of = |is_joined| Question::Stream { node: node("b"), is_joined };
        for (question, expected) in [
            (Question::Creation(id("a")), ["a", "", "a", "abc"]),
            (Question::Signal(id("b")), ["b", "", "ab", "abc"]),
            (of(false), ["", "b", "ab", ""]),
            (of(true), ["", "abc", "abc", ""]),
            (Question::Run, ["", "", "", ""]),
            (Question::Fetch, ["", "", "", ""]),
        ] {
            let may = [&text, &stream, &silent, &circle].map(|it| may_say(question, it));
            assert_eq!(may, expected, "{question:?}");
        }
    }
}
