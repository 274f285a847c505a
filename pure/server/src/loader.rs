//! The thread that loads modules again: it makes the next version of the guest code beside the one that
//! serves, an instance for each thread that runs some, and hands them out by mail.
//!
//! ```text
//! a signal, a core (`POST /v2/runtime/reload`), the folder (`runtime.watch`)
//!    └▶ wanted ─▶ Building ─▶ HandingOver ──────────▶ Telling ─▶ serves: who asked is answered
//!                    │         workers, rooms: Holds   cores: Took
//!                    └▶ does not load: the version before stays, who asked is told why
//! a worker whose memory is used up ── Spent ─▶ Renewals ─▶ an instance of what serves, by mail
//! ```
//!
//! Cores hear of a version only when every worker and room has it, so that what they hand out by its hooks
//! finds its functions. Whoever asks while a version is being made is answered by the next one: its files
//! may have been read before they were written. What of older versions is still held, threads tell when it
//! changes; beyond [`OLDER_VERSIONS_MAX`] none is loaded, because each holds memory of its own for as long
//! as its matches run.
//!
//! The batcher, the companions of cores and callers must not run modules, which may take long: where calls have used up
//! the memory of theirs, an instance is made here as well (`renewals`), one a turn, between loadings; those of callers,
//! for which calls wait, also between the instances of a loading.
//!
//! Not here: reading, compiling and running modules ([`Library`], which `edge/throng` implements), and who
//! may ask (`core::requests`). An instance is made in a turn of its own, in which this thread blocks.

mod renewals;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use event::{Handler, Input, Now, Output, ThreadId};
use game::api::Answer;
use game::error::{ApiError, Code};
use game::guest::GuestVersion;
use game::host::json;
use game::value::Value;

use crate::guests::NewGuests;
use crate::hooks::Hooks;
use crate::limit_log::LimitLog;
use crate::mail::{
    Address, Asker, CoreMail, Done, Holds, Job, LoaderMail, Mail, News, Outcome, Post as _,
    RoomMail, Topology, WorkerAddress,
};
use crate::retry_queue::RetryQueue;
use crate::stats::LoaderStats;
use renewals::Renewals;

/// Older versions that matches and calls may hold while one more is loaded. A match of an hour lives
/// through as many; each costs what the VMs of its matches hold, and for WebAssembly the compiled code.
pub const OLDER_VERSIONS_MAX: usize = 8;

/// Requests that wait for one loading; each has a connection.
const WAITERS_MAX: usize = 16;

/// From the beginning of one loading to that of the next, milliseconds, at least: what is asked for
/// meanwhile is one loading, however often.
const GAP_MS: u64 = 100;

/// How often the folder is looked at, milliseconds. It is quiet when two looks see the same.
const LOOK_MS: u64 = 500;

/// What loads modules: files, compilers and VMs.
pub trait Library {
    /// The names, sizes and times of all files of the folder, as one number; 0 if it cannot be read.
    fn look(&mut self) -> u64;

    /// Reads and compiles the files. What was read before and does not serve is forgotten.
    ///
    /// # Errors
    /// Why not, with file and line if possible, for the log and for who asked.
    fn read(&mut self, version: GuestVersion) -> Result<Edition, String>;

    /// Runs what was read as this version, or what serves, for this thread.
    ///
    /// # Errors
    /// As [`Library::read`].
    fn instance(&mut self, version: GuestVersion, thread: ThreadId) -> Result<NewGuests, String>;

    /// This version serves. The one before is forgotten, and so is one that was read and does not load.
    fn serves(&mut self, version: GuestVersion);
}

/// What was read of the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// Its number.
    pub version: GuestVersion,
    /// The beginning of a hash of its files, in hexadecimal.
    pub hash: String,
}

/// Sees when the files of a folder have changed and are quiet again.
#[derive(Debug)]
struct Watch {
    loaded: u64,
    last: u64,
}

