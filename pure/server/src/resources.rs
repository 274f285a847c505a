//! The resources of every thread with scripts: a database connection, randomness, replicas of
//! the directory and the cache. [`LoadingHost`] is what modules may ask for while they load.

use std::sync::Arc;

use event::{CallClock, Now, Output, Random, ThreadId};
use game::cache::{Cache, CacheChange, Writer};
use game::db::Database;
use game::directory::Directory;
use game::events::{Cause, Event, EventJob, EventKind};
use game::fetch::{Fetch, FetchPayer, FetchRequest};
use game::guest::{
    Answer, Ask, CallContext, CommonHost, Dispatcher, GuestVersion, Host, HostError, HostSettings,
    LogLevel, Machine, NoMachine, ScriptError, Scripts,
};
use game::node::Nodes;
use game::notifications::Sent;
use game::session::Revocation;
use game::stream::{Payer, StreamId, StreamRequest};

use crate::mail::{
    Address, CoreMail, EventsMail, GateMail, Mail, News, Post as _, RoomMail, SessionChanges,
    StreamMail, Topology,
};

/// What a script's thread works with.
pub struct Resources {
    /// The thread's database connection.
    pub db: Box<dyn Database + Send>,
    /// Its randomness.
    pub random: Random,
    /// What scripts may see of the settings.
    pub host: Arc<HostSettings>,
    /// The wall clock, unix milliseconds: scripts that wait for it must see it move.
    pub unix_ms: Box<dyn Fn() -> u64 + Send>,
    /// How long its calls take.
    pub call_clock: Box<dyn CallClock + Send>,
    /// What its scripts may have of the machine; nothing, unless the wiring says otherwise.
    pub machine: Box<dyn Machine + Send>,
    /// Its way to other servers; none, unless the wiring gives one (`fetch.enabled`).
    pub fetch: Option<Box<dyn Fetch + Send>>,
    /// Its replica of the directory.
    pub directory: Directory,
    /// Its replica of the scripts' cache.
    pub cache: Cache,
    /// The version of the guest code that runs just now, for its log lines.
    pub guest_version: GuestVersion,
    /// What its scripts have logged lately.
    pub(crate) script_log: ScriptLog,
    /// What its calls do to sessions and no core has been told of yet.
    pub session_changes: SessionChanges,
    /// Notifications of its calls that no room has been told of yet.
    notices: Vec<Sent>,
    /// What its calls want of streams and no room has been told of yet.
    streams: Vec<StreamMail>,
    /// Events of its calls that their thread has not been told of yet.
    events: Vec<EventJob>,
    /// How often its calls wanted more than one call may have.
    pub(crate) refused: Refused,
    /// Kept notifications that made room for newer ones, since the start.
    pub(crate) notifications_forgotten: u64,
}

/// How much others are to be told at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    revocations: usize,
    follows: usize,
    sessions: usize,
    users: usize,
    notices: usize,
    streams: usize,
    events: usize,
    notifications_forgotten: u64,
    refused: Refused,
}

/// Refusals to scripts since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    /// Matches beyond `match.created_per_call_max`.
    pub(crate) creates: u64,
    /// Sessions, tokens and users beyond [`CUT_OFF_PER_CALL_MAX`].
    pub(crate) cut_offs: u64,
    /// Notifications beyond [`NOTIFIED_PER_CALL_MAX`] and [`NOTIFIED_BYTES_PER_CALL_MAX`].
    pub(crate) notifications: u64,
    /// Calls of `stream_*` beyond [`STREAM_CALLS_PER_CALL_MAX`] and [`STREAM_BYTES_PER_CALL_MAX`].
    pub(crate) streams: u64,
    /// Events beyond [`EVENTS_PER_CALL_MAX`] and [`EVENT_BYTES_PER_CALL_MAX`].
    pub(crate) events: u64,
}

/// Why something is refused that a script asks where its call cannot wait.
pub(crate) const CANNOT_WAIT: &str = "this function waits for another thread, which is not possible \
     here: in a match in JavaScript, and in Lua in a metamethod, in a function that table.sort calls, or \
     in a module that is loaded by require in the middle of a call";

/// Sessions, tokens and users that one call of a script may cut off or follow: some milliseconds of work for
/// every core, which gets all of them in one mail.
pub const CUT_OFF_PER_CALL_MAX: usize = 16_384;

