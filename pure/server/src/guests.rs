//! The versions of the guest code that one thread has: the newest, on which calls begin, and older ones on
//! which calls still wait. An older one goes with the last of its calls, and with it its VM, its memory and
//! its compiled code, unless matches hold that.
//!
//! What comes in is a version by mail ([`NewGuests`]), between two calls; never in the middle of one. Not
//! here: who makes versions (`loader`), and matches, which hold their own (`room`).

use game::api::Style;
use game::guest::{GuestVersion, Registered, Scripts};

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

/// Guest code of a version that its thread is done with. To free it may take longer than others on that
/// thread are to wait, so that the loader's does it.
pub struct Retired(#[expect(dead_code, reason = "to be dropped")] Box<dyn Scripts + Send>);

impl Retired {
    /// What ran there.
    pub(crate) fn new(scripts: Box<dyn Scripts + Send>) -> Self {
        Self(scripts)
    }
}

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Retired").finish_non_exhaustive()
    }
}

/// One version.
struct Held {
    version: GuestVersion,
    scripts: Box<dyn Scripts + Send>,
    /// Calls that have begun on it and are not over.
    calls: usize,
}

/// What one worker has.
pub(crate) struct Guests {
    newest: Held,
    /// Oldest first; each has calls.
    older: Vec<Held>,
}

impl Guests {
    /// The version that the server starts with.
    pub(crate) fn new(scripts: Box<dyn Scripts + Send>) -> Self {
        let newest = Held { version: GuestVersion::FIRST, scripts, calls: 0 };
        Self { newest, older: Vec::new() }
    }

    /// The version on which calls begin.
    pub(crate) fn version(&self) -> GuestVersion {
        self.newest.version
    }

    /// What the newest version has registered.
    pub(crate) fn registered(&self) -> &Registered {
        self.newest.scripts.registered()
    }

    /// How a hook of the newest version sees messages.
    pub(crate) fn form_style(&self, hook: &str) -> Style {
        self.newest.scripts.form_style(hook)
    }

    /// A call begins. Gives the version on which it runs to its end.
    pub(crate) fn begin(&mut self) -> GuestVersion {
        self.newest.calls += 1;
        self.newest.version
    }

    /// The scripts of a version on which a call is under way.
    pub(crate) fn of(&mut self, version: GuestVersion) -> &mut dyn Scripts {
        &mut *self.held(version).scripts
    }

    /// A call of this version is over. Gives the scripts of an older version of which it was the last.
    #[must_use]
    pub(crate) fn end(&mut self, version: GuestVersion) -> Option<Retired> {
        let held = self.held(version);
        assert!(held.calls > 0, "more calls of version {version} end than began");
        held.calls -= 1;
        if held.calls > 0 || version == self.newest.version {
            return None;
        }
        let at = self.older.iter().position(|held| held.version == version)?;
        Some(Retired::new(self.older.remove(at).scripts))
    }

    /// Calls begin on this version from now on. Gives the scripts of the one before, if none of its calls is
    /// under way.
    ///
    /// # Panics
    /// It is not newer than the newest one.
    #[must_use]
    pub(crate) fn take_on(
        &mut self,
        version: GuestVersion,
        scripts: Box<dyn Scripts + Send>,
    ) -> Option<Retired> {
        let before = self.newest.version;
        assert!(version > before, "version {version} comes after version {before}");
        let old = std::mem::replace(&mut self.newest, Held { version, scripts, calls: 0 });
        if old.calls == 0 {
            return Some(Retired::new(old.scripts));
        }
        self.older.push(old);
        None
    }

    /// The older versions, and how many calls of each are under way.
    pub(crate) fn older(&self) -> impl Iterator<Item = (GuestVersion, usize)> + '_ {
        self.older.iter().map(|held| (held.version, held.calls))
    }

    fn held(&mut self, version: GuestVersion) -> &mut Held {
        if version == self.newest.version {
            return &mut self.newest;
        }
        match self.older.iter_mut().find(|held| held.version == version) {
            Some(held) => held,
            None => unreachable!("version {version} was dropped while a call of it was under way"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use game::guest::{
        Answer, CallContext, CallId, GuestCall, GuestVersion, Host, MatchContext, MatchScript,
        Registered, Returned, ScriptError, Scripts, Step,
    };

    use super::Guests;

    /// Guest code that nobody calls; the count of its `Arc` tells whether it is still held.
    pub(crate) struct Idle(Registered, #[allow(dead_code, reason = "counted")] Arc<()>);

    impl Idle {
        pub(crate) fn new(registered: Registered) -> Self {
            Self(registered, Arc::default())
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
        (Box::new(Idle(registered, Arc::clone(&held))), held)
    }

    #[test]
    fn calls_end_on_the_version_on_which_they_began_and_the_last_one_drops_it() {
        let ((first, first_held), (second, _), (third, third_held)) =
            (idle("one"), idle("two"), idle("three"));
        let mut guests = Guests::new(first);
        let (waits, quick) = (guests.begin(), guests.begin());
        assert_eq!((waits, guests.version()), (GuestVersion::FIRST, GuestVersion::FIRST));
        assert!(guests.end(quick).is_none(), "the newest version stays");
        assert!(guests.take_on(GuestVersion(2), second).is_none());
        assert!(guests.older().eq([(GuestVersion::FIRST, 1)]));
        assert_eq!(guests.begin(), GuestVersion(2));
        assert_eq!(guests.of(waits).registered().rpc, ["one"]);
        assert_eq!(guests.registered().rpc, ["two"]);
        assert!(guests.take_on(GuestVersion(4), third).is_none());
        assert!(guests.older().map(|(version, _)| version.0).eq([1, 2]));
        assert_eq!(Arc::strong_count(&first_held), 2);
        let retired = guests.end(waits);
        assert_eq!(Arc::strong_count(&first_held), 2, "others free it");
        drop(retired);
        assert_eq!(Arc::strong_count(&first_held), 1);
        assert!(guests.end(GuestVersion(2)).is_some() && guests.older().next().is_none());
        let (fourth, _) = idle("four");
        assert!(guests.take_on(GuestVersion(5), fourth).is_some());
        assert_eq!(Arc::strong_count(&third_held), 1, "without calls a version goes at once");
    }

    #[test]
    #[should_panic(expected = "version 2 comes after version 2")]
    fn versions_only_rise() {
        let mut guests = Guests::new(idle("one").0);
        drop(guests.take_on(GuestVersion(2), idle("two").0));
        drop(guests.take_on(GuestVersion(2), idle("two").0));
    }
}
