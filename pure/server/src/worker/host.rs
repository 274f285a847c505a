//! What a script that runs on a worker may ask for. Matches live on rooms: the worker posts the
//! wish and waits; rooms never wait for workers, so this cannot lock up.

use std::cell::RefCell;

use bytes::Bytes;
use event::{Ask, Now, Random, ThreadId};
use game::cache::Cache;
use game::db::Database;
use game::directory::Directory;
use game::guest::{Dispatcher, Host, HostError, HostSettings, LogLevel};
use game::match_id::MatchId;
use game::value::Value;
use uuid::Uuid;

use crate::mail::{AskError, Mail, Topology};
use crate::settings::Settings;

/// How long a script waits for a room (the contract, D.2: signals and joins wait 10 s).
const PATIENCE_MS: u32 = 10_000;

/// The host of one call on a worker.
pub(super) struct WorkerHost<'a> {
    pub(super) now: Now,
    pub(super) me: ThreadId,
    pub(super) topology: &'a Topology,
    pub(super) settings: &'a Settings,
    pub(super) random: &'a mut Random,
    pub(super) db: &'a mut dyn Database,
    pub(super) host: &'a HostSettings,
    pub(super) directory: &'a mut Directory,
    pub(super) cache: &'a mut Cache,
    pub(super) ask: &'a mut dyn Ask<Mail>,
    pub(super) asked: &'a mut u64,
    pub(super) mails: &'a mut Vec<(ThreadId, Mail)>,
}

impl WorkerHost<'_> {
    fn ask(&mut self, to: ThreadId, make: impl FnOnce(u64) -> Mail) -> Result<Bytes, AskError> {
        *self.asked += 1;
        let id = *self.asked;
        // Directory changes that pass by while waiting are heard at once (and again, without
        // effect, when their mail's turn comes): the script finds listed what it just created.
        let passing = RefCell::new(Vec::new());
        let is_answer = |mail: &Mail| match mail {
            Mail::Directory(events) => {
                passing.borrow_mut().extend_from_slice(events);
                false
            }
            Mail::Answer { ask, .. } => *ask == id,
            _ => false,
        };
        let answer = self.ask.ask(to, make(id), &is_answer, PATIENCE_MS);
        passing.into_inner().iter().for_each(|event| self.directory.apply(event));
        match answer {
            Some(Mail::Answer { outcome, .. }) => outcome,
            _ => Err(AskError::Busy),
        }
    }

    fn tell_cores(&mut self, make: impl Fn() -> Mail) {
        self.mails.extend(self.topology.cores.iter().map(|core| (*core, make())));
    }
}

impl Host for WorkerHost<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn random(&mut self) -> &mut Random {
        self.random
    }

    fn db(&mut self) -> &mut dyn Database {
        self.db
    }

    fn settings(&self) -> &HostSettings {
        self.host
    }

    fn directory(&self) -> &Directory {
        self.directory
    }

    fn cache(&mut self) -> &mut Cache {
        self.cache
    }

    fn log(&mut self, level: LogLevel, text: &str) {
        crate::log_of_script(level, text);
    }

    fn match_create(&mut self, module: &str, params: Value) -> Result<String, HostError> {
        let id = uuid::Builder::from_random_bytes(self.random.bytes()).into_uuid();
        let (to, from, module) = (self.topology.room_of(id), self.me, module.to_owned());
        let answer = self.ask(to, |ask| Mail::Create { ask, from, id, module, params });
        match answer {
            Ok(id) => Ok(String::from_utf8_lossy(&id).into_owned()),
            Err(AskError::Failed(text)) => Err(HostError::new(text)),
            Err(AskError::Busy | AskError::NotFound) => {
                Err(HostError::new("error creating match: the room did not answer within 10 s"))
            }
        }
    }

    fn match_signal(&mut self, match_id: &str, data: Bytes) -> Result<Bytes, HostError> {
        let id = MatchId::parse(match_id, &self.settings.node)
            .map_err(|error| HostError::new(error.to_string()))?;
        let (to, from, id) = (self.topology.room_of(id.uuid), self.me, id.uuid);
        self.ask(to, |ask| Mail::Signal { ask, from, id, data }).map_err(|error| match error {
            AskError::NotFound => HostError::new("match not found"),
            AskError::Busy => HostError::new("match busy"),
            AskError::Failed(text) => HostError::new(text),
        })
    }

    fn session_disconnect(&mut self, session_id: Uuid, reason: &str) {
        self.tell_cores(|| Mail::Disconnect { session_id, reason: reason.to_owned() });
    }

    fn session_logout(&mut self, user_id: Uuid, token_id: Option<Uuid>) {
        let revocation = crate::revocation(self.now, self.host, user_id, token_id);
        let to = self.topology.everybody();
        self.mails.extend(to.map(|to| (to, Mail::Revoke(revocation))));
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}