impl Watch {
    /// Whether to load: what is there now is not what was loaded, and as it was at the last look. It
    /// counts as loaded then, whether it loads or not.
    fn sees(&mut self, look: u64) -> bool {
        let is_quiet = look == self.last;
        self.last = look;
        let loads = is_quiet && look != self.loaded;
        if loads {
            self.loaded = look;
        }
        loads
    }
}

/// What is being done.
enum Stage {
    Idle,
    /// Instances are made, one a turn.
    Building {
        edition: Edition,
        hooks: Option<Hooks>,
        left: VecDeque<Asker>,
        made: Vec<(Asker, NewGuests)>,
    },
    /// These workers and rooms have not taken theirs yet.
    HandingOver {
        edition: Edition,
        hooks: Hooks,
        missing: BTreeSet<ThreadId>,
    },
    /// These cores do not know of it yet.
    Telling {
        edition: Edition,
        missing: BTreeSet<Address<CoreMail>>,
    },
}

/// The handler of the loader's thread.
pub struct Loader {
    me: Address<LoaderMail>,
    topology: Arc<Topology>,
    stats: Arc<LoaderStats>,
    library: Box<dyn Library + Send>,
    watch: Option<Watch>,
    look_ns: u64,
    stage: Stage,
    serving: Edition,
    /// The number of the latest loading, whatever came of it.
    latest: GuestVersion,
    /// Whether modules are to be loaded again, and by when they may be.
    is_wanted: bool,
    next_ns: u64,
    /// Who asked for the loading that is under way, and for the next one.
    asked: Vec<Job>,
    waiting: Vec<Job>,
    holds: BTreeMap<ThreadId, Holds>,
    /// Whose memory is used up.
    renewals: Renewals,
    /// Between a loading and a renewal that both are due: whose turn it is.
    is_renewals_turn: bool,
    /// Answers of this turn.
    done: Vec<(Address<CoreMail>, Vec<Done>)>,
    retries: RetryQueue,
    limit_log: LimitLog,
}

impl Loader {
    /// A loader beside the version that the server has started with.
    ///
    /// # Panics
    /// The topology has none.
    #[must_use]
    pub fn new(
        topology: Arc<Topology>,
        stats: Arc<LoaderStats>,
        (library, serving): (Box<dyn Library + Send>, Edition),
    ) -> Self {
        let Some(me) = topology.loader else { unreachable!("a loader that nobody can post to") };
        let loader = Self {
            me,
            topology,
            stats,
            library,
            watch: None,
            look_ns: 0,
            stage: Stage::Idle,
            latest: serving.version,
            serving,
            is_wanted: false,
            next_ns: 0,
            asked: Vec::new(),
            waiting: Vec::new(),
            holds: BTreeMap::new(),
            renewals: Renewals::default(),
            is_renewals_turn: false,
            done: Vec::new(),
            retries: RetryQueue::default(),
            limit_log: LimitLog::default(),
        };
        loader.tell_versions();
        loader
    }

    fn mail(&mut self, now: Now, mail: LoaderMail, out: &mut Output<Mail>) {
        match mail {
            LoaderMail::Signal => self.is_wanted = true,
            LoaderMail::Watch => {
                let look = self.library.look();
                self.watch = Some(Watch { loaded: look, last: look });
            }
            LoaderMail::Job(job) if self.waiting.len() >= WAITERS_MAX => {
                self.stats.reloads_refused.up();
                let text = format!("{WAITERS_MAX} requests wait for the modules to be loaded");
                self.limit_log.hit(now, "WAITERS_MAX of the loader", format_args!("{text}"));
                self.answer(&job, Err(ApiError::new(Code::ResourceExhausted, text)));
            }
            LoaderMail::Job(job) => {
                self.is_wanted = true;
                self.waiting.push(*job);
            }
            LoaderMail::Holds(holds) => self.thread_holds(*holds, out),
            // Here nobody waits for it to be freed.
            LoaderMail::Retired(scripts) => drop(scripts),
            LoaderMail::Spent { worker, version, what } => {
                drop(what);
                let is_caller = matches!(worker, WorkerAddress::Caller(to) if self.topology.callers.contains(&to));
                self.renewals.want(now, worker, is_caller, version);
                self.tell_missing();
            }
            LoaderMail::Took { core, version } => self.core_took(core, version),
        }
    }

