//! What every thread with scripts has on its desk: a database connection, randomness, replicas of
//! the directory and the cache. [`LoadingHost`] is what modules may ask for while they load.

use std::sync::Arc;

use bytes::Bytes;
use event::{Now, Output, Random, ThreadId};
use game::cache::Cache;
use game::db::Database;
use game::directory::Directory;
use game::guest::{
    Dispatcher, Host, HostError, HostSettings, LogLevel, Machine, NoMachine, Scripts,
};
use game::value::Value;
use uuid::Uuid;

use crate::mail::{Mail, Topology};

/// What a script's thread works with.
pub struct Desk {
    /// The thread's database connection.
    pub db: Box<dyn Database + Send>,
    /// Its randomness.
    pub random: Random,
    /// What scripts may see of the settings.
    pub host: Arc<HostSettings>,
    /// The wall clock, unix milliseconds: scripts that wait for it must see it move.
    pub unix_ms: Box<dyn Fn() -> u64 + Send>,
    /// What its scripts may have of the machine; nothing, unless the wiring says otherwise.
    pub machine: Box<dyn Machine + Send>,
    /// Its replica of the directory.
    pub directory: Directory,
    /// Its replica of the scripts' cache.
    pub cache: Cache,
}

/// What a thread that runs scripts is given by the wiring.
pub struct Kit {
    /// Its guest code.
    pub scripts: Box<dyn Scripts + Send>,
    /// The rest.
    pub desk: Desk,
}

impl Desk {
    /// A desk with empty replicas for thread number `thread`.
    #[must_use]
    pub fn new(
        thread: u16,
        db: Box<dyn Database + Send>,
        random: Random,
        host: Arc<HostSettings>,
        unix_ms: Box<dyn Fn() -> u64 + Send>,
    ) -> Self {
        let directory = Directory::new(&host.node);
        let machine = Box::new(NoMachine);
        Self { db, random, host, unix_ms, machine, directory, cache: Cache::new(thread) }
    }
}

impl Desk {
    /// Tells the other replicas what scripts have changed in the cache since the last call.
    pub(crate) fn post_cache(&mut self, me: ThreadId, topology: &Topology, out: &mut Output<Mail>) {
        for change in self.cache.take_changes() {
            for to in topology.scripted().filter(|to| *to != me) {
                out.mail_lazy(to, Mail::Cache(change.clone()));
            }
        }
    }
}

/// The methods of [`Host`] that are the same everywhere: they hand out what lies on the desk.
macro_rules! from_desk {
    ($($desk:tt).+) => {
        fn now(&self) -> event::Now {
            event::Now { unix_ms: (self.$($desk).+.unix_ms)(), ..self.now }
        }

        fn random(&mut self) -> &mut event::Random {
            &mut self.$($desk).+.random
        }

        fn db(&mut self) -> &mut dyn game::db::Database {
            &mut *self.$($desk).+.db
        }

        fn settings(&self) -> &game::guest::HostSettings {
            &self.$($desk).+.host
        }

        fn directory(&self) -> &game::directory::Directory {
            &self.$($desk).+.directory
        }

        fn cache(&mut self) -> &mut game::cache::Cache {
            &mut self.$($desk).+.cache
        }

        fn machine(&self) -> &dyn game::guest::Machine {
            &*self.$($desk).+.machine
        }

        fn log(&mut self, level: game::guest::LogLevel, text: &str) {
            crate::desk::log_of_script(level, text);
        }
    };
}
pub(crate) use from_desk;

/// A log line of a script, in the server's log.
pub(crate) fn log_of_script(level: LogLevel, text: &str) {
    match level {
        LogLevel::Debug => tracing::debug!(target: "script", "{text}"),
        LogLevel::Info => tracing::info!(target: "script", "{text}"),
        LogLevel::Warn => tracing::warn!(target: "script", "{text}"),
        LogLevel::Error => tracing::error!(target: "script", "{text}"),
    }
}

/// The host while modules load: the database and the cache are there, matches and sessions are not
/// yet.
pub struct LoadingHost<'a> {
    now: Now,
    desk: &'a mut Desk,
}

impl<'a> LoadingHost<'a> {
    /// Lends a desk to modules that load.
    pub fn new(now: Now, desk: &'a mut Desk) -> Self {
        Self { now, desk }
    }
}

const LOADING: &str = "not possible while modules load: the server has not started";

impl Host for LoadingHost<'_> {
    from_desk!(desk);

    fn match_create(&mut self, _module: &str, _params: Value) -> Result<String, HostError> {
        Err(HostError::new(LOADING))
    }

    fn match_signal(&mut self, _match_id: &str, _data: Bytes) -> Result<Bytes, HostError> {
        Err(HostError::new(LOADING))
    }

    // There are no sessions yet, and no tokens that this process has issued.
    fn session_disconnect(&mut self, _session_id: Uuid, _reason: &str) {}
    fn session_logout(&mut self, _user_id: Uuid, _token_id: Option<Uuid>) {}
    fn user_disconnect(&mut self, _user_id: Uuid, _cause: game::api::Disconnect) {}

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}
