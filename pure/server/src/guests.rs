//! The versions of the guest code that one thread has: the newest, on which calls begin, and older ones on
//! which calls still wait. An older one goes with the last of its calls, and with it its VM, its memory and
//! its compiled code, unless matches hold that.
//!
//! Where nobody may wait for modules that load, a version whose memory calls have used up is spent: no call
//! begins on it until another instance of it has come, and what waited in it ends with an error.
//!
//! What comes in is an instance by mail ([`NewGuests`]), between two calls; never in the middle of one. Not
//! here: who makes them (`loader`), and matches, which hold their own (`room`).

use game::guest::{Callee, GuestVersion, HookForm, Registered, Retired, Scripts};

use crate::resources::Said;

/// A version of the guest code for one thread.
pub struct NewGuests {
    /// Its number.
    pub version: GuestVersion,
    /// What runs it.
    pub scripts: Box<dyn Scripts + Send>,
    /// What its modules said while they loaded and others are still to be told.
    pub said: Said,
}

impl std::fmt::Debug for NewGuests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewGuests").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What a call begins on, and runs on to its end: an instance of a version. A thread has one of each version,
/// or more in turn if calls use up its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Of which version.
    pub(crate) version: GuestVersion,
    /// No two of a thread have the same.
    number: u32,
}

/// What a call has left of a memory that is used up.
pub(crate) struct SpentMemory {
    /// To be freed by another thread.
    pub(crate) left: Retired,
    /// Whether others had taken most of it.
    pub(crate) is_by_others: bool,
}

/// One instance.
struct Held {
    instance: Instance,
    scripts: Box<dyn Scripts + Send>,
    /// Calls that have begun on it and are not over.
    calls: usize,
    /// Its memory is used up: no call begins on it.
    is_spent: bool,
}

/// What one worker has.
pub(crate) struct Guests {
    newest: Held,
    /// Oldest first; each has calls.
    older: Vec<Held>,
}

impl Held {
    fn new(instance: Instance, scripts: Box<dyn Scripts + Send>) -> Self {
        Self { instance, scripts, calls: 0, is_spent: false }
    }
}

impl Guests {
    /// The version that the server starts with.
    pub(crate) fn new(scripts: Box<dyn Scripts + Send>) -> Self {
        let first = Instance { version: GuestVersion::FIRST, number: 0 };
        Self { newest: Held::new(first, scripts), older: Vec::new() }
    }

    /// The version on which calls begin.
    pub(crate) fn version(&self) -> GuestVersion {
        self.newest.instance.version
    }

    /// Whether calls may begin: the memory of the newest version is not used up.
    pub(crate) fn is_ready(&self) -> bool {
        !self.newest.is_spent
    }

    /// Whether a call of this function may begin where others wait for the thread.
    pub(crate) fn has_room(&self, callee: Callee<'_>) -> bool {
        self.is_ready() && self.newest.scripts.has_room(callee)
    }

    /// What the newest version has registered.
    pub(crate) fn registered(&self) -> &Registered {
        self.newest.scripts.registered()
    }

    /// How a hook of the newest version sees messages.
    pub(crate) fn hook_form(&self, hook: Callee<'_>) -> HookForm {
        self.newest.scripts.hook_form(hook)
    }

    /// A call begins. Gives the instance on which it runs to its end.
    ///
    /// # Panics
    /// The memory of the newest version is used up ([`Self::is_ready`]).
    pub(crate) fn begin(&mut self) -> Instance {
        assert!(self.is_ready(), "a call begins where no memory is left");
        self.newest.calls += 1;
        self.newest.instance
    }

    /// The scripts of an instance on which a call is under way.
    pub(crate) fn of(&mut self, instance: Instance) -> &mut dyn Scripts {
        &mut *self.held(instance).scripts
    }

    /// Whether it is there: it is the newest one, or calls of it are under way.
    pub(crate) fn has(&self, instance: Instance) -> bool {
        let mut held = self.older.iter().chain([&self.newest]);
        held.any(|held| held.instance == instance)
    }

    /// Looks whether a call that is under way has used up the memory of its instance. Gives what is left
    /// of that.
    pub(crate) fn take_spent(&mut self, instance: Instance) -> Option<SpentMemory> {
        let held = self.held(instance);
        let left = held.scripts.take_spent()?;
        assert!(!held.is_spent, "the memory of {instance:?} is used up twice");
        held.is_spent = true;
        Some(SpentMemory { left, is_by_others: held.scripts.is_spent_by_others() })
    }

