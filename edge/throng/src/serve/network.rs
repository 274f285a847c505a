//! The thread of requests of scripts to other servers (`fetch`), wired to the engine: threads with scripts
//! order through doors, and what comes of an order is posted to the thread as mail.
//!
//! The thread is there before the engine runs, because scripts are loaded first; nobody can ask before the
//! engine runs. Not here: whom scripts may ask, and how much (`fetch.*`).

use std::sync::{Arc, OnceLock, Weak};

use anyhow::Context as _;
use engine::Running;
use event::ThreadId;
use fetch::{Door, FetchStats, Fetcher, Outcome};
use server::mail::{Fetched, Mail, Topology};

use crate::config::Config;

/// The threads that outcomes are posted to.
struct Threads {
    /// Weak, so that the last owner can join them.
    running: Weak<Running<Mail>>,
    topology: Arc<Topology>,
}

impl Threads {
    /// Posts an outcome; gives it back while there is no room.
    fn post(&self, outcome: Outcome) -> Result<(), Outcome> {
        let Outcome { thread, ticket, result } = outcome;
        let Some(asker) = self.topology.asker(thread) else {
            unreachable!("thread {} has a door, and runs no scripts", thread.0)
        };
        let fetched = Fetched { number: ticket, result };
        let (to, mail) = asker.seal_fetched(&self.topology, fetched);
        // Who waited has ended with all threads.
        let Some(running) = self.running.upgrade() else { return Ok(()) };
        let Err(mail) = running.post(to, mail) else { return Ok(()) };
        let Some(Fetched { number, result }) = mail.into_fetched() else { return Ok(()) };
        Err(Outcome { thread, ticket: number, result })
    }
}

/// The way of scripts to other servers.
pub(super) struct Network {
    fetcher: Fetcher,
    threads: Arc<OnceLock<Threads>>,
}

impl Network {
    /// Starts the thread, if scripts may ask other servers.
    ///
    /// # Errors
    /// In words for the operator.
    pub(super) fn start(config: &Config) -> anyhow::Result<Option<Self>> {
        if !config.fetch.enabled {
            return Ok(None);
        }
        let threads = Arc::new(OnceLock::<Threads>::new());
        let to = Arc::clone(&threads);
        let post = move |outcome| match to.get() {
            Some(threads) => threads.post(outcome),
            None => Err(outcome),
        };
        let fetcher = Fetcher::start(config.fetch.settings.clone(), Arc::new(post))
            .context("scripts cannot be let ask other servers (`fetch.enabled`)")?;
        Ok(Some(Self { fetcher, threads }))
    }

    /// Says where the threads are, once they run.
    ///
    /// # Panics
    /// They have been told of before.
    pub(super) fn connect(&self, running: &Arc<Running<Mail>>, topology: &Arc<Topology>) {
        let threads = Threads { running: Arc::downgrade(running), topology: Arc::clone(topology) };
        assert!(self.threads.set(threads).is_ok(), "one engine more");
    }

    /// The way in for one thread.
    pub(super) fn door(&self, thread: ThreadId) -> Door {
        self.fetcher.door(thread)
    }

    pub(super) fn stats(&self) -> Arc<FetchStats> {
        self.fetcher.stats()
    }

    /// Gives all requests up: the server stops.
    pub(super) fn stop(&self) {
        self.fetcher.stop();
    }
}