    /// Looks at the folder, or does the next step of a loading.
    fn wake(&mut self, now: Now, out: &mut Output<Mail>) {
        self.retries.post_due(now, out);
        if let Some(watch) = &mut self.watch
            && now.mono_ns >= self.look_ns
        {
            self.look_ns = now.after_ms(LOOK_MS).mono_ns;
            if watch.sees(self.library.look()) {
                tracing::info!("the modules have changed (runtime.watch)");
                self.is_wanted = true;
            }
        }
        match &self.stage {
            Stage::Idle => self.do_next(now, out),
            Stage::Building { .. } => {
                let urgent = self.renewals.urgent(now).filter(|_| self.is_renewals_turn);
                self.is_renewals_turn = urgent.is_none();
                match urgent {
                    Some(worker) => self.renew(now, worker, out),
                    None => self.build(out),
                }
            }
            Stage::HandingOver { .. } | Stage::Telling { .. } => {}
        }
    }

    /// Begins a loading or makes an instance anew; in turns, if both are due.
    fn do_next(&mut self, now: Now, out: &mut Output<Mail>) {
        self.renewals.forget_all_but(self.serving.version);
        self.tell_missing();
        let loads = self.is_wanted && now.mono_ns >= self.next_ns;
        if let Some(worker) = self.renewals.due(now)
            && (self.is_renewals_turn || !loads)
        {
            self.is_renewals_turn = false;
            self.renew(now, worker, out);
        } else if loads {
            self.is_renewals_turn = true;
            self.begin(now);
        }
    }

    /// Makes an instance of what serves for this thread.
    fn renew(&mut self, now: Now, worker: WorkerAddress, out: &mut Output<Mail>) {
        let (version, thread) = (self.serving.version, worker.thread());
        match self.library.instance(version, thread) {
            Ok(new) => {
                self.renewals.made(worker);
                self.stats.scripts_renewed.up();
                let (to, mail) = worker.seal(&self.topology, News::Guests(Box::new(new)));
                out.mail(to, mail);
            }
            Err(why) => {
                if self.renewals.failed(now, worker) {
                    let (to, mail) = worker.seal(&self.topology, News::NoGuests);
                    out.mail(to, mail);
                }
                let text = format_args!(
                    "version {version} for thread {}, whose memory was used up (runtime.memory_max_bytes); its calls \
                     run at other callers until it does, or are refused: {why}",
                    thread.0
                );
                self.limit_log.note(now, "modules do not load once more", text);
            }
        }
        self.tell_missing();
    }

    fn tell_missing(&self) {
        self.stats.scripts_missing.set(self.renewals.wanted() as u64);
    }

    fn begin(&mut self, now: Now) {
        self.is_wanted = false;
        self.next_ns = now.after_ms(GAP_MS).mono_ns;
        self.asked = std::mem::take(&mut self.waiting);
        if let Some(text) = self.too_many() {
            self.stats.reloads_refused.up();
            tracing::error!("the modules are not loaded again: {text}");
            return self.answer_asked(&Err(ApiError::new(Code::FailedPrecondition, text)));
        }
        self.latest = self.latest.next();
        let version = self.latest;
        tracing::info!(version = version.0, "loading the modules again");
        match self.library.read(version) {
            Err(why) => self.fail(version, &why),
            Ok(edition) => {
                assert_eq!(edition.version, version, "another version was read");
                let left = self.topology.scripted().filter_map(|to| self.topology.asker(to));
                let (left, made) = (left.collect(), Vec::new());
                self.stage = Stage::Building { edition, hooks: None, left, made };
            }
        }
    }