    /// What calls of this instance have left behind, for another thread to free.
    pub(crate) fn take_left(&mut self, instance: Instance) -> Option<Retired> {
        self.held(instance).scripts.take_left()
    }

    /// A call of this instance is over. Gives the scripts of an older one of which it was the last.
    #[must_use]
    pub(crate) fn end(&mut self, instance: Instance) -> Option<Retired> {
        let held = self.held(instance);
        assert!(held.calls > 0, "more calls of {instance:?} end than began");
        held.calls -= 1;
        if held.calls > 0 || instance == self.newest.instance {
            return None;
        }
        let at = self.older.iter().position(|held| held.instance == instance)?;
        Some(Retired::new(self.older.remove(at).scripts))
    }

    /// Whether calls may begin on another instance, of this version.
    pub(crate) fn wants(&self, version: GuestVersion) -> bool {
        let newest = self.version();
        version > newest || version == newest && !self.is_ready()
    }

    /// Calls begin on this instance from now on. Gives the scripts of the one before, if none of its calls
    /// is under way.
    ///
    /// # Panics
    /// It is not wanted ([`Self::wants`]): of an older version than the newest one, or of the same whose memory is not used up.
    #[must_use]
    pub(crate) fn take_on(
        &mut self,
        version: GuestVersion,
        scripts: Box<dyn Scripts + Send>,
    ) -> Option<Retired> {
        let Instance { version: before, number } = self.newest.instance;
        assert!(self.wants(version), "version {version} comes after version {before}");
        let instance = Instance { version, number: number.wrapping_add(1) };
        let old = std::mem::replace(&mut self.newest, Held::new(instance, scripts));
        if old.calls == 0 {
            return Some(Retired::new(old.scripts));
        }
        self.older.push(old);
        None
    }