/// Notifications that one call of a script may send: some milliseconds of work for a room.
pub const NOTIFIED_PER_CALL_MAX: usize = 16_384;

/// Bytes of their texts.
pub const NOTIFIED_BYTES_PER_CALL_MAX: usize = 16 << 20;

/// Calls of `stream_*` that one call of a script may make: each may reach all members of a stream.
pub const STREAM_CALLS_PER_CALL_MAX: usize = 1_024;

/// Bytes of what these send.
pub const STREAM_BYTES_PER_CALL_MAX: usize = 16 << 20;

/// Events that one call of a script may make; further ones are forgotten.
pub const EVENTS_PER_CALL_MAX: usize = 16_384;

/// Bytes of these.
pub const EVENT_BYTES_PER_CALL_MAX: usize = 16 << 20;

/// What one RPC, hook or callback has had of what is counted by the call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// On whose account it sends.
    payer: Payer,
    /// Whose matches those are that it makes.
    cause: Cause,
    created: usize,
    cut_off: usize,
    notified: usize,
    notified_bytes: usize,
    stream_calls: usize,
    stream_bytes: usize,
    events: usize,
    event_bytes: usize,
}

impl Spent {
    /// Of a call that begins.
    pub(crate) fn of(payer: Payer, cause: Cause) -> Self {
        Self { payer, cause, ..Self::default() }
    }

    /// Whose matches those are that the call makes.
    pub(crate) fn cause(&self) -> Cause {
        self.cause
    }

    /// Says in what is sent who pays for it.
    pub(crate) fn pays(&self, request: &mut StreamRequest) {
        if let StreamRequest::Send(message) = request {
            message.payer = self.payer;
        }
    }

    /// One more match, if the call may have it.
    pub(crate) fn create(
        &mut self,
        created_max: usize,
        resources: &mut Resources,
    ) -> Result<(), HostError> {
        if self.created >= created_max {
            resources.refused.creates += 1;
            return Err(HostError::new(format!(
                "one call may create {created_max} matches (match.created_per_call_max)"
            )));
        }
        self.created += 1;
        Ok(())
    }

    /// So many more to be cut off, if the call may.
    pub(crate) fn cut_off(
        &mut self,
        count: usize,
        resources: &mut Resources,
    ) -> Result<(), HostError> {
        let cut_off = self.cut_off.saturating_add(count);
        if cut_off > CUT_OFF_PER_CALL_MAX {
            resources.refused.cut_offs += 1;
            return Err(HostError::new(format!(
                "one call may disconnect, log out, ban, delete or follow {CUT_OFF_PER_CALL_MAX}"
            )));
        }
        self.cut_off = cut_off;
        Ok(())
    }

    /// So many more notifications, with so many bytes, if the call may send them.
    pub(crate) fn notify(
        &mut self,
        (count, bytes): (usize, usize),
        resources: &mut Resources,
    ) -> Result<(), HostError> {
        let notified = self.notified.saturating_add(count);
        let notified_bytes = self.notified_bytes.saturating_add(bytes);
        if notified > NOTIFIED_PER_CALL_MAX || notified_bytes > NOTIFIED_BYTES_PER_CALL_MAX {
            resources.refused.notifications += 1;
            return Err(HostError::new(format!(
                "one call may send {NOTIFIED_PER_CALL_MAX} notifications with \
                 {NOTIFIED_BYTES_PER_CALL_MAX} bytes"
            )));
        }
        (self.notified, self.notified_bytes) = (notified, notified_bytes);
        Ok(())
    }

    /// One more call of `stream_*`, which sends so many bytes, if the call may have it.
    pub(crate) fn stream(
        &mut self,
        bytes: usize,
        resources: &mut Resources,
    ) -> Result<(), HostError> {
        let stream_bytes = self.stream_bytes.saturating_add(bytes);
        if self.stream_calls >= STREAM_CALLS_PER_CALL_MAX
            || stream_bytes > STREAM_BYTES_PER_CALL_MAX
        {
            resources.refused.streams += 1;
            return Err(HostError::new(format!(
                "one call may call stream_* {STREAM_CALLS_PER_CALL_MAX} times with \
                 {STREAM_BYTES_PER_CALL_MAX} bytes"
            )));
        }
        (self.stream_calls, self.stream_bytes) = (self.stream_calls + 1, stream_bytes);
        Ok(())
    }

