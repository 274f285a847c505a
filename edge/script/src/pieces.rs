//! Calls in pieces: each runs in a coroutine of the VM for calls, until it ends or a host function
//! asks for something that another thread has. Then its coroutine is kept with what the call did to
//! globals and what is left of its time, and other calls run in the same VM; the answer becomes what
//! the host function returns.
//!
//! Where calls share their thread with sockets (`LuaLimits::slice_us`), one that computes for longer than
//! its slice yields as well, at an interrupt, and is kept in the same way until it is gone on with.
//!
//! A coroutine whose call is over takes the next one (`entry.serve` in calls.lua), because making one
//! costs as much as a small call. Not here: which function is called, and what its results mean
//! (`calls`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use game::guest::{Answer, Ask, CallId, Host, ScriptError, ScriptFailure};
use game::host::{Args, HostFunction};
use mlua::{Function, MultiValue, Table, Thread, Value as LuaValue};

use crate::budget::{self, VmMeter};
use crate::calls::settle;
use crate::failure::{self, Limits};
use crate::lend::{self, Asked};
use crate::vm::{self, Vm};

/// Coroutines that are kept for calls to come.
const IDLE_MAX: usize = 16;

/// What a coroutine yields: what came of a call (`calls::Outcome`), or nothing if it waits.
type Yielded = (Option<bool>, LuaValue, LuaValue, LuaValue);

/// The coroutines of one VM.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// What each of them runs.
    serve: Function,
    slice_us: Option<u32>,
    /// With the category of memory that each was made with.
    idle: RefCell<Vec<(u8, Thread)>>,
    waiting: RefCell<BTreeMap<CallId, Waiting>>,
}

/// A call that waits or is paused.
#[derive(Debug)]
struct Waiting {
    coroutine: Thread,
    category: u8,
    /// Which function of the host asked; none if it is paused.
    function: Option<&'static HostFunction>,
    left_ns: u64,
    /// What it did to globals, if it did.
    written: Option<Table>,
}

/// How far a call has come.
pub(crate) enum Piece {
    Ended(Result<LuaValue, ScriptError>),
    Waits(Ask),
    Paused,
}

impl Pieces {
    pub(crate) fn new(serve: Function, slice_us: Option<u32>) -> Self {
        Self { serve, slice_us, idle: RefCell::default(), waiting: RefCell::default() }
    }

    /// Runs a call with these arguments of `entry.serve`. What it takes has this category.
    pub(crate) fn begin(
        &self,
        vm: &Vm,
        limits: &Limits,
        host: &mut dyn Host,
        (id, category): (CallId, u8),
        arguments: MultiValue,
    ) -> Piece {
        let idle = self.take_idle(category);
        let coroutine = idle.map_or_else(|| vm.lua.create_thread(self.serve.clone()), Ok);
        match coroutine {
            Ok(coroutine) => {
                let left_ns = host.slice_us().map_or_else(
                    || u64::from(limits.call.budget_ms) * 1_000_000,
                    |slice_us| u64::from(slice_us) * 1_000,
                );
                self.run(vm, limits, host, (id, category, coroutine, left_ns), || Ok(arguments))
            }
            Err(error) => Piece::Ended(Err(failure::internal(limits, &error))),
        }
    }

    /// Goes on with a call that waits for this answer, or is paused; `None` if none of this number is.
    pub(crate) fn resume(
        &self,
        vm: &Vm,
        limits: &Limits,
        host: &mut dyn Host,
        (id, answer): (CallId, Option<Answer>),
    ) -> Option<Piece> {
        let waiting = self.waiting.borrow_mut().remove(&id)?;
        let Waiting { coroutine, category, function, left_ns, written } = waiting;
        if let Some(written) = written
            && let Err(error) = vm.put_back(&written)
        {
            // What was put back before is not the next call's to see.
            let cleared = vm.clear_up();
            let error = cleared.err().unwrap_or(error);
            return Some(Piece::Ended(Err(failure::internal(limits, &error))));
        }
        Some(self.run(vm, limits, host, (id, category, coroutine, left_ns), || {
            let (function, answer) = match (function, answer) {
                (Some(function), Some(answer)) => (function, answer),
                (None, None) => return Ok(MultiValue::new()),
                _ => unreachable!("{id:?} is answered and did not ask, or the other way round"),
            };
            let meter = VmMeter::new(&vm.lua);
            let args = Args { function: function.name, values: &[], meter: &meter };
            match lend::host(|host| function.answered(host, &args, answer)) {
                Some(result) => vm::results(&vm.lua, result),
                None => Err(mlua::Error::runtime("no host to call")),
            }
        }))
    }

