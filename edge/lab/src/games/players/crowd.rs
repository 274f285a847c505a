//! The threads that play: each waits for the sockets of its players and for what they have to send.
//!
//! In: servers to join and to leave, and the word when a stretch begins and ends. Out: what was seen. A plain
//! loop and not the engine's: the moment at which a datagram came has to be the kernel's, so that a generator
//! that is late does not call the server late, and the engine does not tell it. What is read late is known
//! ([`GeneratorSeen::behind`]), and so is what was sent late.

mod table;
mod worker;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::seen::{GeneratorSeen, ServerSeen};
use crate::games::query::{Info, Query};
use worker::Worker;

/// Time for a thread to answer; it looks many times a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and who is to play there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) query: Query,
    pub(crate) players: u32,
    /// Between two datagrams of a player.
    pub(crate) period: Duration,
}

/// How to play.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Processors of the threads; any if there are none.
    pub(crate) cores: Vec<usize>,
    /// Before all ordinary threads.
    pub(crate) is_realtime: bool,
}

/// How far a server's players are.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) players: u32,
    pub(crate) playing: u32,
    pub(crate) refused: Option<&'static str>,
    pub(crate) info: Option<Info>,
}

/// Why there are no players.
#[derive(Debug, thiserror::Error)]
pub enum CrowdError {
    /// No thread, or none as asked for.
    #[error("a thread of players cannot be started: {0}")]
    Start(String),
    /// A thread has ended, or does not answer.
    #[error("the players of {0} do not answer")]
    Gone(String),
}

/// A stretch that has ended.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) servers: Vec<ServerSeen>,
    pub(super) generator: GeneratorSeen,
}

#[derive(Debug)]
pub(super) enum Order {
    Join(Place),
    Leave(String),
    Look(Sender<Vec<Look>>),
    Begin,
    End(Sender<Seen>),
}

struct Thread {
    /// Gone when the thread is to end.
    orders: Option<Sender<Order>>,
    handle: Option<JoinHandle<()>>,
    servers: Vec<String>,
}

/// All players.
pub(crate) struct Crowd(Vec<Thread>);

impl Crowd {
    /// Starts the threads.
    ///
    /// # Errors
    /// When one cannot have what it is to have.
    pub(crate) fn start(settings: &Settings) -> Result<Self, CrowdError> {
        let mut crowd = Self(Vec::new());
        for index in 0..settings.threads.max(1) {
            let (orders, inbox) = channel();
            let (ready, is_ready) = channel();
            let own = settings.clone();
            let handle = std::thread::Builder::new()
                .name(format!("players-{index}"))
                .spawn(move || match Worker::new(&own, index, inbox) {
                    Ok(worker) => {
                        let _ = ready.send(Ok(()));
                        worker.run();
                    }
                    Err(error) => drop(ready.send(Err(error))),
                })
                .map_err(|error| CrowdError::Start(error.to_string()))?;
            crowd.0.push(Thread {
                orders: Some(orders),
                handle: Some(handle),
                servers: Vec::new(),
            });
            answer(&is_ready, "a thread")?.map_err(CrowdError::Start)?;
        }
        Ok(crowd)
    }

    /// Lets players join a server; they go on trying until they are told to leave.
    ///
    /// # Errors
    /// When their thread has ended.
    pub(crate) fn join(&mut self, place: Place) -> Result<(), CrowdError> {
        let least = self.0.iter_mut().min_by_key(|it| it.servers.len());
        let gone = || CrowdError::Gone(place.name.clone());
        let thread = least.ok_or_else(gone)?;
        thread.servers.push(place.name.clone());
        thread.tell(Order::Join(place.clone())).ok_or_else(gone)
    }

    /// Lets them leave.
    pub(crate) fn leave(&mut self, name: &str) {
        for thread in &mut self.0 {
            let before = thread.servers.len();
            thread.servers.retain(|it| it != name);
            if thread.servers.len() < before {
                // Who is not there any more has left.
                let _ = thread.tell(Order::Leave(name.to_owned()));
            }
        }
    }

