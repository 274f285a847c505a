//! The loader against made-up threads and a made-up folder: who is told what, and in which order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

use event::{ConnId, Handler as _, Input, Now, Output, ThreadId};
use game::guest::{GuestVersion, Registered, Retired};
use game::node::Nodes;
use uuid::Uuid;

use super::{Edition, Library, Loader, OLDER_VERSIONS_MAX, WAITERS_MAX, Watch};
use crate::guests::NewGuests;
use crate::guests::tests::Idle;
use crate::mail::{
    CoreMail, Format, HeldVersion, Holds, Job, LoaderMail, Mail, News, Outcome, Queue, RoomMail,
    SessionAddress, Topology, Work, WorkerAddress,
};
use crate::resources::Said;
use crate::stats::LoaderStats;

/// What a folder comes to: the events that it handles, or why it does not load, and whether that shows in
/// its text or when it runs.
type Content = Result<Vec<String>, (&'static str, bool)>;

/// A folder that is what it was last told to be.
struct Folder {
    told: Receiver<Content>,
    content: Content,
    /// The versions that it has: the one that serves, and one that was read.
    versions: BTreeSet<GuestVersion>,
    /// Whether what serves loads once more.
    is_well: Arc<AtomicBool>,
}

impl Library for Folder {
    fn look(&mut self) -> u64 {
        0
    }

    fn read(&mut self, version: GuestVersion) -> Result<Edition, String> {
        if let Some(content) = self.told.try_iter().last() {
            self.content = content;
        }
        self.versions.insert(version);
        match self.content {
            Err((why, true)) => Err(why.to_owned()),
            _ => Ok(Edition { version, hash: format!("hash-{version}") }),
        }
    }

    fn instance(&mut self, version: GuestVersion, _: ThreadId) -> Result<NewGuests, String> {
        assert!(self.versions.contains(&version), "{version} was not read, or forgotten");
        let is_next = self.versions.last() == Some(&version) && self.versions.len() > 1;
        let events = match &self.content {
            Ok(events) => events.clone(),
            Err((why, _)) if is_next => return Err((*why).to_owned()),
            Err(_) => Vec::new(),
        };
        if !is_next && !self.is_well.load(Relaxed) {
            return Err("a.lua:1: out of luck".to_owned());
        }
        let scripts = Box::new(Idle::new(Registered { events, ..Registered::default() }));
        Ok(NewGuests { version, scripts, said: Said::default() })
    }

    fn serves(&mut self, version: GuestVersion) {
        self.versions.retain(|one| *one == version);
        assert_eq!(self.versions.len(), 1, "{version} serves and was not read");
    }
}

/// Which threads have been posted which versions.
type Handed = Vec<(ThreadId, GuestVersion)>;

struct Rig {
    loader: Loader,
    topology: Arc<Topology>,
    stats: Arc<LoaderStats>,
    folder: Sender<Content>,
    is_well: Arc<AtomicBool>,
    now: Now,
    posts: Vec<(ThreadId, Mail)>,
    /// Who was told that there is no instance.
    have_none: Vec<ThreadId>,
}

impl Rig {
    fn new(topology: Topology) -> Self {
        let topology = Arc::new(topology.with_loader());
        let (folder, told) = channel();
        let stats: Arc<LoaderStats> = Arc::default();
        let (versions, is_well) = ([GuestVersion::FIRST].into(), Arc::new(AtomicBool::new(true)));
        let library = Folder { told, content: Ok(Vec::new()), versions, is_well: is_well.clone() };
        let first = Edition { version: GuestVersion::FIRST, hash: "hash-1".to_owned() };
        let made = (Box::new(library) as _, first);
        let loader = Loader::new(topology.clone(), stats.clone(), made);
        let (posts, have_none) = (Vec::new(), Vec::new());
        Self { loader, topology, stats, folder, is_well, now: Now::default(), posts, have_none }
    }

    fn input(&mut self, input: Input<'_, Mail>) -> Option<u64> {
        let mut out = Output::default();
        self.loader.handle(self.now, input, &mut out);
        self.loader.handle(self.now, Input::TurnEnd, &mut out);
        let wake_ns = out.wake_time().map(|at| at.mono_ns);
        self.posts.extend(out.take_posts().map(|(to, mail, _)| (to, mail)));
        wake_ns
    }

    /// Posts to the loader, and wakes it for as long as it has something to do by itself.
    fn put(&mut self, mail: LoaderMail) {
        let (_, mail) = self.loader.me.seal(&self.topology, mail);
        let mut wake_ns = self.input(Input::Mail(mail));
        while let Some(at_ns) = wake_ns {
            self.now.mono_ns = self.now.mono_ns.max(at_ns);
            wake_ns = self.input(Input::Wake);
        }
    }

    fn ask(&mut self, slot: u32) {
        let address =
            SessionAddress { core: self.topology.cores[0], conn: ConnId { slot, generation: 1 } };
        let (queue, stream, format, work) = (Queue::Loader, 0, Format::Json, Work::Reload);
        let (caller, group, client) = (None, 0, 0);
        let job = Job { queue, address, stream, format, work, caller, group, client };
        self.put(LoaderMail::Job(Box::new(job)));
    }

    /// To whom a version was handed since the last look, and which cores were told of one.
    fn handed(&mut self) -> (Handed, Handed) {
        let (mut threads, mut cores) = (Vec::new(), Vec::new());
        let mut others = Vec::new();
        for (to, mail) in std::mem::take(&mut self.posts) {
            if matches!(mail.news(), Some(News::NoGuests)) {
                self.have_none.push(to);
                continue;
            }
            let version = mail.news().and_then(|news| match news {
                News::Guests(new) => Some(new.version),
                _ => None,
            });
            if let Some(version) = version {
                threads.push((to, version));
            } else if let Some(room) = self.topology.rooms.iter().find(|room| room.thread() == to) {
                let RoomMail::Guests(new) = room.open(mail) else { panic!("other mail") };
                threads.push((to, new.version));
            } else {
                match self.topology.cores[usize::from(to.0)].open(mail) {
                    CoreMail::Guests(hooks) => cores.push((to, hooks.version)),
                    other => {
                        others.push((to, self.topology.cores[0].seal(&self.topology, other).1));
                    }
                }
            }
        }
        self.posts = others;
        (threads, cores)
    }

    /// What those were answered who asked: their slots, and the body or the refusal.
    fn answers(&mut self) -> Vec<(u32, Result<String, String>)> {
        let mut answers = Vec::new();
        for (_, mail) in std::mem::take(&mut self.posts) {
            let CoreMail::Done(list) = self.topology.cores[0].open(mail) else {
                panic!("no answer")
            };
            for done in list {
                let Outcome::Api(result) = done.outcome else { panic!("{:?}", done.outcome) };
                let result = result.map(|answer| String::from_utf8(answer.body).unwrap());
                answers.push((done.conn.slot, result.map_err(|error| error.message.into_owned())));
            }
        }
        answers
    }

    fn holds(&mut self, thread: ThreadId, newest: u32, older: Vec<HeldVersion>) {
        let newest = GuestVersion(newest);
        self.put(LoaderMail::Holds(Box::new(Holds { thread, newest, older })));
    }

    /// All take what they are handed; the first room holds these versions on.
    fn take(&mut self, version: u32, held: &[u32]) {
        let threads: Vec<ThreadId> = self.topology.scripted().collect();
        for thread in threads {
            let room = self.topology.rooms[0].thread();
            let held = if thread == room { held } else { &[] };
            let older = held.iter().map(|version| HeldVersion {
                version: GuestVersion(*version),
                matches: 2,
                named: vec![(Uuid::from_u128(u128::from(*version)), "arena".into())],
                ..HeldVersion::default()
            });
            self.holds(thread, version, older.collect());
        }
        for core in self.topology.cores.clone() {
            self.put(LoaderMail::Took { core, version: GuestVersion(version) });
        }
    }
}

#[test]
fn cores_hear_of_a_version_when_every_other_thread_has_it_and_who_asked_when_they_do() {
    let mut rig = Rig::new(Topology::new(2, 2, 2).with_events());
    rig.ask(7);
    let (threads, cores) = rig.handed();
    let all: BTreeSet<ThreadId> = rig.topology.scripted().collect();
    assert_eq!(threads.iter().map(|(to, _)| *to).collect::<BTreeSet<_>>(), all);
    assert!(threads.iter().all(|(_, version)| version.0 == 2) && cores.is_empty());
    let mut all: Vec<ThreadId> = all.into_iter().collect();
    let last = all.pop().unwrap();
    for thread in all {
        rig.holds(thread, 2, Vec::new());
        assert!(rig.posts.is_empty(), "not everybody has it");
    }
    rig.holds(last, 2, Vec::new());
    let (_, cores) = rig.handed();
    assert_eq!(cores.iter().map(|(to, _)| to.0).collect::<Vec<_>>(), [0, 1]);
    rig.put(LoaderMail::Took { core: rig.topology.cores[1], version: GuestVersion(2) });
    assert!(rig.answers().is_empty() && rig.stats.guest_version.read() == 1);
    rig.put(LoaderMail::Took { core: rig.topology.cores[0], version: GuestVersion(2) });
    let body = r#"{"hash":"hash-2","version":2}"#;
    assert_eq!(rig.answers(), [(7, Ok(body.to_owned()))]);
    assert_eq!((rig.stats.guest_version.read(), rig.stats.reloads.read()), (2, 1));
}

#[test]
fn a_version_that_does_not_load_changes_nothing_and_its_number_is_gone() {
    let mut rig = Rig::new(Topology::new(1, 1, 1));
    for (slot, is_text) in [(1, true), (2, false)] {
        rig.folder.send(Err(("a.lua:3: no", is_text))).unwrap();
        rig.ask(slot);
        let why = format!("version {} does not load, version 1 goes on: a.lua:3: no", slot + 1);
        assert_eq!(rig.answers(), [(slot, Err(why))]);
    }
    // Nor does one for which there is no thread.
    rig.folder.send(Ok(vec!["event_session_start".to_owned()])).unwrap();
    rig.ask(3);
    let (_, why) = rig.answers().pop().unwrap();
    assert!(why.unwrap_err().contains("handles events"));
    assert_eq!((rig.stats.reloads_failed.read(), rig.stats.guest_version.read()), (3, 1));
    rig.folder.send(Ok(Vec::new())).unwrap();
    rig.ask(4);
    assert!(rig.handed().0.iter().all(|(_, version)| version.0 == 5));
    rig.take(5, &[]);
    assert_eq!(rig.stats.guest_version.read(), 5);
}

#[test]
fn who_asks_while_a_version_is_made_is_answered_by_the_next_one() {
    let mut rig = Rig::new(Topology::new(1, 1, 1));
    rig.ask(1);
    rig.handed();
    rig.ask(2);
    rig.put(LoaderMail::Signal);
    rig.ask(3);
    assert!(rig.posts.is_empty(), "one at a time");
    rig.take(2, &[]);
    let (threads, _) = rig.handed();
    assert!(!threads.is_empty() && threads.iter().all(|(_, version)| version.0 == 3));
    let [(1, Ok(_))] = &rig.answers()[..] else { panic!("the first one alone") };
    rig.take(3, &[]);
    rig.handed();
    let [(2, Ok(_)), (3, Ok(_))] = &rig.answers()[..] else { panic!("both, and the signal") };
    assert_eq!(rig.stats.reloads.read(), 2);
}

#[test]
fn so_many_may_wait() {
    let mut rig = Rig::new(Topology::new(1, 1, 1));
    rig.ask(0);
    rig.handed();
    for slot in 0..WAITERS_MAX {
        rig.ask(u32::try_from(slot).unwrap());
    }
    assert!(rig.posts.is_empty());
    rig.ask(99);
    let [(99, Err(why))] = &rig.answers()[..] else { panic!("the last one alone") };
    assert_eq!(why, "16 requests wait for the modules to be loaded");
    assert_eq!(rig.stats.reloads_refused.read(), 1);
}

#[test]
fn so_many_older_versions_may_be_held_and_who_holds_them_is_named() {
    let mut rig = Rig::new(Topology::new(1, 1, 1));
    let mut held = Vec::new();
    for version in 2..=u32::try_from(OLDER_VERSIONS_MAX).unwrap() + 1 {
        held.push(version - 1);
        rig.put(LoaderMail::Signal);
        rig.take(version, &held);
    }
    rig.posts.clear();
    assert_eq!(rig.stats.guest_versions_older.read(), 8);
    rig.ask(1);
    let (_, why) = rig.answers().pop().unwrap();
    let why = why.unwrap_err();
    assert!(why.starts_with(
        "8 older versions are in use, the most that may be; version 1: 2 matches, 0 calls ("
    ));
    assert!(why.contains("00000000-0000-0000-0000-000000000003 of arena"), "{why}");
    assert_eq!((rig.stats.reloads_refused.read(), rig.stats.guest_version.read()), (1, 9));
    // The last match of one ends.
    rig.holds(rig.topology.rooms[0].thread(), 9, Vec::new());
    assert_eq!(rig.stats.guest_versions_older.read(), 0);
    rig.ask(2);
    assert!(rig.handed().0.iter().all(|(_, version)| version.0 == 10));
}

impl Rig {
    fn spent(&mut self, worker: WorkerAddress, version: u32) -> LoaderMail {
        let what = Retired::new(());
        LoaderMail::Spent { worker, version: GuestVersion(version), what }
    }

    /// Takes it in, and does no more at that time.
    fn hear(&mut self, mail: LoaderMail) {
        let (_, mail) = self.loader.me.seal(&self.topology, mail);
        self.input(Input::Mail(mail));
    }

    /// At that time: who is handed an instance until nobody is to have one just then.
    fn renewed(&mut self, at_ms: u64) -> Vec<ThreadId> {
        self.now = Now::default();
        self.now = Now { mono_ns: self.now.after_ms(at_ms).mono_ns, ..self.now };
        while self.input(Input::Wake).is_some_and(|at_ns| at_ns <= self.now.mono_ns) {}
        self.handed().0.into_iter().map(|(to, _)| to).collect()
    }

    fn guests(&self) -> [WorkerAddress; 2] {
        let companion = WorkerAddress::Caller(self.topology.companions[0]);
        [WorkerAddress::Batcher(self.topology.batcher), companion]
    }
}

fn with_companions() -> Rig {
    Rig::new(Topology::with_companions(Nodes::alone("node1"), (1, 1, 1)))
}

#[test]
fn who_has_used_its_memory_up_has_another_instance_at_once_and_then_after_pauses_that_grow() {
    let mut rig = with_companions();
    let [batcher, companion] = rig.guests();
    let mut at_ms = 0;
    for pause_ms in [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000] {
        let spent = rig.spent(batcher, 1);
        rig.hear(spent);
        assert_eq!(rig.stats.scripts_missing.read(), 1);
        if pause_ms > 0 {
            assert_eq!(rig.renewed(at_ms + pause_ms - 1), [], "{pause_ms}");
            // Others have theirs meanwhile.
            if pause_ms == 8_000 {
                let spent = rig.spent(companion, 1);
                rig.hear(spent);
                assert_eq!(rig.renewed(at_ms + pause_ms - 1), [companion.thread()]);
            }
        }
        at_ms += pause_ms;
        assert_eq!(rig.renewed(at_ms), [batcher.thread()], "{pause_ms}");
        assert_eq!(rig.stats.scripts_missing.read(), 0);
    }
    assert_eq!(rig.stats.scripts_renewed.read(), 10);
    // Who has kept its memory for long begins anew.
    assert_eq!(rig.renewed(at_ms + 64_000), []);
    let spent = rig.spent(batcher, 1);
    rig.hear(spent);
    assert_eq!(rig.renewed(at_ms + 64_000), [batcher.thread()]);
}

#[test]
fn what_does_not_load_once_more_is_tried_again_later() {
    let mut rig = with_companions();
    let [batcher, _] = rig.guests();
    rig.is_well.store(false, Relaxed);
    let spent = rig.spent(batcher, 1);
    rig.hear(spent);
    for at_ms in [0, 500, 999, 1_000, 2_999] {
        assert_eq!(rig.renewed(at_ms), []);
    }
    rig.is_well.store(true, Relaxed);
    assert_eq!((rig.renewed(2_999), rig.stats.scripts_missing.read()), (vec![], 1));
    assert_eq!(rig.renewed(3_000), [batcher.thread()]);
}

#[test]
fn a_version_that_comes_meanwhile_is_instance_enough_and_one_that_does_not_load_is_none() {
    let mut rig = with_companions();
    let [batcher, companion] = rig.guests();
    // One was made a moment ago, so that the next one waits.
    let spent = rig.spent(batcher, 1);
    rig.hear(spent);
    assert_eq!(rig.renewed(0), [batcher.thread()]);
    let spent = rig.spent(batcher, 1);
    rig.hear(spent);
    rig.folder.send(Err(("a.lua:3: no", false))).unwrap();
    // All that is due is done, and the time passes for it: what is made is of the version that goes on.
    rig.put(LoaderMail::Signal);
    assert_eq!(rig.handed(), (vec![(batcher.thread(), GuestVersion(1))], vec![]));
    assert_eq!(rig.stats.reloads_failed.read(), 1);
    let spent = rig.spent(batcher, 1);
    rig.hear(spent);
    rig.folder.send(Ok(Vec::new())).unwrap();
    rig.hear(LoaderMail::Signal);
    let all = rig.topology.scripted().count();
    assert_eq!(rig.renewed(1_500).len(), all, "the next version for each thread");
    // One takes it and uses its memory up before all have it.
    rig.holds(companion.thread(), 3, Vec::new());
    let spent = rig.spent(companion, 3);
    rig.hear(spent);
    assert_eq!(rig.renewed(60_000), [], "not before the version serves");
    rig.take(3, &[]);
    let threads: Vec<_> = rig.handed().0;
    assert_eq!(threads, [(companion.thread(), GuestVersion(3))], "the batcher wants none any more");
    assert_eq!(rig.stats.scripts_missing.read(), 0);
}

#[test]
fn loadings_and_instances_take_turns() {
    let mut rig = with_companions();
    let [batcher, companion] = rig.guests();
    for worker in [batcher, companion] {
        let spent = rig.spent(worker, 1);
        rig.hear(spent);
    }
    rig.hear(LoaderMail::Signal);
    rig.input(Input::Wake);
    // It has been read, and instances of it are made, for these two as well.
    let threads: BTreeSet<_> = rig.renewed(0).into_iter().collect();
    assert_eq!(threads, rig.topology.scripted().collect());
    rig.take(2, &[]);
    assert_eq!((rig.handed().0, rig.stats.scripts_renewed.read()), (vec![], 0));
    // After a loading it is their turn.
    rig.hear(LoaderMail::Signal);
    let spent = rig.spent(batcher, 2);
    rig.hear(spent);
    assert_eq!(rig.stats.reloads.read(), 1);
    rig.now = Now { mono_ns: rig.now.after_ms(2_000).mono_ns, ..rig.now };
    rig.input(Input::Wake);
    assert_eq!(rig.handed().0, [(batcher.thread(), GuestVersion(2))]);
}

#[test]
#[should_panic(expected = "which nobody has told it of")]
fn a_core_that_takes_what_it_was_not_told_of_ends_the_server() {
    let mut rig = Rig::new(Topology::new(1, 1, 1));
    rig.put(LoaderMail::Took { core: rig.topology.cores[0], version: GuestVersion(2) });
}

#[test]
fn a_folder_is_loaded_when_it_is_quiet_and_once() {
    let mut watch = Watch { loaded: 1, last: 1 };
    let looks = [1, 2, 3, 3, 3, 4, 3, 3, 1, 1];
    let seen: Vec<bool> = looks.into_iter().map(|look| watch.sees(look)).collect();
    let t = true;
    // 4 was gone before it was quiet, and 3 is loaded already.
    assert_eq!(seen, [!t, !t, !t, t, !t, !t, !t, !t, !t, t]);
}

#[test]
fn a_caller_has_another_instance_at_once_each_time_and_in_the_middle_of_a_loading() {
    let mut rig = with_companions();
    let caller = WorkerAddress::Caller(rig.topology.callers[0]);
    for _ in 0..3 {
        let spent = rig.spent(caller, 1);
        rig.hear(spent);
        assert_eq!(rig.renewed(0), [caller.thread()]);
    }
    // Before whoever is due with it.
    let [batcher, companion] = rig.guests();
    for worker in [batcher, caller] {
        let spent = rig.spent(worker, 1);
        rig.hear(spent);
    }
    assert_eq!(rig.renewed(0), [caller.thread(), batcher.thread()]);
    rig.hear(LoaderMail::Signal);
    rig.input(Input::Wake);
    // A core that has not wanted any yet is due before.
    for worker in [companion, caller] {
        let spent = rig.spent(worker, 1);
        rig.hear(spent);
    }
    for _ in 0..2 {
        rig.input(Input::Wake);
    }
    assert_eq!(rig.handed().0, [(caller.thread(), GuestVersion(1))], "the core has no turn");
    let all = rig.topology.scripted().count();
    assert_eq!(rig.renewed(0).len(), all, "and the next version for each thread");
}

#[test]
fn a_caller_is_told_when_there_is_no_instance_for_it_for_a_while() {
    let mut rig = with_companions();
    let caller = WorkerAddress::Caller(rig.topology.callers[0]);
    rig.is_well.store(false, Relaxed);
    let spent = rig.spent(caller, 1);
    rig.hear(spent);
    for (at_ms, times) in [(0, 1), (249, 1), (250, 2), (749, 2), (750, 3)] {
        assert_eq!(rig.renewed(at_ms), []);
        assert_eq!(rig.have_none, vec![caller.thread(); times], "{at_ms} ms");
    }
    rig.is_well.store(true, Relaxed);
    assert_eq!((rig.renewed(1_749), rig.renewed(1_750)), (vec![], vec![caller.thread()]));
    assert_eq!(rig.stats.scripts_missing.read(), 0);
}
