//! Lends the `&mut dyn Host` of a call to the functions of a script that run inside it, without unsafe
//! code of ours: a VM's callbacks must own what they hold, so they find the host in a scoped
//! thread-local instead.

use std::cell::Cell;

use game::guest::{Ask, Host};
use game::host::HostFunction;
use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};

use crate::budget;

struct Lent<'a>(&'a mut (dyn Host + 'a));

impl<'a> ReborrowMut<'a> for Lent<'_> {
    type Result = Lent<'a>;

    fn reborrow_mut(&'a mut self) -> Lent<'a> {
        Lent(&mut *self.0)
    }
}

scoped_thread_local!(static mut HOST: for<'a> Lent<'a>);

thread_local! {
    static ASKED: Cell<Option<Asked>> = const { Cell::new(None) };
}

/// What a call is about to wait for, and the function that asks it.
pub(crate) struct Asked {
    pub(crate) function: &'static HostFunction,
    pub(crate) ask: Ask,
}

/// Keeps what a call asks until its coroutine has yielded, which is the next that it does: a pause before that would be
/// taken for the wait, and the answer would be lost.
pub(crate) fn put_asked(asked: Asked) {
    budget::set_held(true);
    ASKED.set(Some(asked));
}

/// What the call that has yielded asks.
pub(crate) fn take_asked() -> Option<Asked> {
    ASKED.take()
}

/// Runs `call` with `host` lent to this thread's scripts.
pub fn lend<R>(host: &mut dyn Host, call: impl FnOnce() -> R) -> R {
    HOST.set(Lent(host), call)
}

/// Runs `with` on the lent host; `None` outside of [`lend`], and when a host function is running
/// already.
pub fn host<R>(with: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    if HOST.is_set() { Some(HOST.with(|lent| with(&mut *lent.0))) } else { None }
}