    /// How far they are.
    ///
    /// # Errors
    /// When a thread has ended.
    pub(crate) fn look(&self) -> Result<Vec<Look>, CrowdError> {
        Ok(self.ask(Order::Look)?.into_iter().flatten().collect())
    }

    /// The stretch that counts begins.
    pub(crate) fn begin(&self) {
        for thread in &self.0 {
            // One that has ended is found when the stretch ends.
            let _ = thread.tell(Order::Begin);
        }
    }

    /// It ends: what was seen of each server, in the order in which they were joined, and of the threads.
    ///
    /// # Errors
    /// When a thread has ended.
    pub(crate) fn end(&self) -> Result<(Vec<ServerSeen>, GeneratorSeen), CrowdError> {
        let mut all = Seen::default();
        for seen in self.ask(Order::End)? {
            all.servers.extend(seen.servers);
            all.generator.add(&seen.generator);
        }
        Ok((all.servers, all.generator))
    }

    fn ask<T>(&self, order: impl Fn(Sender<T>) -> Order) -> Result<Vec<T>, CrowdError> {
        let name = || "a server".to_owned();
        let asked = self.0.iter().map(|thread| {
            let (reply, answer) = channel();
            thread.tell(order(reply)).map(|()| answer).ok_or_else(|| CrowdError::Gone(name()))
        });
        // All are asked before the first is waited for.
        let asked: Vec<_> = asked.collect::<Result<_, _>>()?;
        asked.iter().map(|it| answer(it, &name())).collect()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for thread in &mut self.0 {
            drop(thread.orders.take());
        }
        for thread in &mut self.0 {
            if let Some(handle) = thread.handle.take() {
                // One that has panicked has said so.
                drop(handle.join());
            }
        }
    }
}

impl Thread {
    fn tell(&self, order: Order) -> Option<()> {
        self.orders.as_ref()?.send(order).ok()
    }
}

fn answer<T>(from: &Receiver<T>, name: &str) -> Result<T, CrowdError> {
    from.recv_timeout(PATIENCE).map_err(|error| match error {
        RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => {
            CrowdError::Gone(name.to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Crowd, Place, Settings};
    use crate::games::query::Query;
    use crate::games::reference::{Options, Server};

    #[test]
    fn players_play_on_a_server_of_our_own() {
        let options = Options { tick_hz: 100, work: Duration::ZERO, ..Options::default() };
        let driver = "auto".parse().unwrap();
        let server = Server::start(([127, 0, 0, 1], 0).into(), driver, options).unwrap();
        let mut crowd = Crowd::start(&Settings { threads: 2, ..Settings::default() }).unwrap();
        let place = Place {
            name: "a".to_owned(),
            address: server.address(),
            query: Query::Throng,
            players: 3,
            period: Duration::from_millis(20),
        };
        crowd.join(place).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let is_in = |crowd: &Crowd| {
            let look = crowd.look().unwrap();
            look.len() == 1 && look[0].playing == 3 && look[0].info.is_some()
        };
        while !is_in(&crowd) {
            assert!(Instant::now() < deadline, "{:?}", crowd.look());
            std::thread::yield_now();
        }
        crowd.begin();
        std::thread::sleep(Duration::from_millis(500));
        let (servers, generator) = crowd.end().unwrap();
        assert_eq!((servers.len(), servers[0].players, servers[0].lost), (1, 3, 0));
        let it = &servers[0];
        assert!(it.tick_ns == 10_000_000 && it.snapshots > 10 && it.commands > 5, "{it:?}");
        let transactions = it.transactions.histogram().unwrap();
        assert!(transactions.len() > 5 && transactions.max() > 0);
        assert_eq!(it.lateness.histogram().unwrap().len(), it.snapshots);
        assert!(generator.sent > 5 && generator.received > 10 && generator.cpu_ns > 0);
        crowd.leave("a");
        assert!(crowd.look().unwrap().is_empty());
        drop(crowd);
        server.stop().unwrap();
    }
}
