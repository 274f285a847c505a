//! Which threads are to have another instance of the version that serves, because calls have used up the
//! memory of theirs (`worker::spent`), and when. Where calls run elsewhere meanwhile (a core, the batch): at once for the
//! first time, and after a pause that doubles with each further time, until a thread has kept its memory for a minute. So a script that uses it up in
//! each call has one loading of the modules a minute of this thread, and other threads, and new versions, have
//! theirs in between. A caller has its at once each time: there is no other place, and who used it up waits.
//!
//! In comes who wants an instance; out goes who is to have the next one. What is wanted for an older version
//! than the one that serves is forgotten: then the newer one has been posted.

use std::collections::BTreeMap;

use event::Now;
use game::guest::GuestVersion;

use crate::mail::WorkerAddress;

/// For a caller before the next try, where modules do not load, milliseconds, and after further ones.
const RETRY_MS: u64 = 250;
const RETRY_MS_MAX: u64 = 1_000;
/// Before the second time, milliseconds.
const PAUSE_MS: u64 = 1_000;
/// And at most; for so long a thread has to keep its memory until it begins with none again.
const PAUSE_MS_MAX: u64 = 64_000;

/// One thread that has wanted an instance of late.
#[derive(Debug)]
struct Wish {
    worker: WorkerAddress,
    /// Of which version, if it wants one.
    wanted: Option<GuestVersion>,
    due_ns: u64,
    /// From the next time that it wants one until it is made.
    pause_ms: u64,
    /// Whether it is a caller.
    is_urgent: bool,
    /// How often in a row it did not load.
    failures: u32,
}

impl Wish {
    /// It is due after a pause: a caller's of so many milliseconds.
    fn put_off(&mut self, now: Now, of_caller_ms: u64) {
        let pause_ms = if self.is_urgent { of_caller_ms } else { self.pause_ms };
        self.due_ns = now.after_ms(pause_ms).mono_ns;
        self.pause_ms = (self.pause_ms * 2).clamp(PAUSE_MS, PAUSE_MS_MAX);
    }
}

/// All threads that want one, or have of late.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    /// By their numbers.
    threads: BTreeMap<u16, Wish>,
}

impl Renewals {
    /// A thread wants an instance: a caller, or one that others stand in for.
    pub(super) fn want(
        &mut self,
        now: Now,
        worker: WorkerAddress,
        is_urgent: bool,
        version: GuestVersion,
    ) {
        let forgets_ns = |one: &Wish| one.due_ns.saturating_add(PAUSE_MS_MAX * 1_000_000);
        self.threads.retain(|_, one| one.wanted.is_some() || now.mono_ns < forgets_ns(one));
        let one = self.threads.entry(worker.thread().0).or_insert(Wish {
            worker,
            wanted: None,
            due_ns: 0,
            pause_ms: 0,
            is_urgent,
            failures: 0,
        });
        one.wanted = Some(version);
        one.put_off(now, 0);
    }

    /// What was to be made for it does not load: it is tried again later. Gives whether it is a caller.
    pub(super) fn failed(&mut self, now: Now, worker: WorkerAddress) -> bool {
        let Some(one) = self.threads.get_mut(&worker.thread().0) else {
            unreachable!("{worker:?} was made what it has not wanted")
        };
        let retry_ms = (RETRY_MS << one.failures.min(8)).min(RETRY_MS_MAX);
        one.failures += 1;
        one.put_off(now, retry_ms);
        one.is_urgent
    }

    /// Only this version can be made.
    pub(super) fn forget_all_but(&mut self, version: GuestVersion) {
        let wanted = self.threads.values_mut().map(|one| &mut one.wanted);
        wanted.filter(|wanted| **wanted != Some(version)).for_each(|wanted| *wanted = None);
    }

    /// How many want one.
    pub(super) fn wanted(&self) -> usize {
        self.wanting().count()
    }

    /// When the next one is to be made, nanoseconds.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.first().map(|one| one.due_ns)
    }

    /// The caller for which one is due and may load.
    pub(super) fn urgent(&self, now: Now) -> Option<WorkerAddress> {
        let may_load =
            |one: &&Wish| one.is_urgent && one.failures == 0 && one.due_ns <= now.mono_ns;
        self.wanting().filter(may_load).min_by_key(|one| one.due_ns).map(|one| one.worker)
    }

    /// Who is to have it, if it is due.
    pub(super) fn due(&self, now: Now) -> Option<WorkerAddress> {
        self.first().filter(|one| one.due_ns <= now.mono_ns).map(|one| one.worker)
    }

    /// It has been made.
    pub(super) fn made(&mut self, worker: WorkerAddress) {
        if let Some(one) = self.threads.get_mut(&worker.thread().0) {
            (one.wanted, one.failures) = (None, 0);
        }
    }

    /// Of those that are due together a caller's.
    fn first(&self) -> Option<&Wish> {
        self.wanting().min_by_key(|one| (one.due_ns, !one.is_urgent))
    }

    fn wanting(&self) -> impl Iterator<Item = &Wish> {
        self.threads.values().filter(|one| one.wanted.is_some())
    }
}