    /// Makes the next instance; hands them out when it was the last.
    fn build(&mut self, out: &mut Output<Mail>) {
        let Stage::Building { edition, mut hooks, mut left, mut made } =
            std::mem::replace(&mut self.stage, Stage::Idle)
        else {
            unreachable!("nothing is being built")
        };
        let version = edition.version;
        if let Some(to) = left.pop_front() {
            let new = match self.library.instance(version, thread_of(to)) {
                Ok(new) => new,
                Err(why) => return self.fail(version, &why),
            };
            // Of the first thread: it runs all languages.
            let hooks_of = hooks
                .get_or_insert_with(|| Hooks::new(new.scripts.registered()).of_version(version));
            if hooks_of.needs_events_thread() && self.topology.events.is_none() {
                return self.fail(version, NO_EVENTS);
            }
            made.push((to, new));
            self.stage = Stage::Building { edition, hooks, left, made };
            return;
        }
        let missing = made.iter().map(|(to, _)| thread_of(*to)).collect();
        for (to, new) in made {
            let new = Box::new(new);
            let (to, mail) = match to {
                Asker::Worker(worker) => worker.seal(&self.topology, News::Guests(new)),
                Asker::Room(room) => room.seal(&self.topology, RoomMail::Guests(new)),
            };
            out.mail(to, mail);
        }
        let hooks = hooks.unwrap_or_default();
        self.stage = Stage::HandingOver { edition, hooks, missing };
    }

    /// A thread tells what it holds: that it has taken the version that is handed over, or that an older
    /// one is less in use.
    fn thread_holds(&mut self, holds: Holds, out: &mut Output<Mail>) {
        let (thread, newest) = (holds.thread, holds.newest);
        self.holds.insert(thread, holds);
        self.tell_versions();
        let Stage::HandingOver { edition, missing, .. } = &mut self.stage else { return };
        if newest == edition.version {
            missing.remove(&thread);
        }
        if !missing.is_empty() {
            return;
        }
        let Stage::HandingOver { edition, hooks, .. } =
            std::mem::replace(&mut self.stage, Stage::Idle)
        else {
            unreachable!("it was a moment ago")
        };
        let hooks = Arc::new(hooks);
        for core in &self.topology.cores {
            out.post(&self.topology, *core, CoreMail::Guests(Arc::clone(&hooks)));
        }
        let missing = self.topology.cores.iter().copied().collect();
        self.stage = Stage::Telling { edition, missing };
    }

    fn core_took(&mut self, core: Address<CoreMail>, version: GuestVersion) {
        let Stage::Telling { edition, missing } = &mut self.stage else {
            unreachable!("a core takes version {version}, which nobody has told it of")
        };
        assert_eq!(edition.version, version, "a core takes another version");
        let is_new = missing.remove(&core);
        assert!(is_new, "a core takes version {version} twice");
        if !missing.is_empty() {
            return;
        }
        self.serving = std::mem::take(edition);
        self.library.serves(version);
        self.stage = Stage::Idle;
        self.stats.reloads.up();
        self.tell_versions();
        let Edition { version, hash } = &self.serving;
        tracing::info!(version = version.0, hash, "the modules serve");
        self.answer_asked(&Ok(()));
    }

    /// A version does not load: the one before stays.
    fn fail(&mut self, version: GuestVersion, why: &str) {
        self.stage = Stage::Idle;
        self.stats.reloads_failed.up();
        let serving = self.serving.version;
        self.library.serves(serving);
        tracing::error!(
            version = version.0,
            "the modules do not load, version {serving} goes on: {why}"
        );
        let text = format!("version {version} does not load, version {serving} goes on: {why}");
        self.answer_asked(&Err(ApiError::new(Code::FailedPrecondition, text)));
    }

    /// What holds the older versions, if there are too many for one more.
    fn too_many(&self) -> Option<String> {
        let older = self.older();
        if older.len() < OLDER_VERSIONS_MAX {
            return None;
        }
        let mut text = format!("{} older versions are in use, the most that may be", older.len());
        for (version, Use { calls, matches, named }) in older {
            let _ = write!(text, "; version {version}: {matches} matches, {calls} calls");
            for (at, (id, module)) in named.iter().enumerate() {
                let _ = write!(text, "{} {id} of {module}", if at == 0 { " (" } else { "," });
            }
            text.push_str(if named.is_empty() { "" } else { ")" });
        }
        Some(text)
    }