    /// Forgets a call that waits or is paused.
    pub(crate) fn cancel(&self, id: CallId) {
        self.waiting.borrow_mut().remove(&id);
    }

    /// Where a call that waits or is paused stands.
    pub(crate) fn location(&self, vm: &Vm, id: CallId) -> String {
        let waiting = self.waiting.borrow();
        waiting.get(&id).map_or_else(String::new, |it| failure::where_it_waits(vm, &it.coroutine))
    }

    /// The calls that wait, which nobody can go on with once the VM is gone.
    pub(crate) fn waiting(&self) -> Vec<CallId> {
        self.waiting.borrow().keys().copied().collect()
    }

    /// A coroutine that has nothing to do, and was made with this category.
    fn take_idle(&self, category: u8) -> Option<Thread> {
        let mut idle = self.idle.borrow_mut();
        let place = idle.iter().rposition(|(of, _)| *of == category)?;
        Some(idle.swap_remove(place).1)
    }

    fn put_idle(&self, category: u8, coroutine: Thread) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() == IDLE_MAX {
            // Whose category it has may have no more calls.
            idle.remove(0);
        }
        idle.push((category, coroutine));
    }

    /// Gives back the memory of coroutines that have nothing to do.
    pub(crate) fn clear_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Runs a coroutine until its call is over or waits. `arguments` are made when its budget runs
    /// and its host is lent.
    fn run(
        &self,
        vm: &Vm,
        limits: &Limits,
        host: &mut dyn Host,
        (id, category, coroutine, left_ns): (CallId, u8, Thread, u64),
        arguments: impl FnOnce() -> mlua::Result<MultiValue>,
    ) -> Piece {
        let running = budget::go_on(limits.call.allowed(), left_ns);
        if let Some(slice_us) = self.slice_us {
            budget::begin_slice(slice_us);
        }
        let pacing = vm.begin_gc_pacing();
        let returned = lend::lend(host, || coroutine.resume::<Yielded>(arguments()?));
        let (asked, was_paused) = (lend::take_asked(), budget::end_slice());
        let yielded = match (&returned, asked) {
            (Ok((None, ..)), Some(Asked { function, ask })) => {
                Some((Some(function), Piece::Waits(ask)))
            }
            (Ok((None, ..)), None) if was_paused => Some((None, Piece::Paused)),
            _ => None,
        };
        let piece = match yielded {
            Some((function, piece)) => match running.pause() {
                Ok(left_ns) => match vm.set_aside() {
                    Ok(written) => {
                        let waiting = Waiting { coroutine, category, function, left_ns, written };
                        let other = self.waiting.borrow_mut().insert(id, waiting);
                        assert!(other.is_none(), "{id:?} waits twice");
                        piece
                    }
                    Err(error) => Piece::Ended(Err(failure::internal(limits, &error))),
                },
                Err(location) => {
                    Piece::Ended(Err(failure::out_of_time(limits, location, &Ok(NOTHING))))
                }
            },
            None => {
                let returned = returned.and_then(|(is_ok, first, second, third)| match is_ok {
                    Some(is_ok) => Ok((is_ok, first, second, third)),
                    None => Err(mlua::Error::runtime("a call has yielded by itself")),
                });
                let is_kept = returned.is_ok();
                let ended = settle(running, limits, returned);
                if is_kept {
                    self.put_idle(category, coroutine);
                }
                Piece::Ended(ended.map(|(value, _)| value))
            }
        };
        vm.end_gc_pacing(pacing);
        if let Err(error) = vm.clear_up() {
            // It has its error, so nobody will go on with it.
            self.waiting.borrow_mut().remove(&id);
            return Piece::Ended(Err(failure::internal(limits, &error)));
        }
        vm.count_memory();
        piece
    }
}

/// What came of a call that was stopped while it asked.
const NOTHING: crate::calls::Outcome = (true, LuaValue::Nil, LuaValue::Nil, LuaValue::Nil);

/// The error of a call that waited in a VM that is gone.
pub(crate) fn lost() -> ScriptError {
    ScriptError {
        code: failure::INTERNAL,
        message: "the scripts' memory was used up by another call while this one waited \
                  (runtime.memory_max_bytes)"
            .to_owned(),
        location: String::new(),
        kind: ScriptFailure::Cancelled,
    }
}
