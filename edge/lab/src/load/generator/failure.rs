//! Failures of connections in words that people can do something about, and what a failure means
//! for its player. Keeps nothing, does nothing.

use event::{CloseReason, ConnectFailure};

use super::links::Link;
use super::player::{Doing, Player};
use crate::load::record::kind::{Cause, Kind};
use crate::load::scenario::OnError;
use crate::load::scenario::program::{SessionPlan, StepKind};

/// How long a player waits before it begins again after a failure.
pub(super) const RESTART_NS: u64 = 1_000_000_000;
/// How long a player waits before it connects again within its loop.
const RECONNECT_NS: u64 = 100_000_000;

pub(super) const CLOSED: Kind = Kind::of(Cause::Closed, "connection closed by the server");
const CONNECT_TIMED_OUT: Kind = Kind::of(Cause::ConnectTimedOut, "connect: timed out");
const HANDSHAKE_TIMED_OUT: Kind = Kind::of(Cause::TlsTimedOut, "TLS: handshake timed out");
const CLOSED_IN_HANDSHAKE: Kind =
    Kind::of(Cause::TlsClosed, "TLS: connection closed within the handshake");
const IDLE_CLOSED: Kind = Kind::of(Cause::IdleClosed, "idle connection closed by the server");
const TIME_OUT: Kind = Kind::of(Cause::TimeOut, "time-out");

/// What an attempt to connect came to, with the limit that was hit if it is one.
pub(super) fn to_connect(failure: ConnectFailure) -> Kind {
    let (cause, text) = match failure {
        ConnectFailure::Refused => (Cause::ConnectRefused, "connect: refused"),
        ConnectFailure::TimedOut => return CONNECT_TIMED_OUT,
        ConnectFailure::Unreachable => (Cause::ConnectUnreachable, "connect: address unreachable"),
        ConnectFailure::NoLocalPort => {
            (Cause::NoLocalPort, "connect: no local port left (net.ipv4.ip_local_port_range)")
        }
        ConnectFailure::NoFiles => (Cause::NoFile, "connect: no open file left (ulimit -n)"),
        ConnectFailure::NoSlot => (Cause::Connect, "connect: the generator has no connection left"),
        ConnectFailure::Cancelled | ConnectFailure::Shutdown => {
            (Cause::Connect, "connect: given up")
        }
        ConnectFailure::Other { errno } => {
            return Kind::new(Cause::Connect, format!("connect: error {errno} of the system"));
        }
    };
    Kind::of(cause, text)
}

/// Why a connection was closed.
pub(super) fn closed(reason: CloseReason) -> Kind {
    match reason {
        CloseReason::Reset => Kind::of(Cause::Closed, "connection reset by the server"),
        CloseReason::OutputLimit => {
            Kind::of(Cause::NotReading, "server does not read: output limit")
        }
        _ => CLOSED,
    }
}

/// What has not come in time: an answer, the end of a handshake, or a connection.
pub(super) fn timed_out(doing: Doing, link: &Link) -> Kind {
    match (doing, link) {
        (Doing::Busy, _) => TIME_OUT,
        (_, Link::Securing) => HANDSHAKE_TIMED_OUT,
        _ => CONNECT_TIMED_OUT,
    }
}

/// Whose failure the end of a connection is, with an example of what is wrong.
pub(super) enum Lost {
    /// The player's operation has failed.
    Operation(Kind, String),
    /// Nobody's: nothing was under way. It is an error all the same.
    Nobody(Kind, String),
}

/// What it means for a player that its connection is gone without its wish.
pub(super) fn lost((kind, example): (Kind, String), link: &Link, doing: Doing) -> Lost {
    let is_busy = doing == Doing::Busy;
    match link {
        Link::Securing if kind.cause == Cause::Closed => {
            Lost::Operation(CLOSED_IN_HANDSHAKE, kind.text.into_owned())
        }
        Link::Http { is_partial: true, .. } if is_busy => {
            let text = format!("{} within an answer", kind.text);
            Lost::Operation(Kind::new(kind.cause, text), example)
        }
        Link::Securing | Link::Socket(_) => Lost::Operation(kind, example),
        _ if is_busy => Lost::Operation(kind, example),
        // A kept-alive connection between two requests: servers may close it. The next request
        // makes a new one.
        _ if matches!(kind.cause, Cause::Closed | Cause::NotReading) => {
            Lost::Nobody(IDLE_CLOSED, String::new())
        }
        _ => Lost::Nobody(kind, example),
    }
}

/// What a player does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It ends the run.
    Stop,
    /// It leaves.
    Leave,
    /// It goes on with its next step.
    GoOn {
        /// After so long.
        wait_ns: u64,
    },
    /// It begins its session again.
    Restart,
}

/// What a failed operation of `player`, which was sent or not, means by its step.
pub(super) fn after(plan: &SessionPlan, player: &Player, was_sent: bool, link: &Link) -> After {
    let step = plan.steps.get(usize::from(player.step));
    let is_gone = matches!(link, Link::None);
    match step.map_or(OnError::Restart, |step| step.on_error) {
        OnError::Stop => After::Stop,
        OnError::Leave => After::Leave,
        OnError::Continue if !(is_gone && needs_socket(plan, player.step)) => {
            let wait_ns = match was_sent {
                true if is_gone => RECONNECT_NS,
                true => 0,
                // Not even sent: a server that is not there is not to be flooded.
                false => RESTART_NS,
            };
            After::GoOn { wait_ns }
        }
        OnError::Continue | OnError::Restart | OnError::Auto => After::Restart,
    }
}

/// Whether the step at `step` needs a socket that an earlier step has opened.
fn needs_socket(plan: &SessionPlan, step: u16) -> bool {
    let is_connect = |kind: &StepKind| matches!(kind, StepKind::Connect { .. });
    let before = plan.steps.iter().take(usize::from(step));
    before.rev().any(|step| is_connect(&step.kind)) || plan.steps.get(usize::from(step)).is_none()
}