    fn older(&self) -> BTreeMap<GuestVersion, Use<'_>> {
        let mut older: BTreeMap<GuestVersion, Use<'_>> = BTreeMap::new();
        for held in self.holds.values().flat_map(|holds| &holds.older) {
            let all = older.entry(held.version).or_default();
            all.calls += held.calls;
            all.matches += held.matches;
            let room = NAMED_MAX.saturating_sub(all.named.len());
            all.named.extend(held.named.iter().take(room));
        }
        older
    }

    fn tell_versions(&self) {
        self.stats.guest_version.set(u64::from(self.serving.version.0));
        self.stats.guest_versions_older.set(self.older().len() as u64);
    }

    fn answer_asked(&mut self, result: &Result<(), ApiError>) {
        for job in std::mem::take(&mut self.asked) {
            self.answer(&job, result.clone());
        }
    }

    /// Answers with the version that serves now.
    fn answer(&mut self, job: &Job, result: Result<(), ApiError>) {
        let outcome = Outcome::Api(result.map(|()| {
            let Edition { version, hash } = &self.serving;
            let body = Value::Map(vec![
                ("version".into(), Value::Int(version.0.into())),
                ("hash".into(), Value::text(hash.as_str())),
            ]);
            // It is flat, and its numbers are whole.
            let body = json::encode(&body).unwrap_or_default();
            Answer { body, ..Answer::default() }
        }));
        let (queue, stream, group) = (job.queue, job.stream, job.group);
        let (core, conn) = (job.address.core, job.address.conn);
        let done = Done { queue, conn, stream, group, used: None, outcome };
        match self.done.iter_mut().find(|(to, _)| *to == core) {
            Some((_, list)) => list.push(done),
            None => self.done.push((core, vec![done])),
        }
    }

    fn turn_end(&mut self, now: Now, out: &mut Output<Mail>) {
        for (core, list) in self.done.drain(..) {
            out.post(&self.topology, core, CoreMail::Done(list));
        }
        self.retries.hold_back(now, out, &self.stats.dropped_mail);
        let next = match &self.stage {
            Stage::Building { .. } => Some(now.mono_ns),
            Stage::Idle => {
                let loads_ns = self.is_wanted.then_some(self.next_ns);
                let next_ns = [loads_ns, self.renewals.due_ns()].into_iter().flatten().min();
                next_ns.map(|next_ns| next_ns.max(now.mono_ns))
            }
            Stage::HandingOver { .. } | Stage::Telling { .. } => None,
        };
        let look = self.watch.as_ref().map(|_| self.look_ns.max(now.mono_ns));
        out.wake_at([next, look, self.retries.due_ns()].into_iter().flatten().min());
    }
}

/// Matches that are named to who may not load one more version; the others are counted.
const NAMED_MAX: usize = 8;

/// Who uses an older version, on all threads.
#[derive(Debug, Default)]
struct Use<'a> {
    calls: usize,
    matches: usize,
    named: Vec<&'a (uuid::Uuid, Arc<str>)>,
}

/// Why modules that handle events cannot be loaded by a server that began without any modules.
const NO_EVENTS: &str = "it handles events, or has rules of the zone, for which the server starts a thread, and this one was \
     started without a folder of modules: start it again";

fn thread_of(asker: Asker) -> ThreadId {
    match asker {
        Asker::Worker(worker) => worker.thread(),
        Asker::Room(room) => room.thread(),
    }
}

impl Handler for Loader {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        match input {
            Input::Mail(mail) => self.mail(now, self.me.open(mail), out),
            Input::Wake => self.wake(now, out),
            Input::TurnEnd => self.turn_end(now, out),
            // A version reaches every thread, or none would ever be whole.
            Input::Refused { to, mail } => {
                let counters = (&self.stats.refused_mail, &self.stats.dropped_mail);
                self.retries.given_back(now, (to, mail), counters, &mut self.limit_log);
            }
            Input::Stop => out.stop(),
            // A loader has no sockets.
            event::of_sockets!() => {}
        }
    }
}

#[cfg(test)]
mod tests;
