//! The Agones SDK, as a game server's own program meets it: gRPC and REST on loopback.
//!
//! One thread of the daemon answers all servers; there is no sidecar. A server with a network of its own
//! finds it there on 127.0.0.1:9357 and :9358, as Agones' clients expect; of the others each has two ports
//! of its own, and its environment says which. What is said comes to a server's [`desk::Desk`], which
//! answers, and tells the daemon of wishes.
//!
//! In: listeners (`door`). Out: answers. Servers are hostile: each has a bounded number of connections, calls
//! and watches, and a bounded rate of bytes ([`door::Door`]), so that the thread has time for all. Not here:
//! what is said (`desk`), and what follows from it (`daemon::one`).
//!
//! Source: agones-dev/agones 1.61.0: proto/sdk, cmd/sdk-server, site/content/en/docs/Guides/Client SDKs.

pub(crate) mod desk;
mod door;
mod grpc;
mod messages;
mod peer;
mod rest;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use desk::Desk;
use door::{Door, Speech};

/// Both listeners of a server.
#[derive(Debug)]
pub(crate) struct Listeners {
    grpc: TcpListener,
    http: TcpListener,
}

impl Listeners {
    /// Opens them on loopback, in the calling thread's network; 0 is any free port.
    ///
    /// # Errors
    /// When a port is taken.
    pub(crate) fn open(grpc: u16, http: u16) -> io::Result<Self> {
        let open = |port| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        };
        Ok(Self { grpc: open(grpc)?, http: open(http)? })
    }

    /// Their ports: of gRPC and of REST.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn ports(&self) -> io::Result<(u16, u16)> {
        Ok((self.grpc.local_addr()?.port(), self.http.local_addr()?.port()))
    }
}

/// What the thread is told.
#[derive(Debug)]
enum Order {
    Open { index: usize, door: Arc<Door>, listeners: Listeners },
    Close { index: usize, round: u64 },
}

/// The SDK's thread. It ends with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct Sdk {
    orders: UnboundedSender<Order>,
}

/// A server whose calls are answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    orders: UnboundedSender<Order>,
    index: usize,
    round: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        // A thread that has ended answers nobody.
        let _ = self.orders.send(Order::Close { index: self.index, round: self.round });
    }
}

impl Sdk {
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start() -> io::Result<Self> {
        // As many orders as servers start and end.
        let (orders, received) = unbounded_channel();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let thread = std::thread::Builder::new().name("sdk".to_owned());
        thread.spawn(move || runtime.block_on(serve(received)))?;
        Ok(Self { orders })
    }

    /// Answers a server's calls from now on; if a user is given, only those of that user, and of root.
    pub(crate) fn open(
        &self,
        index: usize,
        round: u64,
        desk: Arc<Desk>,
        user: Option<u32>,
        listeners: Listeners,
    ) -> Open {
        let door = Arc::new(Door::new(desk, round, user));
        // As above.
        let _ = self.orders.send(Order::Open { index, door, listeners });
        Open { orders: self.orders.clone(), index, round }
    }
}

/// The thread: opens and closes doors.
async fn serve(mut orders: UnboundedReceiver<Order>) {
    let peers = Arc::new(peer::Peers::new().ok());
    let mut open: BTreeMap<usize, (u64, JoinSet<()>)> = BTreeMap::new();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Open { index, door, listeners } => {
                let round = door.round;
                let mut both = JoinSet::new();
                for (speech, listener) in
                    [(Speech::Grpc, listeners.grpc), (Speech::Rest, listeners.http)]
                {
                    // It is fresh, and this is the thread of the run-time: nothing can be wrong with it.
                    if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                        both.spawn(door::stand(
                            Arc::clone(&door),
                            listener,
                            speech,
                            Arc::clone(&peers),
                        ));
                    }
                }
                open.insert(index, (round, both));
            }
            // With the tasks at its listeners go all of its connections.
            Order::Close { index, round } => {
                if open.get(&index).is_some_and(|(at, _)| *at == round) {
                    open.remove(&index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