    /// One more event, if there is room for it.
    pub(crate) fn event(&mut self, event: Event, resources: &mut Resources) {
        let event_bytes = self.event_bytes.saturating_add(event.bytes());
        if self.events >= EVENTS_PER_CALL_MAX || event_bytes > EVENT_BYTES_PER_CALL_MAX {
            resources.refused.events += 1;
            return;
        }
        (self.events, self.event_bytes) = (self.events + 1, event_bytes);
        let context = CallContext { execution_mode: "event", ..CallContext::default() };
        let cause = Some(self.cause);
        resources.events.push(EventJob { kind: EventKind::Custom, event, context, cause });
    }
}

/// What a thread that runs scripts is given by the wiring.
pub struct ThreadContext {
    /// Its guest code.
    pub scripts: Box<dyn Scripts + Send>,
    /// The rest.
    pub resources: Resources,
}

impl Resources {
    /// Resources with empty replicas for thread number `thread` of this node.
    #[must_use]
    pub fn new(
        (nodes, thread): (&Nodes, u16),
        db: Box<dyn Database + Send>,
        random: Random,
        host: Arc<HostSettings>,
        unix_ms: Box<dyn Fn() -> u64 + Send>,
        call_clock: Box<dyn CallClock + Send>,
    ) -> Self {
        Self {
            db,
            random,
            unix_ms,
            call_clock,
            machine: Box::new(NoMachine),
            fetch: None,
            directory: Directory::new(nodes.clone()),
            cache: Cache::new(Writer { node: nodes.here(), thread }),
            guest_version: GuestVersion::FIRST,
            script_log: ScriptLog::new(host.log_lines_max),
            session_changes: SessionChanges::default(),
            notices: Vec::new(),
            streams: Vec::new(),
            events: Vec::new(),
            refused: Refused::default(),
            notifications_forgotten: 0,
            host,
        }
    }
}

impl Resources {
    /// Tells the other replicas what scripts have changed in the cache since the last call, in one
    /// mail to each.
    pub(crate) fn post_cache(&mut self, me: ThreadId, topology: &Topology, out: &mut Output<Mail>) {
        let changes = self.cache.take_changes();
        if changes.is_empty() {
            return;
        }
        let changes: Arc<[CacheChange]> = changes.into();
        for room in topology.rooms.iter().filter(|room| room.thread() != me) {
            out.post_lazy(topology, *room, RoomMail::Cache(Arc::clone(&changes)));
        }
        for worker in topology.workers().filter(|worker| worker.thread() != me) {
            let (to, mail) = worker.seal(topology, News::Cache(Arc::clone(&changes)));
            out.mail_lazy(to, mail);
        }
        if let Some(gate) = topology.gate() {
            out.post(topology, gate, GateMail::Cache(changes));
        }
    }

    /// Tells every core what is done to sessions since the last call. To be called before the answers
    /// are posted: who is told of a logout finds it done.
    pub(crate) fn post_session_changes(&mut self, topology: &Topology, out: &mut Output<Mail>) {
        if self.session_changes.is_empty() {
            return;
        }
        let session_changes = Arc::new(std::mem::take(&mut self.session_changes));
        for core in &topology.cores {
            out.post(topology, *core, CoreMail::Sessions(Arc::clone(&session_changes)));
        }
        if let Some(gate) = topology.gate() {
            out.post(topology, gate, GateMail::Sessions(session_changes));
        }
    }
}

/// What modules have said to others while they loaded.
#[derive(Debug, Default)]
pub struct Said {
    cache: Vec<CacheChange>,
    session_changes: SessionChanges,
    notices: Vec<Sent>,
    notifications_forgotten: u64,
}

impl Resources {
    /// What was said so far and nobody has been told of yet.
    #[must_use]
    pub fn take_said(&mut self) -> Said {
        Said {
            cache: self.cache.take_changes(),
            session_changes: std::mem::take(&mut self.session_changes),
            notices: std::mem::take(&mut self.notices),
            notifications_forgotten: std::mem::take(&mut self.notifications_forgotten),
        }
    }

