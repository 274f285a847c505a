//! The reference server as a program: one core thread of the engine with one socket.
//!
//! In: an address. Out: a game until it is stopped.

use std::net::SocketAddr;

use engine::{DriverChoice, Engine, Running, ThreadPlan};

use super::simulation::{Options, Simulation, Word};

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Asked for wrongly.
    #[error("{0}")]
    Options(String),
    /// The port.
    #[error("cannot take datagrams at {address}: {error}")]
    Bind {
        /// Asked for.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// The engine.
    #[error("cannot start the engine: {0}")]
    Engine(#[from] engine::StartError),
    /// It ended badly.
    #[error(transparent)]
    Failed(#[from] engine::ThreadFailed),
}

/// A server that runs.
pub struct Server {
    running: Running<Word>,
    address: SocketAddr,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// When the options contradict themselves, or the port is taken.
    pub fn start(
        address: SocketAddr,
        driver: DriverChoice,
        options: Options,
    ) -> Result<Self, ServerError> {
        if let Some(fault) = options.fault() {
            return Err(ServerError::Options(fault));
        }
        let failed = |error| ServerError::Bind { address, error };
        let sockets = engine::bind_udp(address, 1).map_err(failed)?;
        let bound = sockets.first().map(std::net::UdpSocket::local_addr);
        let bound = bound.transpose().map_err(failed)?.unwrap_or(address);
        let mut engine = Engine::new(driver);
        let plan = ThreadPlan::core("game", Vec::new(), move |_| Simulation::new(options));
        let thread = engine.add(plan.with_sockets(sockets));
        let running = engine.start()?;
        // Its mailbox is empty, so that there is room.
        let _ = running.post(thread, Word::Begin);
        Ok(Self { running, address: bound })
    }

    /// Where it takes datagrams.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells it to end, and waits until it has.
    ///
    /// # Errors
    /// When it had ended badly.
    pub fn stop(self) -> Result<(), ServerError> {
        self.running.stop();
        Ok(self.running.join()?)
    }
}