    /// The instances of the newest version before the last two: what waits on those is to end, so that they do not
    /// pile up where calls use up the memory of each in turn.
    pub(crate) fn piled_up(&self) -> impl Iterator<Item = Instance> + '_ {
        let newest = self.version();
        let of_newest = self.older.iter().map(|held| held.instance);
        let mut of_newest = of_newest.filter(move |it| it.version == newest).rev();
        of_newest.next();
        of_newest
    }

    /// Older versions, and how many calls of each are under way; one may be there more than once.
    pub(crate) fn older(&self) -> impl Iterator<Item = (GuestVersion, usize)> + '_ {
        let older = self.older.iter().map(|held| (held.instance.version, held.calls));
        older.filter(|(version, _)| *version != self.version())
    }

    fn held(&mut self, instance: Instance) -> &mut Held {
        if instance == self.newest.instance {
            return &mut self.newest;
        }
        match self.older.iter_mut().find(|held| held.instance == instance) {
            Some(held) => held,
            None => unreachable!("{instance:?} was dropped while a call of it was under way"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use game::guest::{
        Answer, CallContext, CallId, GuestCall, GuestVersion, Host, MatchContext, MatchScript,
        Registered, Retired, Returned, ScriptError, Scripts, Step,
    };

    use super::Guests;

    /// Guest code that nobody calls; the count of its `Arc` tells whether it is still held. Its memory may be
    /// used up, which shows when somebody looks first.
    pub(crate) struct Idle(Registered, #[allow(dead_code, reason = "counted")] Arc<()>, bool);

    impl Idle {
        pub(crate) fn new(registered: Registered) -> Self {
            Self(registered, Arc::default(), false)
        }
    }

    impl Scripts for Idle {
        fn registered(&self) -> &Registered {
            &self.0
        }

        fn call(
            &mut self,
            _: &mut dyn Host,
            _: CallId,
            _: &CallContext,
            _: GuestCall<'_>,
        ) -> Step<Returned> {
            unreachable!("it is called")
        }

        fn resume(&mut self, _: &mut dyn Host, _: CallId, _: Answer) -> Step<Returned> {
            unreachable!("it is gone on with")
        }

        fn cancel(&mut self, _: CallId) {}

        fn take_spent(&mut self) -> Option<Retired> {
            std::mem::take(&mut self.2).then(|| Retired::new(()))
        }

        fn match_new(
            &mut self,
            _: &mut dyn Host,
            _: &MatchContext,
            _: &str,
        ) -> Result<Box<dyn MatchScript>, ScriptError> {
            unreachable!("a match is made of it")
        }
    }

    fn idle(rpc: &str) -> (Box<dyn Scripts + Send>, Arc<()>) {
        let held = Arc::new(());
        let registered = Registered { rpc: vec![rpc.to_owned()], ..Registered::default() };
        // Its memory is used up when the first call looks.
        (Box::new(Idle(registered, Arc::clone(&held), rpc == "full")), held)
    }

    #[test]
    fn calls_end_on_the_version_on_which_they_began_and_the_last_one_drops_it() {
        let ((first, first_held), (second, _), (third, third_held)) =
            (idle("one"), idle("two"), idle("three"));
        let mut guests = Guests::new(first);
        let (waits, quick) = (guests.begin(), guests.begin());
        assert_eq!((waits.version, guests.version()), (GuestVersion::FIRST, GuestVersion::FIRST));
        assert!(guests.end(quick).is_none(), "the newest version stays");
        assert!(guests.take_on(GuestVersion(2), second).is_none());
        assert!(guests.older().eq([(GuestVersion::FIRST, 1)]));
        let second = guests.begin();
        assert_eq!(second.version, GuestVersion(2));
        assert_eq!(guests.of(waits).registered().rpc, ["one"]);
        assert_eq!(guests.registered().rpc, ["two"]);
        assert!(guests.take_on(GuestVersion(4), third).is_none());
        assert!(guests.older().map(|(version, _)| version.0).eq([1, 2]));
        assert_eq!(Arc::strong_count(&first_held), 2);
        assert!(guests.has(waits) && guests.has(second));
        let retired = guests.end(waits);
        assert!(!guests.has(waits) && guests.has(second));
        assert_eq!(Arc::strong_count(&first_held), 2, "others free it");
        drop(retired);
        assert_eq!(Arc::strong_count(&first_held), 1);
        assert!(guests.end(second).is_some() && guests.older().next().is_none());
        let (fourth, _) = idle("four");
        assert!(guests.take_on(GuestVersion(5), fourth).is_some());
        assert_eq!(Arc::strong_count(&third_held), 1, "without calls a version goes at once");
    }

    #[test]
    fn one_whose_memory_is_used_up_has_its_calls_until_they_end_and_another_one_has_the_next() {
        let (full, held) = idle("full");
        let mut guests = Guests::new(full);
        let (waits, fills) = (guests.begin(), guests.begin());
        assert!(guests.is_ready() && guests.take_spent(fills).is_some() && !guests.is_ready());
        assert!(guests.take_spent(fills).is_none(), "once");
        assert!(guests.end(fills).is_none());
        assert!(guests.take_on(GuestVersion::FIRST, idle("again").0).is_none());
        let next = guests.begin();
        assert_eq!((next.version, guests.is_ready()), (waits.version, true));
        assert_eq!(guests.of(waits).registered().rpc, ["full"]);
        assert_eq!(guests.of(next).registered().rpc, ["again"]);
        assert!(guests.older().next().is_none(), "it is no older version");
        let retired = guests.end(waits);
        assert!(retired.is_some() && Arc::strong_count(&held) == 2);
        drop(retired);
        assert_eq!((Arc::strong_count(&held), guests.end(next).is_none()), (1, true));
    }

    #[test]
    fn instances_pile_up_whose_memory_is_used_up_while_calls_wait_there() {
        let mut guests = Guests::new(idle("full").0);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let waits = guests.begin();
                assert!(guests.take_spent(waits).is_some());
                assert!(guests.take_on(GuestVersion::FIRST, idle("full").0).is_none());
                waits
            })
            .collect();
        assert_eq!(guests.piled_up().collect::<Vec<_>>(), [waiting[1], waiting[0]]);
        // Of an older version they end with that.
        assert!(guests.take_on(GuestVersion(2), idle("next").0).is_some());
        assert_eq!(guests.piled_up().count(), 0);
    }

    #[test]
    #[should_panic(expected = "a call begins where no memory is left")]
    fn no_call_begins_where_no_memory_is_left() {
        let mut guests = Guests::new(idle("full").0);
        let fills = guests.begin();
        assert!(guests.take_spent(fills).is_some());
        guests.begin();
    }

    #[test]
    #[should_panic(expected = "version 2 comes after version 2")]
    fn versions_only_rise() {
        let mut guests = Guests::new(idle("one").0);
        drop(guests.take_on(GuestVersion(2), idle("two").0));
        drop(guests.take_on(GuestVersion(2), idle("two").0));
    }
}