    /// Says what modules have said elsewhere, while they loaded for this thread.
    pub(crate) fn say(&mut self, said: Said) {
        self.cache.absorb(said.cache);
        let SessionChanges { revocations, follows, sessions, users } = said.session_changes;
        self.session_changes.revocations.extend(revocations);
        self.session_changes.follows.extend(follows);
        self.session_changes.sessions.extend(sessions);
        self.session_changes.users.extend(users);
        self.notices.extend(said.notices);
        self.notifications_forgotten += said.notifications_forgotten;
    }

    /// Keeps an event until its thread is told of it.
    pub(crate) fn event(&mut self, job: EventJob) {
        self.events.push(job);
    }

    /// What has happened since the last call, and the thread that is to be told of it, if any has. Without that
    /// thread nobody hears of it.
    pub(crate) fn take_events(
        &mut self,
        topology: &Topology,
    ) -> Option<(Address<EventsMail>, Vec<EventJob>)> {
        let jobs = std::mem::take(&mut self.events);
        topology.events.filter(|_| !jobs.is_empty()).map(|to| (to, jobs))
    }

    /// Forgets what others were to be told, because what it was about has not happened, or not all
    /// of it. Who is cut off or banned stays so: if that is in the database, nobody would hear of it
    /// before the next start, and if it is not, somebody logs in once more.
    pub(crate) fn say_nothing(&mut self) {
        self.session_changes.revocations.retain(|one| match one {
            Revocation::Token { .. } | Revocation::User { .. } | Revocation::Banned { .. } => true,
            Revocation::Deleted { .. } | Revocation::Unbanned { .. } => false,
        });
        self.session_changes.follows.clear();
        self.notices.clear();
        self.streams.clear();
        self.events.clear();
    }

    /// What others are to be told so far.
    pub(crate) fn told(&self) -> Told {
        Told {
            revocations: self.session_changes.revocations.len(),
            follows: self.session_changes.follows.len(),
            sessions: self.session_changes.sessions.len(),
            users: self.session_changes.users.len(),
            notices: self.notices.len(),
            streams: self.streams.len(),
            events: self.events.len(),
            notifications_forgotten: self.notifications_forgotten,
            refused: self.refused,
        }
    }

    /// Forgets what others were to be told since then, because none of it has happened.
    pub(crate) fn untell(&mut self, since: Told) {
        self.session_changes.revocations.truncate(since.revocations);
        self.session_changes.follows.truncate(since.follows);
        self.session_changes.sessions.truncate(since.sessions);
        self.session_changes.users.truncate(since.users);
        self.notices.truncate(since.notices);
        self.streams.truncate(since.streams);
        self.events.truncate(since.events);
        self.notifications_forgotten = since.notifications_forgotten;
        self.refused = since.refused;
    }

    /// Keeps notifications until rooms are told of them.
    pub(crate) fn notify(&mut self, sent: Sent) {
        self.notifications_forgotten += sent.forgotten;
        self.notices.push(sent);
    }

    /// Keeps what a script wants of a stream until its room is told of it.
    pub(crate) fn post_stream(&mut self, mail: StreamMail) {
        self.streams.push(mail);
    }

    /// What scripts want of streams since the last call, for each room in order.
    pub(crate) fn take_streams(
        &mut self,
        topology: &Topology,
    ) -> Vec<(Address<RoomMail>, Vec<StreamMail>)> {
        let mut rooms: Vec<(Address<RoomMail>, Vec<StreamMail>)> = Vec::new();
        for mail in self.streams.drain(..) {
            let room = mail.room(topology);
            match rooms.iter_mut().find(|(id, _)| *id == room) {
                Some((_, list)) => list.push(mail),
                None => rooms.push((room, vec![mail])),
            }
        }
        rooms
    }

    /// What each room is to show its users' sockets since the last call.
    pub(crate) fn take_notices(
        &mut self,
        topology: &Topology,
    ) -> Vec<(Address<RoomMail>, Vec<Sent>)> {
        let mut rooms: Vec<(Address<RoomMail>, Vec<Sent>)> = Vec::new();
        let mut add = |room, sent| match rooms.iter_mut().find(|(id, _)| *id == room) {
            Some((_, list)) => list.push(sent),
            None => rooms.push((room, vec![sent])),
        };
        for sent in self.notices.drain(..) {
            match sent.to {
                Some(user_id) => add(topology.room_of(user_id), sent),
                None => topology.all_rooms().for_each(|room| add(room, sent.clone())),
            }
        }
        rooms
    }
}

