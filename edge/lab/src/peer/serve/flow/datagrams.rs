//! A lane of datagrams: a socket that is connected to one of the client's, and the thread that receives
//! from it or sends to it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use engine::datagram::{SendStyle, Style};
use socket2::{Domain, Socket, Type};

use super::super::shares::Share;
use super::super::state::State;
use super::Flow;
use crate::flow::lanes::{self, Hearing, receive_datagrams};
use crate::flow::meter::Lane;

/// Why a socket of datagrams cannot be had.
const NO_MEMORY: &str = "no memory for so many (-m, -l)";

const ONE_BY_FRAMES: &str = "--style xdp: another flow has it now: try again later";

/// A lane of datagrams.
pub(super) struct Datagrams {
    pub(super) flow: Arc<Flow>,
    pub(super) lane: Arc<Lane>,
    /// Connected to the client's.
    pub(super) socket: UdpSocket,
    pub(super) session: u64,
    pub(super) state: Arc<State>,
    pub(super) _place: Share,
}

impl Datagrams {
    /// Receives or sends until the flow is over; says whether it can in `opened`. The client's socket was
    /// heard then.
    pub(super) fn carry(self, opened: &Sender<Result<(), String>>, heard_at: Instant) {
        if self.flow.asked.is_back {
            self.send(opened, heard_at);
        } else {
            self.receive(opened);
        }
    }

    fn receive(self, opened: &Sender<Result<(), String>>) {
        let Self { flow, lane, socket, session, state, _place } = self;
        let mut worker = flow.worker(&lane);
        let setup = lanes::setup(flow.asked.bytes, flow.asked.work);
        let style: Style = flow.asked.style.parse().unwrap_or(Style::Recv);
        let room = state.room(flow.peer, lanes::receiver_bytes(style, &setup));
        let ready = room.map_err(|_| NO_MEMORY.to_owned()).and_then(|room| {
            let frames = u64::from(style == Style::Xdp);
            let frames = state.by_frames.take(flow.peer, frames);
            let frames = frames.map_err(|_| ONE_BY_FRAMES.to_owned())?;
            let receiver = lanes::receiver(style, socket, setup);
            let receiver = receiver.map_err(|error| format!("--style {style}: {error}"))?;
            Ok((room, frames, receiver))
        });
        // Whoever waits for it may have stopped waiting.
        match ready {
            Ok((_room, _frames, mut receiver)) => {
                let _ = opened.send(Ok(()));
                // What the system says of one lane stands in its counts: it has got nothing more.
                let _ = receive_datagrams(&mut *receiver, &mut worker, session, flow.work);
            }
            Err(why) => {
                let _ = opened.send(Err(why));
            }
        }
        flow.add_bytes(&state, worker.tally.bytes);
    }

    /// Sends to where the client's datagrams come from, and while they do.
    fn send(self, opened: &Sender<Result<(), String>>, heard_at: Instant) {
        let Self { flow, lane, socket, session, state, _place } = self;
        let mut worker = flow.worker(&lane);
        let style: SendStyle = flow.asked.send_style.parse().unwrap_or(SendStyle::One);
        let bytes = usize::try_from(flow.asked.bytes).unwrap_or(0);
        let room = state.room(flow.peer, lanes::Datagrams::buffer_bytes(style, bytes));
        let ready = room.map_err(|_| NO_MEMORY.to_owned()).and_then(|room| {
            let hearing = Hearing::new(&socket, session, heard_at).map_err(|it| it.to_string())?;
            let sender = lanes::Datagrams::open(socket, style, session, bytes)
                .map_err(|error| format!("--send-style {style}: {error}"))?;
            Ok((room, sender.while_heard(hearing)))
        });
        match ready {
            Ok((_room, sender)) => {
                let _ = opened.send(Ok(()));
                // As in `receive`.
                let _ = sender.send(&mut worker, flow.pace);
            }
            Err(why) => {
                let _ = opened.send(Err(why));
            }
        }
        flow.add_bytes(&state, worker.tally.bytes);
    }
}

/// A socket at a port that others have too, which gets what comes from one sender alone. Source:
/// socket(7), `SO_REUSEPORT`; of connected sockets the kernel prefers the one whose peer it is.
pub(super) fn connected(local: SocketAddr, peer: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