impl Resources {
    /// Other nodes live from now on: what came of those that do not counts no more.
    pub(crate) fn nodes_changed(&mut self, nodes: &Nodes) {
        self.directory.set_nodes(nodes.clone());
        self.cache.retain_nodes(|node| nodes.is_living(node));
    }

    /// The way to other servers.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn network(&self) -> Result<&(dyn Fetch + Send), HostError> {
        self.fetch.as_deref().ok_or_else(|| {
            HostError::new("requests to other servers are off: fetch.enabled is not set")
        })
    }

    /// Asks another server; what comes of it is mail with this number.
    ///
    /// # Panics
    /// There is no way to other servers.
    pub(crate) fn start_fetch(&self, number: u64, payer: FetchPayer, request: FetchRequest) {
        let Some(fetch) = &self.fetch else { unreachable!("a request without a network") };
        fetch.start(number, payer, request);
    }

    /// Gives a request up, of which nobody wants to hear any more.
    pub(crate) fn cancel_fetch(&self, number: u64) {
        if let Some(fetch) = &self.fetch {
            fetch.cancel(number);
        }
    }
}

/// The methods of [`CommonHost`] that are the same everywhere: they hand out resources.
macro_rules! from_resources {
    ($($resources:tt).+) => {
        fn now(&self) -> event::Now {
            event::Now { unix_ms: (self.$($resources).+.unix_ms)(), ..self.now }
        }

        fn random(&mut self) -> &mut event::Random {
            &mut self.$($resources).+.random
        }

        fn settings(&self) -> &game::guest::HostSettings {
            &self.$($resources).+.host
        }

        fn directory(&self) -> &game::directory::Directory {
            &self.$($resources).+.directory
        }

        fn cache(&mut self) -> &mut game::cache::Cache {
            &mut self.$($resources).+.cache
        }

        fn machine(&self) -> &dyn game::guest::Machine {
            &*self.$($resources).+.machine
        }

        fn log(&mut self, level: game::guest::LogLevel, text: &str) {
            let version = self.$($resources).+.guest_version;
            self.$($resources).+.script_log.line(self.now, (level, version), text);
        }

        fn may_cut_off(&mut self, count: usize) -> Result<(), game::guest::HostError> {
            self.spent.cut_off(count, &mut self.$($resources).+)
        }

        fn session_disconnect(&mut self, session_id: uuid::Uuid, _reason: &str) {
            self.$($resources).+.session_changes.sessions.push(session_id);
        }

        fn status_follow(&mut self, wish: game::guest::FollowWish) {
            self.$($resources).+.session_changes.follows.push(wish);
        }

        fn revoke(&mut self, revocation: game::session::Revocation) {
            self.$($resources).+.session_changes.revocations.push(revocation);
        }

        fn user_disconnect(&mut self, user_id: uuid::Uuid, cause: game::api::Disconnect) {
            self.$($resources).+.session_changes.users.push((user_id, cause));
        }

        fn may_notify(
            &mut self,
            count: usize,
            bytes: usize,
        ) -> Result<(), game::guest::HostError> {
            self.spent.notify((count, bytes), &mut self.$($resources).+)
        }

        fn event(&mut self, event: game::events::Event) {
            self.spent.event(event, &mut self.$($resources).+);
        }

        fn notify(&mut self, sent: Vec<game::notifications::Sent>) {
            sent.into_iter().for_each(|sent| self.$($resources).+.notify(sent));
        }
    };
}
pub(crate) use from_resources;

/// Bytes of one log line of a script; the rest is cut off.
const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a script's error that clients and the log get. A script chooses the text, and it would
/// otherwise be an answer without a limit.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// The error with no more text than that.
pub(crate) fn shortened(mut error: ScriptError) -> ScriptError {
    for text in [&mut error.message, &mut error.location] {
        if text.len() > ERROR_BYTES_MAX {
            text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
            text.push('…');
            text.shrink_to_fit();
        }
    }
    error
}

const SECOND_NS: u64 = 1_000_000_000;

/// Log lines of one kind on one thread: so many a second (`runtime.log_lines_per_second_max`).
#[derive(Debug)]
struct Lines {
    /// What they are, in words.
    what: &'static str,
    max: u32,
    count: u32,
    /// The second that they are counted in.
    since_ns: u64,
    /// Left out since it was last said.
    unsaid: u64,
}

impl Lines {
    fn new(what: &'static str, max: u32) -> Self {
        Self { what, max, count: 0, since_ns: 0, unsaid: 0 }
    }

    /// Begins another second if the last one is over.
    fn turn(&mut self, now: Now) {
        if now.mono_ns.saturating_sub(self.since_ns) < SECOND_NS {
            return;
        }
        (self.since_ns, self.count) = (now.mono_ns, 0);
        if self.unsaid > 0 {
            tracing::warn!(
                lines = self.unsaid,
                "more than {} {} in a second, the others were dropped; \
                 runtime.log_lines_per_second_max moves this limit",
                self.max,
                self.what
            );
            self.unsaid = 0;
        }
    }

    /// Whether there is room for a line in this second; it is taken then.
    fn take(&mut self) -> bool {
        let has_room = self.count < self.max;
        self.count += u32::from(has_room);
        self.unsaid += u64::from(!has_room);
        has_room
    }
}

/// What one thread logs for its scripts: their own lines, and beside them those of what has failed, so that neither can
/// hide the other. Whoever calls a function that fails may do so as often as they like.
#[derive(Debug)]
pub(crate) struct ScriptLog {
    own: Lines,
    failures: Lines,
    /// All lines dropped, for `/metrics`.
    pub(crate) dropped_count: u64,
}

impl ScriptLog {
    fn new(lines_max: u32) -> Self {
        Self {
            own: Lines::new("lines of scripts", lines_max),
            failures: Lines::new("failures of scripts", lines_max),
            dropped_count: 0,
        }
    }

    /// A turn of the thread begins.
    pub(crate) fn turn(&mut self, now: Now) {
        self.failures.turn(now);
        self.own.turn(now);
    }

    /// Whether there is room in the log for a line about a function of a script that has failed.
    pub(crate) fn has_room_for_failure(&mut self) -> bool {
        let has_room = self.failures.take();
        self.dropped_count += u64::from(!has_room);
        has_room
    }

    /// A line of a script, in the server's log if there is room for it in this second.
    pub(crate) fn line(
        &mut self,
        now: Now,
        (level, version): (LogLevel, GuestVersion),
        text: &str,
    ) {
        let is_debug = level == LogLevel::Debug;
        if is_debug && !tracing::enabled!(target: "script", tracing::Level::DEBUG) {
            return;
        }
        self.own.turn(now);
        if !self.own.take() {
            self.dropped_count += 1;
            return;
        }
        let text = text.get(..text.floor_char_boundary(LOG_LINE_BYTES_MAX)).unwrap_or(text);
        match level {
            LogLevel::Debug => tracing::debug!(target: "script", version = version.0, "{text}"),
            LogLevel::Info => tracing::info!(target: "script", version = version.0, "{text}"),
            LogLevel::Warn => tracing::warn!(target: "script", version = version.0, "{text}"),
            LogLevel::Error => tracing::error!(target: "script", version = version.0, "{text}"),
        }
    }
}

/// The host while modules load: the database and the cache are there, matches and sessions are not
/// yet.
pub struct LoadingHost<'a> {
    now: Now,
    resources: &'a mut Resources,
    spent: Spent,
}

impl<'a> LoadingHost<'a> {
    /// Lends resources to modules that load.
    pub fn new(now: Now, resources: &'a mut Resources) -> Self {
        // Each thread loads the modules: what they tell of would be heard of as often.
        let spent = Spent { events: EVENTS_PER_CALL_MAX, ..Spent::default() };
        Self { now, resources, spent }
    }
}

const LOADING: &str = "not possible while modules load, nor in nk.run_once, which runs then: nothing runs on \
    this version yet. Do it in the first call of an RPC function or hook that needs it";

impl Host for LoadingHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
    }
}

impl CommonHost for LoadingHost<'_> {
    from_resources!(resources);

    fn ask(&mut self, _: Ask) -> Answer {
        Err(HostError::new(LOADING))
    }

    fn stream(&mut self, _: &StreamId, _: StreamRequest) -> Result<(), HostError> {
        Err(HostError::new(LOADING))
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}
